"""One peer: frames in, requests to the service, replies and shared frames out, in one order and within bounds.

All text leaves as prepared frames through `transport.write`; nothing is written once our close frame is out. What waits
in the transport's buffer is the outbox: above `limits.outboxBytes` shared frames are refused and nothing more is read,
neither messages nor pings, and requests read before are not begun.

Memory of one peer, at most: outbox `outboxBytes` and the responses begun while there was room, together no more than
`outboxBytes` again or one of `responseBytes`; inbox one message of `publishBytes` taken, one that waits, one that comes
in, and `CHUNK_BYTES`; requests in flight `publishBytes` and one message more.
"""

import asyncio
import gc
import zlib
from collections import deque
from contextlib import suppress
from typing import Any, Final

import anyio
import anyio.lowlevel
import msgspec
import structlog
from anyio.abc import TaskGroup
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode
from websockets.protocol import Event as WireEvent
from websockets.protocol import State

from gateway import __version__
from gateway.core import messages
from gateway.core.errors import GatewayError, internal
from gateway.core.limits import BURST, PING_RATE, WRITE_RATE, Limits
from gateway.core.messages import Refused, Request
from gateway.core.params import WRITES
from gateway.deflate import DeflatedFrame, inflate
from gateway.frames import Frame
from gateway.logs import trace
from gateway.metrics import Metrics
from gateway.rate import Bucket
from gateway.service import Service
from gateway.slots import Slots

PROTOCOL: Final = "context.v1"
CLOSE_S: Final = 5.0
"""Seconds a peer has to answer our close frame; then the connection is cut."""
VIOLATIONS: Final = 100
"""Messages in a row that are no request at all; then close 4504."""
DEFLATED_FROM: Final = 256
"""Bytes of text from which a frame is compressed for those who asked: smaller ones hardly shrink."""
GRANTS: Final = [{"prefix": "", "can": ["describe", "invoke", "approve", "publish", "presence", "operate"]}]
"""Without authentication a connection has all of them (protocol §3.1)."""
READS: Final = frozenset({"describe", "changes", "subscribe", "sessions"})
"""Methods whose results are large: as many at once as fit into the outbox."""
CHUNK_BYTES: Final = 32_768
"""Bytes parsed in one turn of the loop: of the smallest frames these are 5 000, some 30 ms."""
MESSAGES_PER_TURN: Final = 32
"""Messages taken in one turn of the loop."""
COLLECTED_BELOW: Final = 65_536
"""Characters of a message from which it is decoded without the garbage collector."""
PING_FRAME: Final = b"\x89\x00"
REASONS: Final = {
    1002: "not a compressed message",
    1003: "binary messages are not taken",
    1007: "not UTF-8",
    1009: "message too big",
    1011: "internal",
    1012: "draining",
    1013: "over capacity",
    4001: "too slow",
    4004: "silent",
    4504: "repeated protocol violation",
}
log = structlog.get_logger("gateway.connection")


