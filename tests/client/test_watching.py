"""A watched view against a scripted peer: what comes, and every way to lose it that protocol §2–§6 allows."""

from contextlib import aclosing
from typing import Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from gateway.client import ConnectionLost, GatewayError, Notification, watch
from tests.scripted import Peer, after, described, scripted

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


async def test_watch_resumes_at_the_item_last_taken_and_hands_out_none_twice() -> None:
    async def first(peer: Peer) -> None:
        assert await peer.subscribed(1) == {"session": "s", "limit": 3}
        await peer.after(1, 2)
        await peer.after(2, 3)
        await peer.socket.close(4001)

    async def second(peer: Peer) -> None:
        assert await peer.recovered(5, after=after(3, 5)) == {"session": "s", "limit": 3, "since": since(3)}
        await peer.after(5, 6)
        peer.socket.transport.abort()

    async def third(peer: Peer) -> None:
        assert (await peer.recovered(6))["since"] == since(6)
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
        await peer.send(method="described", params=described(2))
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
        await peer.refuse("store_unavailable", "transient", retryable=True, retryAfterMs=7000)
        await peer.subscribed(1, epoch="f")

    sleeps = Sleeps()
    async with scripted(script) as url:
        items = await collect(url, 3, sleep=sleeps, chance=lambda: 1.0, clock=lambda: 0.0)
    assert told(items) == [("described", 1), ("ended", None), ("described", 1)]
    assert sleeps == [0.5, 1.0, 2.0, 7.0 + 4.0]


async def test_watch_stays_away_as_long_as_a_goodbye_asks() -> None:
    async def first(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.send(method="goodbye", params={"reason": "drain", "reconnectAfterMs": 3000, "jitterMs": 1000})
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        await peer.recovered(1)
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
        assert (await peer.recovered(4))["since"] == since(4)
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
