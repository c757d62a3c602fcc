"""A whole gateway over a real Redis, and peers that speak to it: a well-behaved one, and one that writes raw bytes.

async with running(tmp_path, outbox_bytes=65_536) as gateway, gateway.peer() as peer:
    assert (await peer.refused("describe", session="nowhere"))["kind"] == "unknown_session"
"""

import itertools
import json
import os
import socket
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import msgspec
from anyio.abc import SocketAttribute
from websockets.asyncio.client import ClientConnection, connect

from gateway.core.limits import Limits
from gateway.running import running_gateway
from gateway.settings import Settings
from tests.engines import RunningEngine, redis_server
from tests.relay import Relay, relayed

DEADLINE_S = 15.0
"""Longest wait for anything; nothing waits so long but a failure."""
TEXT, BINARY, CLOSE, PING, PONG, CONT = 1, 2, 8, 9, 10, 0


class Peer:
    """A client. Replies come by `ask`, `result`, `refused`; notifications gather in `told`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.told: list[dict[str, Any]] = []
        self._ids = itertools.count(1)

    async def send(self, text: str | bytes) -> None:
        """A text message as it is; bytes need not be UTF-8."""
        await self.socket.send(text, text=True)

    async def next(self) -> dict[str, Any]:
        """The next message, whatever it is."""
        with anyio.fail_after(DEADLINE_S):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        return message

    async def reply(self) -> dict[str, Any]:
        """The next reply; notifications before it are kept."""
        while True:
            message = await self.next()
            if "method" not in message:
                return message
            self.told.append(message)

    async def say(self, text: str | bytes) -> dict[str, Any]:
        """The reply to a text as it is."""
        await self.send(text)
        return await self.reply()

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The reply to a request, which must carry its id."""
        id = next(self._ids)
        reply = await self.say(request(id, method, params))
        assert reply["id"] == id, reply
        return reply

    async def result(self, method: str, **params: Any) -> dict[str, Any]:
        reply = await self.ask(method, **params)
        assert "result" in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    async def refused(self, method: str, **params: Any) -> dict[str, Any]:
        """`data` of the error."""
        reply = await self.ask(method, **params)
        assert "error" in reply, reply
        data: dict[str, Any] = reply["error"]["data"]
        return data

    async def until(self, method: str) -> dict[str, Any]:
        """The params of the next notification of a method, taken out of `told`; whatever else comes is kept."""
        looked = 0
        while True:
            for at in range(looked, len(self.told)):
                if self.told[at].get("method") == method:
                    params: dict[str, Any] = self.told.pop(at)["params"]
                    return params
            looked = len(self.told)
            self.told.append(await self.next())

    async def closed(self) -> tuple[int, str]:
        """Code and reason, once the gateway has closed the connection."""
        with anyio.fail_after(DEADLINE_S):
            await self.socket.wait_closed()
        assert self.socket.close_code is not None
        return self.socket.close_code, self.socket.close_reason or ""


class RawPeer:
    """Bytes on a TCP link, behind a handshake of its own."""

    def __init__(self, link: anyio.abc.SocketStream) -> None:
        self.link = link
        self.head = ""
        self._buffer = b""

    async def handshake(self, host: str, *headers: str, path: str = "/v1/ws") -> str:
        """The head of the response."""
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *UPGRADE, *headers]
        await self.link.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        with anyio.fail_after(DEADLINE_S):
            while b"\r\n\r\n" not in self._buffer:
                self._buffer += await self.link.receive()
        top, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return top.decode()

    async def send(self, *frames: bytes) -> None:
        await self.link.send(b"".join(frames))

    async def frame(self) -> tuple[int, bytes]:
        """First byte and payload of the next frame."""
        with anyio.fail_after(DEADLINE_S):
            first, length = await self._take(2)
            if length == 126:
                (length,) = struct.unpack("!H", await self._take(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self._take(8))
            return first, await self._take(length)

    async def message(self) -> Any:
        """The next text message, decoded; other frames are passed over."""
        while True:
            first, payload = await self.frame()
            if first & 0x0F == TEXT:
                return self.decoded(first, payload)

    def decoded(self, first: int, payload: bytes) -> Any:
        """The message of a text frame, compressed or not; no context is kept."""
        return json.loads(zlib.decompressobj(wbits=-15).decompress(payload) if first & 0x40 else payload)

    async def close_code(self) -> tuple[int, str]:
        """Of the next close frame."""
        while True:
            first, payload = await self.frame()
            if first & 0x0F == CLOSE:
                return int.from_bytes(payload[:2], "big"), payload[2:].decode()

    async def cut(self) -> None:
        """Return once the gateway has ended the link; what comes before is dropped."""
        with anyio.fail_after(DEADLINE_S):
            try:
                while True:
                    await self.link.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return

    def abort(self) -> None:
        """Break the link off with a reset, whatever is under way."""
        self.link.extra(SocketAttribute.raw_socket).setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )

    async def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += await self.link.receive()
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version: 13",
)


