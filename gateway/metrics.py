"""What operators see at `/metrics`: named fields with help and unit, labels from bounded sets only."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Holdings(NamedTuple):
    """What a node holds: sessions with a replica, views of them, connections that watch these (one for each view)."""

    sessions: int
    views: int
    watchers: int


class Metrics:
    """One set per server, on a registry of its own.

    `frames_out`, `bytes_out`: plain numbers, for a fan-out counts once per watcher. `held`: asked when somebody looks.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.frames_out = 0
        self.bytes_out = 0
        self.held: Callable[[], Holdings] = lambda: Holdings(0, 0, 0)
        self.registry.register(_Counted(self))
        self.connections = Gauge("gateway_connections", "Open connections", registry=self.registry)
        self.loop_delay = Histogram(
            "gateway_loop_delay_seconds",
            "How late the event loop was",
            registry=self.registry,
            buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 1.0),
        )
        self.loop_delay_worst = Gauge(
            "gateway_loop_delay_worst_seconds", "The longest delay of the event loop so far", registry=self.registry
        )
        self._worst_s = 0.0
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

    def delayed(self, late_s: float) -> None:
        self.loop_delay.observe(late_s)
        if late_s > self._worst_s:
            self._worst_s = late_s
            self.loop_delay_worst.set(late_s)

    def invalidated(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            self.invalidations.labels(kind).inc()

    def published(self, result: str) -> None:
        self.publishes.labels(result).inc()


class _Counted:
    """The numbers that are not kept in Prometheus's own objects."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        metrics, held = self._metrics, self._metrics.held()
        yield CounterMetricFamily("gateway_frames_sent", "Text frames sent", metrics.frames_out)
        yield CounterMetricFamily("gateway_sent_bytes", "Bytes of text frames sent", metrics.bytes_out)
        yield GaugeMetricFamily("gateway_sessions_held", "Sessions this node holds a replica of", held.sessions)
        yield GaugeMetricFamily("gateway_views", "Views watched on this node", held.views)
        yield GaugeMetricFamily("gateway_watchers", "Connections by view they watch, summed", held.watchers)
