"""The pure core: no await, no socket, no clock, no randomness, no redis."""
