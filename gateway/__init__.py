"""context-gateway: live, bounded business context for agents, copilots and monitors."""

__version__ = "0.1.0"
