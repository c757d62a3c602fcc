"""The ring alone: a server on a real socket before a service the test writes.

async with serving(service, outbox_bytes=65_536) as seam, seam.raw() as peer:
    ...
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gateway.core.params import Closed
from gateway.metrics import Metrics
from gateway.server import Server
from gateway.service import Peer
from tests.ring import DEADLINE_S, RawPeer, limits_of

Answer = Callable[[str, Any], Awaitable[bytes]]


class Answering:
    """A service that answers by a function of method and params; `calls`: what was begun, in order."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.calls: list[tuple[str, Any]] = []
        self._news = anyio.Event()

    async def call(self, peer: Peer, method: str, params: Closed) -> bytes:
        self.calls.append((method, params))
        self._news.set()
        return await self._answer(method, params)

    def drained(self, peer: Peer) -> None:
        pass

    def leave(self, peer: Peer) -> None:
        pass

    async def until(self, count: int) -> None:
        """Return once so many calls were begun."""
        with anyio.fail_after(DEADLINE_S):
            while len(self.calls) < count:
                self._news = anyio.Event()
                await self._news.wait()


async def empty(method: str, params: Any) -> bytes:
    """The least answer there is."""
    return b"{}"


class Seam:
    """A server that listens at `address`."""

    def __init__(self, server: Server, metrics: Metrics, address: tuple[str, int]) -> None:
        self.server, self.metrics, self.address = server, metrics, address

    @asynccontextmanager
    async def link(self) -> AsyncIterator[RawPeer]:
        """A TCP link, no handshake yet."""
        async with await anyio.connect_tcp(*self.address) as link:
            yield RawPeer(link)

    @asynccontextmanager
    async def raw(self, *headers: str) -> AsyncIterator[RawPeer]:
        """A WebSocket of raw frames."""
        async with self.link() as peer:
            peer.head = await peer.handshake("localhost", *headers)
            assert peer.head.startswith("HTTP/1.1 101"), peer.head
            yield peer

    def outboxes(self) -> int:
        """Bytes that wait in all outboxes."""
        return sum(connection.waiting() for connection in self.server.connections)


@asynccontextmanager
async def serving(service: Answering, **limits: int) -> AsyncIterator[Seam]:
    """A ring before `service` for as long as the block lasts."""
    metrics = Metrics()
    server = Server(service, limits_of(**limits), metrics, ready=lambda: True)
    async with server.listening("127.0.0.1", 0) as address:
        yield Seam(server, metrics, address)
