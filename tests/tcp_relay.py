"""A relay in front of a TCP address that cuts its links at chosen bytes."""

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import anyio.abc

READ_BYTES = 65_536
NEVER = 1 << 60


class TcpRelay:
    """`url` stands for the address behind it. Every link may carry so many bytes, both ways together, and is then reset.

    `allowance`: asked once for each link. `cuts`: how many links were reset so. `upstream`: may be changed.
    """

    def __init__(self, upstream: str, allowance: Callable[[], int]) -> None:
        self.upstream = upstream
        self.allowance = allowance
        self.url = ""
        self.links = 0
        self.cuts = 0
        self._open: set[anyio.CancelScope] = set()

    def cut(self) -> None:
        """Reset all links there are."""
        for scope in self._open:
            self.cuts += 1
            scope.cancel()

    async def carry(self, link: anyio.abc.SocketStream) -> None:
        """One link, until either side ends it or its bytes are used up."""
        self.links += 1
        left = self.allowance()
        parts = urlsplit(self.upstream)
        assert parts.hostname and parts.port
        try:
            behind = await anyio.connect_tcp(parts.hostname, parts.port)
        except OSError:
            reset(link)
            await link.aclose()
            return

        async def copy(source: anyio.abc.SocketStream, sink: anyio.abc.SocketStream) -> None:
            nonlocal left
            try:
                async for data in source:
                    part, left = data[:left], left - len(data)
                    if part:
                        await sink.send(part)
                    if left <= 0:
                        self.cuts += 1
                        reset(link)
                        break
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass
            tasks.cancel_scope.cancel()

        async with link, behind, anyio.create_task_group() as tasks:
            self._open.add(tasks.cancel_scope)
            tasks.start_soon(copy, link, behind)
            tasks.start_soon(copy, behind, link)
        self._open.discard(tasks.cancel_scope)


def reset(link: anyio.abc.SocketStream) -> None:
    """What closes next goes as a reset, not as an end."""
    raw = link.extra(anyio.abc.SocketAttribute.raw_socket)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@asynccontextmanager
async def tcp_relay(upstream: str, allowance: Callable[[], int] = lambda: NEVER) -> AsyncIterator[TcpRelay]:
    """A relay before `ws://host:port` for as long as the block lasts."""
    relay = TcpRelay(upstream, allowance)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    relay.url = f"ws://127.0.0.1:{port}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, relay.carry)
        yield relay
        tasks.cancel_scope.cancel()
