"""Accepts peers, answers plain HTTP, keeps connections alive, drains. One sweeper serves all connections."""

import http
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as listen
from websockets.exceptions import NegotiationError
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from gateway import pages
from gateway.connection import CLOSE_S, PROTOCOL, Connection, Wire
from gateway.core.limits import Limits
from gateway.core.messages import notification
from gateway.deflate import DeflateOffered
from gateway.logs import trace
from gateway.metrics import Metrics
from gateway.service import Service

PATH: Final = "/v1/ws"
OPEN_S: Final = 10.0
"""Seconds a peer has to finish the handshake."""
FRAMES_QUEUED: Final = (0, 0)
"""Frames that may wait for the connection's own loop before the socket is paused, and when it is resumed."""
HANDSHAKES: Final = 1_000
"""Links beyond `limits.connections`, in a handshake or closing; a further one is cut at once."""
SPREAD_PER_PEER_MS: Final = 5
"""Draining: milliseconds of the spread for each connection, at most half of `limits.drainMs`."""
LAST_S: Final = 1.0
"""Seconds those who are still there after `limits.drainMs` have for their close frame; then all links are cut."""
RECONNECT_MS: Final = 500
"""What `goodbye` names as the time after which to come back, beside the jitter."""
log = structlog.get_logger("gateway.server")
quiet = logging.getLogger("gateway.websockets")
quiet.propagate = False
quiet.addHandler(logging.NullHandler())


