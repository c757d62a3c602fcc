"""One peer: frames in, requests to the service, replies and shared frames out, in one order and within bounds.

All text leaves as prepared frames through `transport.write`; nothing is written once our close frame is out. What waits
in the transport's buffer is the outbox: above `limits.outboxBytes` shared frames are refused and nothing more is read,
neither messages nor pings, and requests read before are not begun.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from gateway import __version__
from gateway.core import messages
from gateway.core.errors import GatewayError, internal
from gateway.core.limits import BURST, PING_RATE, WRITE_RATE, Limits
from gateway.core.messages import Refused, Request
from gateway.core.params import WRITES
from gateway.frames import Frame
from gateway.metrics import Metrics
from gateway.rate import Bucket
from gateway.service import Service

PROTOCOL: Final = "context.v1"
CLOSE_S: Final = 5.0
"""Seconds a peer has to answer our close frame; then the connection is cut."""
VIOLATIONS: Final = 100
"""Messages in a row that are no request at all; then close 4504."""
DEFLATED_FROM: Final = 256
"""Bytes of text from which a frame is compressed for those who asked: smaller ones hardly shrink."""
GRANTS: Final = [{"prefix": "", "can": ["describe", "invoke", "approve", "publish", "presence", "operate"]}]
"""Without authentication a connection has all of them (protocol §3.1)."""
PING_FRAME: Final = b"\x89\x00"
REASONS: Final = {
    1003: "binary messages are not taken",
    1011: "internal",
    1012: "draining",
    1013: "over capacity",
    4001: "too slow",
    4004: "silent",
    4504: "repeated protocol violation",
}
log = structlog.get_logger("gateway.connection")


class Wire(ServerConnection):
    """The library's connection, with the loop time of the last byte that came.

    The socket is read while neither the library (frames queued) nor a full outbox is against it: a peer that pings and
    reads nothing would else fill the outbox with our pongs.
    """

    heard = 0.0
    _queue_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard = self.loop.time()
        super().connection_made(transport)
        self.recv_messages.pause = lambda: self._read_on(queue_full=True)
        self.recv_messages.resume = lambda: self._read_on(queue_full=False)

    def data_received(self, data: bytes) -> None:
        self.heard = self.loop.time()
        super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._read_on(queue_full=self._queue_full)

    def _read_on(self, *, queue_full: bool) -> None:
        self._queue_full = queue_full
        if self.transport.is_closing():
            return
        if queue_full or self.paused:
            self.transport.pause_reading()
        else:
            self.heard = self.loop.time()  # a silence of our making counts for nothing
            self.transport.resume_reading()

    async def room(self) -> None:
        """Return once the outbox is no longer full, or the link is broken."""
        if self.paused:
            with suppress(OSError):
                await self.drain()

    def is_open(self) -> bool:
        """Whether anything can still be written: no close frame went out, the link is not cut."""
        return self.state is State.OPEN and not self.transport.is_closing()

    def cut(self) -> None:
        """End the link now, whatever it is doing."""
        if hasattr(self, "transport"):
            self.transport.abort()

    def deflates(self) -> bool:
        """Whether permessage-deflate was agreed on."""
        return bool(self.protocol.extensions)


class Connection:
    """One peer as the hub and the server see it (`gateway.service.Peer`)."""

    def __init__(self, wire: Wire, name: str, service: Service, limits: Limits, metrics: Metrics) -> None:
        self.wire, self.name, self.service, self.limits, self.metrics = wire, name, service, limits, metrics
        self.views: dict[str, str] = {}
        self.full_since: float | None = None
        self.closing = False
        self.publishes = False
        self.pinged = wire.loop.time()
        self._in_flight: set[int | str] = set()
        self._idle = anyio.Event()
        self._writes = anyio.Lock()
        self._greeted = False
        self._violations = 0
        self._deflates = wire.deflates()
        now = wire.loop.time()
        self._requests = Bucket(limits.requests_per_second, BURST * limits.requests_per_second, now)
        self._buckets = {"publish": Bucket(*WRITE_RATE, now), "ping": Bucket(*PING_RATE, now)}
        self._buckets["patch"] = self._buckets["publish"]

    def __repr__(self) -> str:
        return f"<Connection {self.name} views={len(self.views)} in_flight={len(self._in_flight)}>"

    # Out

    def waiting(self) -> int:
        """Bytes in the outbox."""
        # uvloop raises for a link that is cut.
        return 0 if self.wire.transport.is_closing() else self.wire.transport.get_write_buffer_size()

    def deliver(self, frame: Frame) -> bool:
        """See `gateway.service.Peer.deliver`."""
        if not self.wire.is_open():
            return True
        data = self._bytes(frame)
        waiting = self.waiting()
        if self.full_since is not None or (waiting and waiting + len(data) > self.limits.outbox_bytes):
            if self.full_since is None:
                self.full_since = self.wire.loop.time()
            return False
        self.wire.transport.write(data)
        return True

    def reply(self, text: bytes) -> None:
        """Write a reply: never dropped."""
        if self.wire.is_open():
            self.wire.transport.write(self._bytes(Frame(text)))

    def _bytes(self, frame: Frame) -> bytes:
        return frame.deflated() if self._deflates and len(frame.text) >= DEFLATED_FROM else frame.plain

    def ping(self, now: float) -> None:
        """Ask the peer for a sign of life; the pong itself is of no interest, any byte is."""
        self.pinged = now
        if self.wire.is_open() and self.waiting() <= self.limits.outbox_bytes:
            self.wire.transport.write(PING_FRAME)

    async def answered(self) -> None:
        """Return once nothing is in flight."""
        while self._in_flight:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def close(self, code: int, reason: str = "") -> None:
        """Close in order within `CLOSE_S`, then cut."""
        self.closing = True
        if self.wire.is_open():
            self.metrics.closes.labels(str(code)).inc()
        with anyio.move_on_after(CLOSE_S):
            await self.wire.close(code, reason or REASONS.get(code, ""))
        self.wire.cut()

    # In

    async def run(self) -> None:
        """Read until the connection ends; leaves nothing behind."""
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    await self._read(tasks)
                except ConnectionClosed:
                    pass
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            self.service.leave(self)

    async def _read(self, tasks: TaskGroup) -> None:
        while True:
            await self.wire.room()
            message = await self.wire.recv()
            if self.closing:  # nothing that came behind our close frame is carried out
                continue
            if isinstance(message, bytes):
                await self.close(1003)
                return
            self._receive(message, tasks)
            if self._violations >= VIOLATIONS:
                await self.close(4504)
                return

    def _receive(self, message: str, tasks: TaskGroup) -> None:
        try:
            request = messages.decode(message, self.limits)
        except Refused as refused:
            if refused.error.kind in ("parse_error", "invalid_request"):
                self._violations += 1
            wait = self._requests.take(self.wire.loop.time())
            self._refuse(refused.id, _rate_limited(wait) if wait else refused.error)
            return
        self._violations = 0
        if request is None:
            self.metrics.dropped.inc()
            return
        error = self._admit(request)
        if error is not None:
            id = None if error.kind == "duplicate_id" else request.id
            self._refuse(id, error)
        elif request.method == "ping":
            self._finish(request, messages.result(request.id, b"{}"), "ok")
        else:
            self._in_flight.add(request.id)
            tasks.start_soon(self._answer, request)

    def _admit(self, request: Request) -> GatewayError | None:
        """Rates and what is in flight; None: it may be carried out."""
        if request.id in self._in_flight:
            return GatewayError("duplicate_id", "A request with this id is still being answered.", id=request.id)
        bucket = self._buckets.get(request.method, self._requests)
        wait = bucket.take(self.wire.loop.time())
        if wait:
            return _rate_limited(wait)
        if len(self._in_flight) >= self.limits.requests_in_flight and request.method != "ping":  # it is never in flight
            return _rate_limited(round(1000 / self.limits.requests_per_second) or 1)
        return None

    async def _answer(self, request: Request) -> None:
        kind = "ok"
        try:
            await self.wire.room()  # replies are never dropped: there are none while there is no room
            if request.method in WRITES:
                self.publishes = True
                async with self._writes:
                    result = await self.service.call(self, request.method, request.params)
            elif request.method == "hello":
                result = self._hello()
            else:
                result = await self.service.call(self, request.method, request.params)
            # No await from here to the write: a frame of a view just named leaves behind its reply.
            text = messages.result(request.id, result)
        except GatewayError as error:
            kind, text = error.kind, messages.error(request.id, error)
        except Exception:
            log.exception("request failed", connection=self.name, method=request.method)
            kind, text = "internal", messages.error(request.id, internal(request.method))
        finally:
            self._in_flight.discard(request.id)
        self._finish(request, text, kind)
        if not self._in_flight:
            self._idle.set()

    def _finish(self, request: Request, text: bytes, kind: str) -> None:
        self.metrics.requests.labels(request.method, kind).inc()
        self.reply(text)

    def _refuse(self, id: int | str | None, error: GatewayError) -> None:
        self.metrics.requests.labels("none", error.kind).inc()
        self.reply(messages.error(id, error))

    def _hello(self) -> bytes:
        if self._greeted:
            raise GatewayError("invalid_request", "This connection has said hello before.")
        self._greeted = True
        told: dict[str, Any] = {
            "server": {"name": "context-gateway", "version": __version__},
            "protocol": PROTOCOL,
            "connection": self.name,
            "principal": f"local:{self.name}",
            "grants": GRANTS,
            "limits": self.limits.wire(),
        }
        return msgspec.json.encode(told)


def _rate_limited(wait_ms: int) -> GatewayError:
    return GatewayError("rate_limited", "Too many requests; ask again later.", retryAfterMs=wait_ms)
