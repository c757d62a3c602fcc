"""What operators see at `/metrics`: named fields with help and unit, labels from bounded sets only."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """One set per server, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = Gauge("gateway_connections", "Open connections", registry=self.registry)
        self.loop_delay = Histogram(
            "gateway_loop_delay_seconds",
            "How late the event loop was",
            registry=self.registry,
            buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 1.0),
        )
        self.requests = self._counter("requests", "Requests by method and result", "method", "result")
        self.dropped = self._counter("notifications_dropped", "Messages of clients that are no requests")
        self.closes = self._counter("closes", "Connections closed by the gateway, by code", "code")
        self.publishes = self._counter("publishes", "Publishes and patches by result", "result")
        self.afters = self._counter("afters", "Incremental observations sent")
        self.invalidations = self._counter("invalidations", "Invalidated events sent, by kind of reason", "kind")
        self.gaps = self._counter("gaps", "Revisions found missing, by how it was found", "cause")
        self.resubscribed = self._counter("resubscribed", "Times the store's event link was replaced or in doubt")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"gateway_{name}", text, labels, registry=self.registry)

    def invalidated(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.invalidations.labels(kind).inc()

    def published(self, result: str) -> None:
        self.publishes.labels(result).inc()
