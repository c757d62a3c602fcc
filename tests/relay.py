"""A relay in front of a unix socket that loses things on purpose."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, unquote

import anyio
import anyio.abc


class Relay:
    """`url` stands for the engine's. Links made so far can be made silent; the next answer can be lost.

    `requests` and `answers` are gates: what comes while one is not set waits for it.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.links = 0
        self.requests = anyio.Event()
        self.requests.set()
        self.answers = anyio.Event()
        self.answers.set()
        self.waiting = 0
        self._lose_after = b""
        self._silent_below = 0

    def lose_the_answer_to(self, request: bytes) -> None:
        """The next request that holds these bytes reaches the engine; then the link is cut instead of answered."""
        self._lose_after = request

    def silence(self) -> None:
        """Links made so far stay open and carry nothing any more."""
        self._silent_below = self.links

    async def until_waiting(self, count: int) -> None:
        """Return once so many answers wait for their gate."""
        while self.waiting < count:  # noqa: ASYNC110
            await anyio.sleep(0.01)

    async def _carry(self, link: anyio.abc.SocketStream, engine: anyio.abc.SocketStream) -> None:
        number = self.links
        self.links += 1
        lost = False

        async def ask(scope: anyio.CancelScope) -> None:
            nonlocal lost
            async for data in link:
                if self._lose_after and self._lose_after in data:
                    self._lose_after, lost = b"", True
                await self.requests.wait()
                if number >= self._silent_below:
                    await engine.send(data)
            scope.cancel()

        async def answer(scope: anyio.CancelScope) -> None:
            async for data in engine:
                self.waiting += 1
                await self.answers.wait()
                self.waiting -= 1
                if lost:
                    break
                if number >= self._silent_below:
                    await link.send(data)
            scope.cancel()

        async with link, engine:
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, tasks.cancel_scope)
                    tasks.start_soon(answer, tasks.cancel_scope)
            except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass


@asynccontextmanager
async def relayed(engine_url: str, directory: Path) -> AsyncIterator[Relay]:
    """A relay before the engine at `unix://…` for as long as the block lasts; its socket is made in `directory`."""
    engine_path = unquote(engine_url.removeprefix("unix://"))
    path = directory / "relay.sock"
    relay = Relay(f"unix://{quote(str(path))}")
    listener = await anyio.create_unix_listener(path)

    async def carry(link: anyio.abc.SocketStream) -> None:
        try:
            engine = await anyio.connect_unix(engine_path)
        except OSError:
            await link.aclose()
        else:
            await relay._carry(link, engine)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, carry)
        yield relay
        tasks.cancel_scope.cancel()
    await listener.aclose()
