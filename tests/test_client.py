"""The client against a scripted peer: every answer and every way to lose it that protocol §2–§6 allows."""

import http
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from gateway.client import (
    ABNORMAL,
    ASKED_MAX_S,
    BACK_OFF_MAX_S,
    BACK_OFF_MIN_S,
    NOTES_MAX,
    SILENT,
    STABLE_S,
    TOO_SLOW,
    BackOff,
    Client,
    ConnectionLost,
    Notification,
    connect,
    watch,
)
from gateway.core.errors import GatewayError
from tests.scripted import Peer, after, scripted

NAVIGATION = [{"kind": "navigation", "required": True}]
PUBLISHER = [{"kind": "publisher", "required": False, "publisher": "gone"}]


class Sleeps(list[float]):
    """Takes the place of sleeping; keeps the seconds asked for."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def collect(url: str, count: int, view: dict[str, Any] | None = None, **arguments: Any) -> list[Notification]:
    """The first items of a watch."""
    items: list[Notification] = []
    async with aclosing(watch(url, "s", view, **({"sleep": Sleeps()} | arguments))) as watching:
        async for item in watching:
            items.append(item)
            if len(items) == count:
                break
    return items


def told(items: list[Notification]) -> list[tuple[str, Any]]:
    return [(item.method, item.params.get("revision")) for item in items]


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
            await peer.after(n, n + 1)
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
        assert [(await client.receive()).params["base"] for _ in range(3)] == [2, 0, 1]


async def test_no_reply_in_time_closes_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("ping")

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(ConnectionLost) as caught:
            await client.request("ping", {}, timeout_s=0.01)
        assert (caught.value.code, caught.value.final) == (SILENT, False)
        with pytest.raises(ConnectionLost):
            await client.request("ping", {})


@pytest.mark.parametrize("count", [NOTES_MAX, NOTES_MAX + 1])
async def test_notifications_nobody_takes_are_bounded(count: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("ping")
        for n in range(count):
            await peer.after(n, n + 1)
        await peer.reply({})

    async with scripted(script) as url, connect(url) as client:
        if count > NOTES_MAX:
            with pytest.raises(ConnectionLost) as caught:
                await client.request("ping", {})
            assert (caught.value.code, caught.value.final) == (TOO_SLOW, False)
        else:
            assert await client.request("ping", {}) == {}
            assert [(await client.receive()).params["base"] for _ in range(count)] == list(range(count))


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


async def test_watch_resumes_at_the_item_last_taken_and_hands_out_none_twice() -> None:
    async def first(peer: Peer) -> None:
        assert await peer.subscribed(1) == {"session": "s", "limit": 3}
        await peer.after(1, 2)
        await peer.after(2, 3)
        await peer.socket.close(4001)

    async def second(peer: Peer) -> None:
        assert await peer.expect("subscribe") == {"session": "s", "limit": 3, "since": since(3)}
        await peer.reply({"view": "v", "epoch": "e", "revision": 5, "recovered": True, "after": after(3, 5)})
        await peer.after(5, 6)
        peer.socket.transport.abort()

    async def third(peer: Peer) -> None:
        assert (await peer.expect("subscribe"))["since"] == since(6)
        await peer.reply({"view": "v", "epoch": "e", "revision": 6, "recovered": True})
        await peer.after(6, 7)

    async with scripted(first, second, third) as url:
        items = await collect(url, 6, {"limit": 3})
    assert told(items) == [("described", 1), ("after", 2), ("after", 3), ("after", 5), ("after", 6), ("after", 7)]


def since(revision: int) -> dict[str, Any]:
    return {"view": "v", "epoch": "e", "revision": revision}


async def test_watch_tells_why_a_position_was_not_resumed() -> None:
    async def first(peer: Peer) -> None:
        await peer.subscribed(7)
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        assert (await peer.subscribed(1, epoch="f", reasons=[{"kind": "gap", "required": True}]))["since"] == since(7)
        await peer.after(1, 2, epoch="f")

    async with scripted(first, second) as url:
        items = await collect(url, 4)
    assert told(items) == [("described", 7), ("invalidated", 1), ("described", 1), ("after", 2)]
    assert items[1].params["reasons"] == [{"kind": "gap", "required": True}]


async def test_watch_subscribes_again_after_a_required_reason_only() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.invalidated(PUBLISHER, 1)
        await peer.after(1, 2)
        await peer.invalidated(NAVIGATION, 3)
        await peer.invalidated([{"kind": "modal", "required": True}], 4)  # crosses the request: forgotten
        assert "since" not in await peer.subscribed(4)
        await peer.after(4, 5)

    async with scripted(script) as url:
        items = await collect(url, 6)
    assert told(items) == [
        ("described", 1),
        ("invalidated", 1),
        ("after", 2),
        ("invalidated", 3),
        ("described", 4),
        ("after", 5),
    ]


async def test_watch_waits_for_the_pushed_describe() -> None:
    async def script(peer: Peer) -> None:
        assert await peer.subscribed(1) == {"session": "s", "deliver": "push"}
        await peer.invalidated(NAVIGATION, 2)
        await peer.send(method="described", params={"session": "s", "view": "v", "epoch": "e", "revision": 2})
        await peer.after(2, 3)

    async with scripted(script) as url:
        items = await collect(url, 4, {"deliver": "push"})
    assert told(items) == [("described", 1), ("invalidated", 2), ("described", 2), ("after", 3)]


async def test_watch_does_not_hand_out_an_after_of_another_base() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.after(0, 9, view="other")
        await peer.after(2, 3)
        await peer.after(3, 4)
        assert (await peer.subscribed(4))["since"] == since(1)
        await peer.after(4, 5)

    async with scripted(script) as url:
        items = await collect(url, 3)
    assert told(items) == [("described", 1), ("described", 4), ("after", 5)]


async def test_watch_awaits_a_session_that_ended() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.send(method="ended", params={"session": "another", "reason": "ended"})
        await peer.send(method="ended", params={"session": "s", "reason": "lost"})
        for _ in range(2):
            assert "since" not in await peer.expect("subscribe")
            await peer.refuse("unknown_session")
        await peer.expect("subscribe")
        await peer.refuse("store_unavailable", "transient", retryAfterMs=7000)
        await peer.subscribed(1, epoch="f")

    sleeps = Sleeps()
    async with scripted(script) as url:
        items = await collect(url, 3, sleep=sleeps, chance=lambda: 1.0, clock=lambda: 0.0)
    assert told(items) == [("described", 1), ("ended", None), ("described", 1)]
    assert sleeps == [0.5, 1.0, 7.0]


async def test_watch_stays_away_as_long_as_a_goodbye_asks() -> None:
    async def first(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.send(method="goodbye", params={"reason": "drain", "reconnectAfterMs": 3000, "jitterMs": 1000})
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        await peer.expect("subscribe")
        await peer.reply({"view": "v", "epoch": "e", "revision": 1, "recovered": True})
        await peer.after(1, 2)

    sleeps, failures = Sleeps(), []
    async with scripted(first, second) as url:
        items = await collect(
            url, 3, sleep=sleeps, chance=lambda: 0.5, told=lambda error, wait_s: failures.append((type(error), wait_s))
        )
    assert told(items) == [("described", 1), ("goodbye", None), ("after", 2)]
    assert sleeps == [3.5]
    assert failures == [(ConnectionLost, 3.5)]


@pytest.mark.parametrize("code", [1000, 1003, 1007, 1009, 4501, 4504])
async def test_watch_stops_where_coming_back_would_not_help(code: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.socket.close(code)

    async with scripted(script) as url:
        with pytest.raises(ConnectionLost) as caught:
            await collect(url, 2)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("kind", "error_class"), [("unknown_session", "permanent"), ("store_unavailable", "transient")]
)
async def test_watch_stops_when_the_first_subscribe_is_refused(kind: str, error_class: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("subscribe")
        await peer.refuse(kind, error_class)

    async with scripted(script) as url:
        with pytest.raises(GatewayError) as caught:
            await collect(url, 1)
    assert caught.value.kind == kind


async def test_watch_stops_at_a_lasting_refusal() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.invalidated(NAVIGATION, 2)
        await peer.expect("subscribe")
        await peer.refuse("limit_exceeded", limit="viewsPerSession")

    async with scripted(script) as url:
        with pytest.raises(GatewayError, match="No"):
            await collect(url, 3)


async def test_watch_starts_from_a_position() -> None:
    async def script(peer: Peer) -> None:
        assert (await peer.expect("subscribe"))["since"] == since(4)
        await peer.reply({"view": "v", "epoch": "e", "revision": 4, "recovered": True})
        await peer.after(4, 5)

    async with scripted(script) as url:
        assert told(await collect(url, 1, since=since(4))) == [("after", 5)]


async def test_leaving_a_watch_closes_its_connection() -> None:
    left = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        with pytest.raises(ConnectionClosed):
            await peer.socket.recv()
        left.set()

    async with scripted(script) as url:
        await collect(url, 1)
        await left.wait()


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30)), max_size=20), st.floats(0, 1000), st.floats(0, 1000))
def test_back_off_is_full_jitter_within_its_bounds(steps: list[tuple[float, int]], asked: float, jitter: float) -> None:
    """Waits are within [0, 500 ms · 2ⁿ], never above 20 s, and begin anew only after a stable time."""
    now, chance_now = 0, 0.0
    back_off = BackOff(lambda: chance_now, lambda: now)
    failures = 0
    for chance, works_s in steps:
        back_off.succeeded()
        now, chance_now = now + works_s, chance
        if works_s >= STABLE_S:
            failures = 0
        ceiling = min(BACK_OFF_MAX_S, BACK_OFF_MIN_S * 2**failures)
        assert back_off.wait_s() == chance * ceiling
        failures += 1
    assert min(asked, ASKED_MAX_S) <= back_off.wait_s(asked, jitter) <= max(ASKED_MAX_S, BACK_OFF_MAX_S)
