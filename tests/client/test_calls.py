"""The client's calls against a scripted peer."""

import http
from typing import Any

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from gateway.client import (
    ABNORMAL,
    FAILURES,
    SILENT,
    After,
    Client,
    ConnectionLost,
    DescribeResponse,
    GatewayError,
    Invalidated,
    Position,
    Unchanged,
    connect,
)
from tests.scripted import Peer, after, described, scripted


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


@pytest.mark.parametrize(
    ("status", "final"), [(400, True), (401, True), (403, True), (421, True), (429, False), (503, False)]
)
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


async def at_once(seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


async def test_all_failures_have_one_form() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("describe")
        await peer.refuse("unknown_session")
        await peer.expect("end")
        await peer.socket.close(4501)

    told = []
    async with scripted(script) as url, connect(url) as client:
        for call in (lambda: client.describe("s"), lambda: client.end("s"), client.ping):
            try:
                await call()
            except FAILURES as error:
                told.append((error.kind, error.data["errorClass"], error.data["retryable"]))
        assert client.ended
    assert told == [
        ("unknown_session", "permanent", False),
        ("connection_lost", "permanent", False),
        ("connection_lost", "permanent", False),
    ]


async def test_what_reads_is_repeated_on_another_connection_and_what_writes_is_not() -> None:
    async def first(peer: Peer) -> None:
        await peer.expect("describe")
        peer.socket.transport.abort()

    async def second(peer: Peer) -> None:
        assert await peer.expect("describe") == {"session": "s", "offset": 0, "limit": 3}
        await peer.reply(described(3))
        assert await peer.expect("publish") == {"session": "s", "snapshot": {}, "base": None, "ttlMs": 9}
        peer.socket.transport.abort()

    async def third(peer: Peer) -> None:
        params = {"session": "s", "change": {}, "base": {"epoch": "e", "revision": 3}, "cause": {"kind": "data"}}
        assert await peer.expect("patch") == params
        await peer.reply(
            {"epoch": "e", "revision": 3, "unchanged": True, "dropped": [{"name": "x"}], "droppedTotal": 70}
        )
        assert await peer.expect("end") == {"session": "s", "base": {"epoch": "e", "revision": 3}}
        await peer.reply({})

    waits: list[float] = []
    async with (
        scripted(first, second, third) as url,
        connect(url, sleep=at_once, told=lambda error, wait_s: waits.append(wait_s), chance=lambda: 1.0) as client,
    ):
        assert (await client.describe("s", offset=0, limit=3)).position == Position("e", 3)
        with pytest.raises(ConnectionLost) as caught:
            await client.publish("s", {}, ttl_ms=9)
        assert not caught.value.final
        told = await client.patch("s", {}, base=Position("e", 3), cause={"kind": "data"})
        assert (told.position, told.unchanged, told.dropped_total) == (Position("e", 3), True, 70)
        await client.end("s", base=Position("e", 3))
    assert waits == [0.5, 1.0]


async def test_a_connection_that_closed_meanwhile_is_found_before_anything_is_sent() -> None:
    """With what had come by then: the goodbye says how long to stay away."""
    left = anyio.Event()

    async def first(peer: Peer) -> None:
        await peer.send(method="goodbye", params={"reason": "draining", "reconnectAfterMs": 2000, "jitterMs": 1000})
        await peer.socket.close(1012)
        left.set()

    async def second(peer: Peer) -> None:
        await peer.expect("end")
        await peer.reply({})

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with scripted(first, second) as url, connect(url, sleep=sleep, chance=lambda: 0.5) as client:
        await left.wait()
        await client.end("s")
    assert waits == [2.5]


async def test_a_cancelled_wait_for_the_back_off_is_waited_again() -> None:
    async def first(peer: Peer) -> None:
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        await peer.expect("ping")
        await peer.reply({})

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            await anyio.sleep_forever()

    async with scripted(first, second) as url, connect(url, sleep=sleep, chance=lambda: 1.0) as client:
        with pytest.raises(ConnectionLost, match="in time"):
            await client.request("ping", {}, timeout_s=0.05)
        await client.ping()
    assert waits == [0.5, 0.5], "who asks again and again does not come back sooner"


async def test_a_cancelled_call_leaves_the_connection_to_the_others() -> None:
    asked = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.expect("describe")
        first = peer.id
        asked.set()
        await peer.expect("ping")
        second, peer.id = peer.id, first
        await peer.reply(described(1))
        peer.id = second
        await peer.reply({})

    async with scripted(script) as url, connect(url) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.describe, "s")
            await asked.wait()
            tasks.cancel_scope.cancel()
        await client.ping()


