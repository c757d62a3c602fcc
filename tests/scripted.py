"""A scripted peer: one end of a connection whose every answer a test writes down."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from websockets.asyncio.server import ServerConnection, serve

from gateway.client import PROTOCOL

WAIT_S = 10.0  # of any test: a hang is a failure, not a wait


class Peer:
    """One scripted end of a connection."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.id: Any = None

    async def expect(self, method: str) -> dict[str, Any]:
        """The params of the next request, which must be of this method."""
        message = msgspec.json.decode(await self.socket.recv())
        assert message["method"] == method
        self.id = message["id"]
        params: dict[str, Any] = message["params"]
        return params

    async def send(self, **members: Any) -> None:
        await self.socket.send(msgspec.json.encode({"jsonrpc": "2.0"} | members).decode())

    async def reply(self, result: dict[str, Any]) -> None:
        await self.send(id=self.id, result=result)

    async def refuse(self, kind: str, error_class: str = "permanent", **data: Any) -> None:
        data = {"kind": kind, "errorClass": error_class, "retryable": False} | data
        await self.send(id=self.id, error={"code": 2003, "message": "No.", "data": data})

    async def subscribed(self, revision: int, *, epoch: str = "e", **members: Any) -> dict[str, Any]:
        """Answer the next subscribe with a describe; its params."""
        params = await self.expect("subscribe")
        place = {"view": "v", "epoch": epoch, "revision": revision}
        await self.reply(place | {"recovered": False, "describe": described(revision, epoch)} | members)
        return params

    async def recovered(self, revision: int, **members: Any) -> dict[str, Any]:
        """Answer the next subscribe with what came since its position; its params."""
        params = await self.expect("subscribe")
        place = {"view": "v", "epoch": "e", "revision": revision}
        await self.reply(place | {"recovered": True, "publisher": "none"} | members)
        return params

    async def after(self, base: int, revision: int, epoch: str = "e", view: str = "v") -> None:
        await self.send(method="after", params=after(base, revision, epoch, view))

    async def invalidated(self, reasons: list[dict[str, Any]], revision: int) -> None:
        params = {"session": "s", "view": "v", "epoch": "e", "revision": revision, "reasons": reasons}
        await self.send(method="invalidated", params=params)


def described(revision: int, epoch: str = "e", **context: Any) -> dict[str, Any]:
    """The describe response of an empty session, but for what `context` names."""
    names = ("regions", "unavailable", "feedback", "records", "recordIds")
    empty: dict[str, Any] = {"state": {}} | {name: [] for name in names} | {f"{name}Total": 0 for name in names}
    place = {"session": "s", "view": "v", "capabilities": [], "capabilitiesTotal": 0, "context": empty | context}
    return place | {"epoch": epoch, "revision": revision, "asOf": "2026-12-01T00:00:00.000Z", "publisher": "none"}


def after(base: int, revision: int, epoch: str = "e", view: str = "v") -> dict[str, Any]:
    return {"session": "s", "view": view, "epoch": epoch, "base": base, "revision": revision}


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def scripted(*scripts: Script, hello: bool = True) -> AsyncIterator[str]:
    """A peer whose n-th connection follows the n-th script and is then held open until the client leaves."""
    left = list(scripts)

    async def follow(socket: ServerConnection) -> None:
        peer = Peer(socket)
        script = left.pop(0)
        if hello:
            await peer.expect("hello")
            await peer.reply({"connection": "c1"})
        await script(peer)
        await socket.wait_closed()

    with anyio.fail_after(WAIT_S):
        async with serve(follow, "127.0.0.1", 0, subprotocols=[PROTOCOL]) as server:
            port = server.sockets[0].getsockname()[1]
            yield f"ws://127.0.0.1:{port}"
    assert not left, "every script was asked for"