def masked(opcode: int, payload: bytes, *, fin: bool = True, rsv1: bool = False) -> bytes:
    """A frame as clients send it."""
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    length = len(payload)
    if length < 126:
        head = bytes((first, 0x80 | length))
    elif length < 65_536:
        head = bytes((first, 0xFE)) + struct.pack("!H", length)
    else:
        head = bytes((first, 0xFF)) + struct.pack("!Q", length)
    key = os.urandom(4)
    mask = int.from_bytes((key * (length // 4 + 1))[:length], "big")
    return head + key + (int.from_bytes(payload, "big") ^ mask).to_bytes(length, "big")


def request(id: Any, method: str, params: Any = None) -> str:
    """A request as text; `params` None: absent."""
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return json.dumps(message if params is None else message | {"params": params})


class Ring:
    """A running gateway. `url`: `ws://host:port`; `engine`: its store."""

    def __init__(self, url: str, engine: RunningEngine, settings: Settings) -> None:
        self.url = url
        self.settings = settings
        self.engine = engine
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self.host, self.port = parts.hostname, parts.port
        self.name = parts.netloc

    @asynccontextmanager
    async def peer(self, **options: Any) -> AsyncIterator[Peer]:
        """A connected client; `options` of `websockets.connect`."""
        arguments: dict[str, Any] = {"compression": None, "proxy": None, "ping_interval": None, "close_timeout": 2}
        async with connect(
            f"{self.url}/v1/ws", **arguments | {"max_size": None, "max_queue": None} | options
        ) as socket:
            yield Peer(socket)

    @asynccontextmanager
    async def raw(self, *headers: str, handshake: bool = True) -> AsyncIterator[RawPeer]:
        """A link; with `handshake` a WebSocket on it, its response's head in `head`."""
        async with await anyio.connect_tcp(self.host, self.port) as link:
            peer = RawPeer(link)
            if handshake:
                peer.head = await peer.handshake(self.name, *headers)
                assert peer.head.startswith("HTTP/1.1 101"), peer.head
            yield peer

    async def http(self, text: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by lower-case name and body of whatever answers these bytes."""
        async with self.raw(handshake=False) as peer:
            await peer.link.send(text.encode())
            data = b""
            with anyio.fail_after(DEADLINE_S):
                try:
                    while True:
                        data += await peer.link.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    pass
        top, _, body = data.partition(b"\r\n\r\n")
        first, *lines = top.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]) if first else 0, headers, body

    async def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of a page."""
        given = {"Host": self.name} | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        status, _, body = await self.http("\r\n".join(lines) + "\r\n\r\n")
        return status, body

    async def metric(self, name: str) -> float:
        """The sum over a metric's series, `name` up to the labels."""
        return await self.series(name, "")

    async def series(self, name: str, label: str) -> float:
        """Likewise, of those series whose labels hold `label`."""
        _, body = await self.get("/metrics")
        lines = [line.rpartition(" ") for line in body.decode().splitlines()]
        return sum(float(value) for series, _, value in lines if series.partition("{")[0] == name and label in series)

    async def until_ready(self) -> None:
        """Return once the gateway says it is ready: the store's probe came back."""
        with anyio.fail_after(DEADLINE_S):
            while (await self.get("/readyz"))[0] != 200:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async def until_metric(self, name: str, value: float, label: str = "") -> None:
        """Return once a metric has reached `value`."""
        with anyio.fail_after(DEADLINE_S):
            while await self.series(name, label) < value:  # noqa: ASYNC110  # a page has no event to wait for
                await anyio.sleep(0.01)


def limits_of(**changed: Any) -> Limits:
    """The defaults but for these."""
    return msgspec.structs.replace(Limits(), **changed)


@asynccontextmanager
async def running(directory: Path, *, origins: tuple[str, ...] = (), **limits: Any) -> AsyncIterator[Ring]:
    """A gateway over a Redis of its own in `directory`, for as long as the block lasts."""
    async with redis_server(directory) as engine, gateway_on(engine, engine.url, origins=origins, **limits) as ring:
        yield ring


@asynccontextmanager
async def relayed_ring(directory: Path, **limits: Any) -> AsyncIterator[tuple[Ring, Relay]]:
    """Likewise, with a relay before the Redis that makes it slow or silent."""
    async with (
        redis_server(directory) as engine,
        relayed(engine.url, directory) as relay,
        gateway_on(engine, relay.url, **limits) as ring,
    ):
        yield ring, relay


@asynccontextmanager
async def gateway_on(
    engine: RunningEngine, db: str, *, origins: tuple[str, ...] = (), **limits: Any
) -> AsyncIterator[Ring]:
    """A gateway whose store is at `db`."""
    settings = Settings(port=0, db=db, db_source="argv", origins=origins, limits=limits_of(**limits))
    async with running_gateway(settings) as url:
        yield Ring(url, engine, settings)