async def test_a_client_that_shall_not_return() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("ping")
        await peer.socket.close(1012)

    async with scripted(script) as url, connect(url, returns=False) as client:
        for _ in range(2):
            with pytest.raises(ConnectionLost) as caught:
                await client.ping()
            assert caught.value.code == 1012


async def test_a_closed_client_answers_nothing() -> None:
    async def script(peer: Peer) -> None:
        pass

    async with scripted(script) as url:
        async with connect(url) as client:
            pass
        with pytest.raises(ConnectionLost, match="closed"):
            await client.ping()


async def test_a_message_the_gateway_would_close_for_is_not_sent() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("hello")
        await peer.reply({"limits": {"publishBytes": 1000, "sessionsPage": 2}})
        await peer.expect("ping")
        await peer.reply({})

    async with scripted(script, hello=False) as url, connect(url) as client:
        with pytest.raises(GatewayError) as caught:
            await client.publish("s", {"state": {"x": "x" * 1000}})
        assert (caught.value.kind, caught.value.data["limit"]) == ("limit_exceeded", "publishBytes")
        await client.ping()


async def test_sessions_are_asked_for_page_by_page() -> None:
    def entry(id: str) -> dict[str, Any]:
        return {"session": id, "epoch": "e", "revision": 1, "asOf": "2026-12-01T00:00:00.000Z", "publisher": "none"}

    async def script(peer: Peer) -> None:
        assert await peer.expect("sessions") == {"prefix": "a", "limit": 2}
        await peer.reply({"sessions": [entry("a1"), entry("a2") | {"title": "T"}], "next": "c", "total": 3})
        assert await peer.expect("sessions") == {"prefix": "a", "limit": 2, "cursor": "c"}
        await peer.reply({"sessions": [entry("a3")], "total": 3})

    async with scripted(script) as url, connect(url) as client:
        found = [(each.session, each.title, each.position.revision) async for each in client.sessions("a", page=2)]
    assert found == [("a1", None, 1), ("a2", "T", 1), ("a3", None, 1)]


async def test_changes_since_a_describe() -> None:
    since = {"view": "v", "epoch": "e", "revision": 1}

    async def script(peer: Peer) -> None:
        assert await peer.expect("changes") == {"session": "s", "limit": 2, "since": since}
        told = after(1, 3) | {"asOf": "later", "state": {"set": {"x": 1}}}
        await peer.reply({"kind": "after", "view": "v", "after": told, "publisher": "gone"})
        await peer.expect("changes")
        await peer.reply({"kind": "unchanged", "publisher": "none"} | since)
        assert (await peer.expect("changes"))["since"] == since
        reasons = [{"kind": "gap", "required": True}]
        await peer.reply({"kind": "invalidated", "reasons": reasons, "publisher": "none"} | since)

    async with scripted(script) as url, connect(url) as client:
        known = DescribeResponse(described(1))
        match await client.changes("s", known, limit=2):
            case After(now=DescribeResponse() as now) as changed:
                assert (changed.base.revision, changed.position.revision, now.publisher) == (1, 3, "gone")
                assert (now.context["state"], now.as_of, known.context["state"]) == ({"x": 1}, "later", {})
            case other:
                raise AssertionError(other)
        assert await client.changes("s", since) == Unchanged({"kind": "unchanged", "publisher": "none"} | since)
        match await client.changes("s", since):
            case Invalidated() as told:
                assert (told.required, [reason.kind for reason in told.reasons]) == (True, ["gap"])
            case other:
                raise AssertionError(other)