class Server:
    """Every connection of this process."""

    def __init__(
        self,
        service: Service,
        limits: Limits,
        metrics: Metrics,
        *,
        ready: Callable[[], bool],
        origins: Sequence[str] = (),
        schemas: Mapping[str, bytes] | None = None,
    ) -> None:
        self.service, self.limits, self.metrics = service, limits, metrics
        self.connections: dict[Connection, None] = {}
        self.draining = False
        self._over = False  # drained: whoever comes now is cut
        self._goodbye = b""
        self._wires: set[Wire] = set()
        self._ready = ready
        self._origins = {spelt for text in origins if (spelt := pages.origin(text)) is not None}
        self._schemas = schemas or {}

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
        """Listen for as long as the block lasts; then drain. Yields the bound address.

        Raises:
            ValueError: `host` is no loopback address; without authentication no other is served.
            OSError: the address is taken or not ours.
        """
        if not pages.is_loopback(host):
            raise ValueError("without authentication only a loopback address is served")
        limits = self.limits
        async with anyio.create_task_group() as tasks:
            server = await listen(
                self._connected,
                host,
                port,
                create_connection=self._accepted,  # type: ignore[arg-type]
                process_request=self._requested,
                select_subprotocol=_subprotocol,
                extensions=[DeflateOffered()],
                compression=None,
                server_header=None,
                open_timeout=OPEN_S,
                ping_interval=None,
                close_timeout=CLOSE_S,
                max_size=limits.publish_bytes,
                max_queue=FRAMES_QUEUED,
                write_limit=(limits.outbox_bytes, limits.outbox_bytes // 2),
                logger=quiet,
            )
            try:
                addresses = [socket.getsockname()[:2] for socket in server.sockets]
                self._origins |= pages.origins_of([*addresses, (host, addresses[0][1])])
                tasks.start_soon(self._sweep, tasks)
                yield addresses[0]
            finally:
                with anyio.CancelScope(shield=True):
                    await self._drain(server)
                tasks.cancel_scope.cancel()

    # Handshake

    def _requested(self, wire: ServerConnection, request: Request) -> Response | None:
        """None lets the WebSocket handshake go on."""
        hosts = request.headers.get_all("Host")
        if len(hosts) != 1 or not pages.is_loopback(pages.host_name(hosts[0])):
            return pages.response(http.HTTPStatus.MISDIRECTED_REQUEST, "This name is not served here.\n")
        if request.method not in pages.METHODS:
            return pages.response(http.HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered here.\n")
        path = request.path.partition("?")[0]
        if path != PATH:
            ready = not self.draining and self._ready()
            page = pages.page(path, ready, self.metrics, self._schemas)
            return pages.head_of(page) if request.method == "HEAD" else page
        if self.draining:
            return pages.response(http.HTTPStatus.SERVICE_UNAVAILABLE, "Draining; come back later.\n")
        given = request.headers.get_all("Origin")
        if given and (len(given) > 1 or pages.origin(given[0]) not in self._origins):
            return pages.response(http.HTTPStatus.FORBIDDEN, "This Origin is not allowed.\n")
        return None

    async def _connected(self, wire: ServerConnection) -> None:
        assert isinstance(wire, Wire)
        connection = Connection(wire, secrets.token_hex(16), self.service, self.limits, self.metrics)
        if len(self.connections) >= self.limits.connections:
            await connection.close(1013)
            return
        self.connections[connection] = None
        self.metrics.connections.set(len(self.connections))
        try:
            if self.draining:  # its handshake began before
                connection.reply(self._goodbye)
                await connection.close(1012)
            else:
                await connection.run()
        except Exception as error:
            log.error("connection failed", connection=connection.name, trace=trace(error))
            await connection.close(1011)
        finally:
            del self.connections[connection]
            self.metrics.connections.set(len(self.connections))

    # Keep-alive and outboxes

    async def _sweep(self, tasks: TaskGroup) -> None:
        """Ping, notice who is silent or does not read, tell who reads again; on a tenth of the shortest of the times."""
        limits = self.limits
        interval_s, timeout_s = limits.ping_interval_ms / 1000, limits.ping_timeout_ms / 1000
        deadline_s = limits.outbox_deadline_ms / 1000
        tick_s = max(0.01, min(interval_s, timeout_s, deadline_s, 1.0) / 10)
        while True:
            before = anyio.current_time()
            await anyio.sleep(tick_s)
            now = anyio.current_time()
            late_s = max(0.0, now - before - tick_s)
            self.metrics.delayed(late_s)
            for connection in list(self.connections):
                wire = connection.wire
                wire.heard += late_s  # while the loop stood still nobody could be heard
                if wire.close_deadline is not None and now > wire.close_deadline:
                    wire.transport.abort()  # the library closed it (1007, 1009, …), and the peer goes on talking
                elif now - wire.heard > interval_s + timeout_s and not wire.paused:
                    self._close_soon(tasks, connection, 4004)
                elif now - connection.pinged >= interval_s:
                    connection.ping(now)
                self._judge_outbox(tasks, connection, now, deadline_s)

    def _judge_outbox(self, tasks: TaskGroup, connection: Connection, now: float, deadline_s: float) -> None:
        full = connection.waiting() > self.limits.outbox_bytes // 2
        if not full and connection.full_since is not None:
            connection.full_since = None
            self.service.drained(connection)
        elif connection.wire.paused and connection.full_since is None:
            connection.full_since = now
        elif connection.full_since is not None and now - connection.full_since > deadline_s:
            self._close_soon(tasks, connection, 4001)

    def _close_soon(self, tasks: TaskGroup, connection: Connection, code: int) -> None:
        if not connection.closing:
            connection.closing = True
            tasks.start_soon(connection.close, code)

    # Draining

    async def _drain(self, server: WebSocketServer) -> None:
        """Not ready, `goodbye`, then close 1012 spread over the time told; cut what is left after `limits.drainMs`."""
        limits_s = self.limits.drain_ms / 1000
        peers = sorted(self.connections, key=lambda peer: peer.publishes)
        spread_ms = min(self.limits.drain_ms // 2, SPREAD_PER_PEER_MS * len(peers))
        told = {"reason": "draining", "reconnectAfterMs": RECONNECT_MS, "jitterMs": max(RECONNECT_MS, spread_ms)}
        self._goodbye = notification("goodbye", msgspec.json.encode(told))
        self.draining = True
        for peer in peers:
            peer.reply(self._goodbye)
        with anyio.move_on_after(limits_s):
            async with anyio.create_task_group() as tasks:
                for peer in peers:
                    tasks.start_soon(peer.take_leave)
                    await anyio.sleep(spread_ms / 1000 / len(peers))
        server.close(close_connections=False)
        with anyio.move_on_after(LAST_S):
            async with anyio.create_task_group() as tasks:
                for peer in list(self.connections):
                    tasks.start_soon(peer.close, 1012)
        self._over = True
        for wire in list(self._wires):  # those still in the handshake too
            wire.crowded = True  # one the loop has accepted but not yet handed over is cut when it is
            wire.cut()
        await server.wait_closed()

    def _accepted(self, *arguments: Any, **options: Any) -> Wire:
        """A link as the library's listener makes it, remembered until it is gone."""
        wire = Wire(*arguments, **options)
        wire.crowded = self._over or len(self._wires) >= self.limits.connections + HANDSHAKES
        wire.connection_lost_waiter.add_done_callback(lambda _: self._wires.discard(wire))
        self._wires.add(wire)
        return wire


def _subprotocol(wire: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """`context.v1` where it is offered, none where none is; a client that offers only others gets HTTP 400."""
    if not offered:
        return None
    if PROTOCOL in offered:
        return Subprotocol(PROTOCOL)
    raise NegotiationError("only context.v1 is spoken here")
