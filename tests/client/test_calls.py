"""The client's calls against a scripted peer."""

import http
from typing import Any

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from gateway.client import (
    ABNORMAL,
    SILENT,
    Client,
    ConnectionLost,
    GatewayError,
    connect,
)
from tests.scripted import Peer, scripted


async def test_a_request_gets_its_result() -> None:
    async def script(peer: Peer) -> None:
        assert await peer.expect("describe") == {"session": "s", "record": "Ä"}
        await peer.reply({"a": [1, None, 10**30]})

    async with scripted(script) as url, connect(url) as client:
        assert client.server == {"connection": "c1"}
        assert await client.request("describe", {"session": "s", "record": "Ä"}) == {"a": [1, None, 10**30]}


async def test_a_refusal_is_a_gateway_error_with_all_that_was_told() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("describe")
        await peer.refuse("limit_exceeded", limit="windowRecords", maximum=100, given=101)

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(GatewayError) as caught:
            await client.request("describe", {})
    told_data = {"limit": "windowRecords", "maximum": 100, "given": 101, "errorClass": "permanent", "retryable": False}
    assert (caught.value.kind, caught.value.message, caught.value.data) == ("limit_exceeded", "No.", told_data)


async def test_an_error_without_an_id_ends_what_waits() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("describe")
        peer.id = None
        await peer.refuse("parse_error")

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(GatewayError, match="No"):
            await client.request("describe", {})


async def test_requests_at_once_each_get_their_own_reply() -> None:
    async def script(peer: Peer) -> None:
        ids = {}
        for _ in range(3):
            n = (await peer.expect("ping"))["n"]
            ids[n] = peer.id
        for n in (2, 0, 1):
            peer.id = ids[n]
            await peer.reply({"n": n})

    answers: dict[int, dict[str, Any]] = {}

    async def ask(client: Client, n: int) -> None:
        answers[n] = await client.request("ping", {"n": n})

    async with scripted(script) as url, connect(url) as client:
        async with anyio.create_task_group() as tasks:
            for n in range(3):
                tasks.start_soon(ask, client, n)
        assert answers == {n: {"n": n} for n in range(3)}


async def test_no_reply_in_time_closes_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("ping")

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(ConnectionLost) as caught:
            await client.request("ping", {}, timeout_s=0.01)
        assert (caught.value.code, caught.value.final) == (SILENT, False)


@pytest.mark.parametrize(
    ("code", "final"),
    [(code, True) for code in (1000, 1003, 1007, 1009, 4500, 4501, 4502, 4504, 4999)]
    + [(code, False) for code in (1011, 1012, 1013, 4000, 4001, 4002, 4004, 4499)],
)
async def test_a_close_code_says_whether_to_come_back(code: int, final: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("ping")
        await peer.socket.close(code)

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(ConnectionLost) as caught:
            await client.request("ping", {})
    assert (caught.value.code, caught.value.final) == (code, final)


async def test_a_broken_link_has_no_code_of_the_peer() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("ping")
        peer.socket.transport.abort()

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(ConnectionLost) as caught:
            await client.request("ping", {})
    assert (caught.value.code, caught.value.final) == (ABNORMAL, False)


@pytest.mark.parametrize(("status", "final"), [(400, True), (403, True), (421, True), (429, False), (503, False)])
async def test_a_refused_handshake(status: int, final: bool) -> None:
    def refuse(socket: ServerConnection, request: Request) -> Response:
        return socket.respond(http.HTTPStatus(status), "")

    async def never(socket: ServerConnection) -> None:
        raise AssertionError

    async with serve(never, "127.0.0.1", 0, process_request=refuse) as server:
        with pytest.raises(ConnectionLost, match=str(status)) as caught:
            async with connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"):
                raise AssertionError
    assert (caught.value.code, caught.value.final) == (ABNORMAL, final)


async def test_nobody_at_the_address(unused_tcp_port: int) -> None:
    with pytest.raises(ConnectionLost) as caught:
        async with connect(f"ws://127.0.0.1:{unused_tcp_port}"):
            raise AssertionError
    assert not caught.value.final


@pytest.mark.parametrize("text", ["nonsense", "[1]", "{"])
async def test_a_peer_of_another_protocol(text: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.socket.send(text)

    async with scripted(script, hello=False) as url:
        with pytest.raises(ConnectionLost, match="protocol") as caught:
            async with connect(url):
                raise AssertionError
    assert caught.value.final