class Unreadable(Exception):
    """A message that is no text within its bounds; `code`: what the connection is closed with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Wire(ServerConnection):
    """The library's connection, with the loop time of the last byte that came.

    The socket is read while neither a message that waits nor a full outbox is against it: a peer that pings and reads
    nothing would else fill the outbox with our pongs. Once `deaf`, what comes is parsed for the peer's close frame alone.
    """

    heard = 0.0
    deaf = False
    crowded = False
    _queue_full = False
    _feeding = False
    _rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard = self.loop.time()
        self._kinds: deque[tuple[bool, bool]] = deque()  # of each message that waits: is it text, is it compressed
        super().connection_made(transport)
        self.recv_messages.pause = lambda: self._read_on(queue_full=True)
        self.recv_messages.resume = lambda: self._read_on(queue_full=False)
        if self.crowded:
            self.cut()

    def data_received(self, data: bytes) -> None:
        self.heard = self.loop.time()
        self._rest = self._rest + data if self._rest else data
        if not self._feeding:
            self._feed()

    def _feed(self) -> None:
        """Parse the next chunk; the others have to wait for their turn, and for room like the socket."""
        self._feeding = False
        if self.transport.is_closing():
            self._rest = b""
            return
        chunk, self._rest = self._rest[:CHUNK_BYTES], self._rest[CHUNK_BYTES:]
        super().data_received(chunk)
        self._read_on(queue_full=self._queue_full)

    def process_event(self, event: WireEvent) -> None:
        if isinstance(event, WireFrame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            if self.deaf:
                return
            if event.opcode is not Opcode.CONT:
                self._kinds.append((event.opcode is Opcode.TEXT, isinstance(event, DeflatedFrame)))
        super().process_event(event)

    async def receive(self, maximum: int) -> str:
        """The next message, of at most `maximum` bytes of UTF-8.

        Raises:
            Unreadable: what came is none.
            ConnectionClosed: nothing more will come.
        """
        data = await self.recv(decode=False)
        is_text, is_deflated = self._kinds.popleft()
        if not is_text:
            raise Unreadable(1003)
        if is_deflated:
            try:
                inflated = inflate(data, maximum)
            except zlib.error:
                raise Unreadable(1002) from None
            if inflated is None:
                raise Unreadable(1009)
            data = inflated
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Unreadable(1007) from None

    def deafen(self) -> None:
        """Our close frame goes out: no message is taken any more."""
        self.deaf = True
        self._read_on(queue_full=False)

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
        if (queue_full and not self.deaf) or self.paused:
            self.transport.pause_reading()
            return
        self.heard = self.loop.time()  # a silence of our making counts for nothing
        if self._rest:
            self.transport.pause_reading()
            if not self._feeding:
                self._feeding = True
                self.loop.call_soon(self._feed)
        else:
            self.transport.resume_reading()

    async def room(self) -> None:
        """Return once the outbox is no longer full, or the link is broken."""
        while self.paused and not self.transport.is_closing():  # who was let in before may have filled it again
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
        self._in_flight: dict[int | str, int] = {}  # by id: characters of the message
        self._in_flight_chars = 0
        self._answered: anyio.Event | None = None  # there while somebody waits for the next answer
        self._writes = anyio.Lock()
        self._reads = Slots(max(1, limits.outbox_bytes // limits.response_bytes))
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
        return self.wire.transport.get_write_buffer_size()

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
        self._write(data)
        return True

    def reply(self, text: bytes) -> None:
        """Write a reply: never dropped."""
        if self.wire.is_open():
            self._write(self._bytes(Frame(text)))

    def _write(self, data: bytes) -> None:
        self.metrics.frames_out += 1
        self.metrics.bytes_out += len(data)
        self.wire.transport.write(data)

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
            await self._next_answer()

    async def _next_answer(self) -> None:
        if self._answered is None:
            self._answered = anyio.Event()
        await self._answered.wait()

    async def close(self, code: int, reason: str = "") -> None:
        """Close in order within `CLOSE_S`, then cut."""
        self.closing = True
        if self.wire.is_open():
            self.metrics.closes.labels(str(code)).inc()
            self.wire.deafen()
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
            self._count_close()
            self.service.leave(self)

    def _count_close(self) -> None:
        """What the library closed by itself (1002, 1009) counts as ours; a close the peer began does not."""
        protocol = self.wire.protocol
        if not self.closing and protocol.close_sent is not None and not protocol.close_rcvd_then_sent:
            self.metrics.closes.labels(str(int(protocol.close_sent.code))).inc()

    async def _read(self, tasks: TaskGroup) -> None:
        taken = 0
        while True:
            await self.wire.room()
            while self._in_flight_chars > self.limits.publish_bytes:
                await self._next_answer()
            try:
                message = await self.wire.receive(self.limits.publish_bytes)
            except Unreadable as unreadable:
                await self.close(unreadable.code)
                return
            if self.closing:  # nothing that came behind our close frame is carried out
                continue
            self._receive(message, tasks)
            if self._violations >= VIOLATIONS:
                await self.close(4504)
                return
            taken += 1
            if taken % MESSAGES_PER_TURN == 0:
                await anyio.lowlevel.checkpoint()

    def _receive(self, message: str, tasks: TaskGroup) -> None:
        try:
            request = _decoded(message, self.limits)
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
            self._in_flight[request.id] = len(message)
            self._in_flight_chars += len(message)
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
            result = await self._carry_out(request)
            # No await from here to the write: a frame of a view just named leaves behind its reply.
            text = messages.result(request.id, result)
        except GatewayError as error:
            kind, text = error.kind, messages.error(request.id, error)
        except Exception as error:
            log.error("request failed", connection=self.name, method=request.method, trace=trace(error))
            kind, text = "internal", messages.error(request.id, internal(request.method))
        finally:
            self._in_flight_chars -= self._in_flight.pop(request.id)
            if self._answered is not None:
                self._answered.set()
                self._answered = None
        self._finish(request, text, kind)

    async def _carry_out(self, request: Request) -> bytes:
        """The result. Replies are never dropped: nothing is begun while there is no room for them."""
        method = request.method
        if method in WRITES:
            self.publishes = True
            async with self._writes:  # first in, first out: in the order they came
                await self.wire.room()
                return await self.service.call(self, method, request.params)
        if method in READS:
            await self._reads.take()
            try:
                await self.wire.room()
                return await self.service.call(self, method, request.params)
            finally:
                self._reads.give()
        if method == "hello":
            return self._hello()
        return await self.service.call(self, method, request.params)

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


def _decoded(message: str, limits: Limits) -> Request | None:
    """`messages.decode`; of a large message without the collector, which would double the time the loop is held.

    What decoding makes has no cycles; at 4 MiB it is some hundred thousand objects that would be walked again and again.
    """
    if len(message) < COLLECTED_BELOW or not gc.isenabled():
        return messages.decode(message, limits)
    gc.disable()
    try:
        return messages.decode(message, limits)
    finally:
        gc.enable()


def _rate_limited(wait_ms: int) -> GatewayError:
    return GatewayError("rate_limited", "Too many requests; ask again later.", retryAfterMs=wait_ms)
