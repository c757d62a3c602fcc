"""A subscription: replica, position and events; its bounds; several on one connection; cancelled waits."""

from typing import Any

import anyio
import pytest

from gateway.client import (
    QUEUE_BYTES,
    QUEUE_ITEMS,
    After,
    Described,
    DescribeResponse,
    Ended,
    Event,
    Goodbye,
    Invalidated,
    Notification,
    Position,
    Subscription,
    connect,
)
from gateway.client.connection import Feed
from tests.scripted import Peer, after, described, scripted


async def at_once(seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


async def take(view: Subscription, count: int) -> list[tuple[str, int | None]]:
    """The next items."""
    items: list[tuple[str, int | None]] = []
    while len(items) < count:
        event = await anext(view)
        items.append((event.method, event.params.get("revision")))
    return items


def record(id: str) -> dict[str, Any]:
    return {"id": id, "region": "g", "fields": {}}


def holding(revision: int, *ids: str, epoch: str = "e") -> dict[str, Any]:
    return described(revision, epoch, records=[record(id) for id in ids], recordIds=list(ids))


def step(base: int, **members: Any) -> dict[str, Any]:
    return after(base, base + 1) | {"asOf": f"t{base + 1}"} | members


async def test_the_replica_moves_with_an_item_and_the_position_behind_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.send(method="after", params=step(1, state={"set": {"x": 1}}, cause={"kind": "data"}))
        reasons = [{"kind": "publisher", "required": False, "publisher": "gone"}]
        await peer.invalidated(reasons, 2)

    async with scripted(script) as url, connect(url) as client:
        view = client.subscribe("s", limit=3, pace_ms=50)
        assert (view.now, view.position) == (None, None)
        first = await anext(view)
        assert isinstance(first, Described) and view.now == first.now
        assert [view.position] == [None], "it is not taken yet"
        second = await anext(view)
        assert isinstance(second, After) and (second.base, second.position) == (("e", 1), ("e", 2))
        assert second.cause == {"kind": "data"}
        assert view.position == Position("e", 1)
        assert view.now == second.now and second.now is not None
        assert (second.now.context["state"], second.now.as_of) == ({"x": 1}, "t2")
        assert first.now.context["state"] == {}, "what was handed out stays"
        third = await anext(view)
        assert isinstance(third, Invalidated) and not third.required
        assert view.now.publisher == "gone"
        assert view.position == Position("e", 2)


async def test_a_record_is_not_there_twice_however_often_it_is_described() -> None:
    """BR-034: five reconnects, each answered by a reset and a whole describe."""
    gap = [{"kind": "gap", "required": True}]
    seen = [["a", "b", "c"], ["c", "a"], [], ["b", "c", "a"], ["a", "b", "c"], ["c"]]

    def answer(n: int) -> Any:
        async def script(peer: Peer) -> None:
            params = await peer.subscribed(
                1, epoch=f"e{n}", describe=holding(1, *seen[n], epoch=f"e{n}"), **({"reasons": gap} if n else {})
            )
            assert ("since" in params) == (n > 0)
            await peer.socket.close(4001)

        return script

    async with scripted(*(answer(n) for n in range(6))) as url, connect(url, sleep=at_once) as client:
        view = client.subscribe("s")
        for n in range(6):
            if n:
                told = await anext(view)
                assert isinstance(told, Invalidated) and told.required, "what is gone is announced"
            event = await anext(view)
            assert isinstance(event, Described)
            assert list(event.now.records) == event.now.record_ids == seen[n]
            assert view.now == event.now


async def test_a_resume_at_the_current_position_tells_nothing() -> None:
    """BR-030: two changes while away come once; five more resumes bring nothing."""

    async def first(peer: Peer) -> None:
        await peer.subscribed(10)
        await peer.socket.close(4001)

    async def second(peer: Peer) -> None:
        await peer.recovered(12, after=after(10, 12) | {"asOf": "t12"})
        await peer.socket.close(4001)

    async def again(peer: Peer) -> None:
        assert (await peer.recovered(12))["since"] == {"view": "v", "epoch": "e", "revision": 12}
        await peer.socket.close(4001)

    async def last(peer: Peer) -> None:
        await peer.recovered(12, publisher="gone")

    async with scripted(first, second, *[again] * 5, last) as url, connect(url, sleep=at_once) as client:
        view = client.subscribe("s")
        assert await take(view, 3) == [("described", 10), ("after", 12), ("invalidated", 12)]
        assert view.now and view.now.publisher == "gone", "what changed while away is told when it is known"


async def test_cancelled_waits_lose_nothing() -> None:
    ready = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await ready.wait()
        for n in range(1, 21):
            await peer.send(method="after", params=step(n))

    async with scripted(script) as url, connect(url) as client:
        view = client.subscribe("s")
        assert await take(view, 1) == [("described", 1)]
        for _ in range(5):
            with anyio.move_on_after(0):
                await anext(view)
        ready.set()
        revisions: list[int] = []
        while len(revisions) < 20:
            with anyio.CancelScope() as scope:
                for _ in range(3):
                    event = await anext(view)
                    revisions.append(event.params["revision"])
                    scope.cancel()  # at the next wait
        assert revisions == list(range(2, 22))


async def test_a_cancelled_subscribe_is_made_again() -> None:
    asked = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.expect("subscribe")
        first = peer.id
        asked.set()
        await peer.expect("subscribe")
        second, peer.id = peer.id, first
        place = {"view": "v", "epoch": "e", "revision": 1}
        await peer.reply(place | {"recovered": False, "describe": described(1)})
        await peer.after(1, 2)
        peer.id = second
        await peer.reply(place | {"revision": 2, "recovered": False, "describe": described(2)})
        await peer.after(2, 3)

    async with scripted(script) as url, connect(url) as client:
        view = client.subscribe("s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(view.__anext__)
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert await take(view, 2) == [("described", 2), ("after", 3)]


async def test_two_of_one_view_share_it() -> None:
    """The gateway has one subscription for both: a describe for one goes to both, and the last one to leave ends it."""

    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.after(1, 2)
        await peer.subscribed(2)
        await peer.after(2, 3)
        assert await peer.expect("unsubscribe") == {"view": "v"}
        await peer.reply({})

    async with scripted(script) as url, connect(url) as client, client.subscribe("s") as one:
        assert await take(one, 1) == [("described", 1)]
        async with client.subscribe("s") as two:
            assert await take(two, 2) == [("described", 2), ("after", 3)]
        assert await take(one, 3) == [("after", 2), ("described", 2), ("after", 3)]


async def test_each_gets_its_own() -> None:
    async def script(peer: Peer) -> None:
        for view in ("v", "w"):
            await peer.expect("subscribe")
            place = {"view": view, "epoch": "e", "revision": 1}
            await peer.reply(place | {"recovered": False, "describe": described(1) | place})
        await peer.after(1, 2, view="w")
        await peer.after(1, 4, view="v")
        await peer.after(2, 3, view="w")
        await peer.send(method="goodbye", params={"reason": "draining", "reconnectAfterMs": 1, "jitterMs": 1})
        await peer.send(method="ended", params={"session": "t", "reason": "lost"})

    async with scripted(script) as url, connect(url) as client:
        one, two = client.subscribe("s"), client.subscribe("t")
        assert await take(one, 1) == [("described", 1)]
        assert await take(two, 4) == [("described", 1), ("after", 2), ("after", 3), ("goodbye", None)]
        assert isinstance(ended := await anext(two), Ended) and ended.reason == "lost"
        assert two.now is None
        assert await take(one, 2) == [("after", 4), ("goodbye", None)]


async def test_a_view_nobody_takes_is_told_that_it_is_behind() -> None:
    """And the connection, and the others on it, are not the worse for it; pushed views ask for themselves here."""

    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        for n in range(1, QUEUE_ITEMS + 10):
            await peer.send(method="after", params=step(n))
        await peer.expect("ping")
        await peer.reply({})
        assert "since" not in await peer.subscribed(5000)
        await peer.send(method="after", params=step(5000))

    async with scripted(script) as url, connect(url) as client:
        view = client.subscribe("s", push=True)
        assert await take(view, 1) == [("described", 1)]
        await client.ping()
        event = await anext(view)
        assert isinstance(event, Invalidated) and event.required
        assert [reason.kind for reason in event.reasons] == ["behind"]
        assert await take(view, 2) == [("described", 5000), ("after", 5001)]


@pytest.mark.parametrize(("items", "size"), [(QUEUE_ITEMS, 10), (4, QUEUE_BYTES // 4), (1, 2 * QUEUE_BYTES)])
def test_a_feed_is_bounded_in_items_and_bytes(items: int, size: int) -> None:
    feed = Feed("s")
    feed.begin("v")
    for n in range(items):
        feed.put(Notification("after", step(n + 1)), size)
    assert (len(feed), feed.overran) == (items, False)
    feed.put(Notification("after", step(items + 1)), size)
    assert (len(feed), feed.overran) == (1, True)
    feed.put(Notification("after", step(items + 2)), size)
    assert feed.take().params == {
        "session": "s",
        "view": "v",
        "epoch": "e",
        "revision": items + 2,
        "reasons": [{"kind": "behind", "required": True}],
    }
    assert len(feed) == 0
    feed.put(Notification("described", described(9000)), 10)
    feed.put(Notification("after", step(9000)), 10)
    assert (len(feed), feed.overran) == (2, False)


async def test_going_on_from_a_describe_kept_elsewhere() -> None:
    async def script(peer: Peer) -> None:
        params = await peer.recovered(5, after=after(3, 5) | {"asOf": "t5", "state": {"set": {"x": 1}}})
        assert params["since"] == {"view": "v", "epoch": "e", "revision": 3}

    async with scripted(script) as url, connect(url) as client:
        view = client.subscribe("s", since=DescribeResponse(described(3)))
        event: Event = await anext(view)
        assert isinstance(event, After) and event.now and event.now.context["state"] == {"x": 1}


async def test_goodbye_is_an_event() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await peer.send(method="goodbye", params={"reason": "draining", "reconnectAfterMs": 1, "jitterMs": 1})

    async with scripted(script) as url, connect(url) as client:
        view = client.subscribe("s")
        await anext(view)
        assert isinstance(await anext(view), Goodbye)


# BR-069, as far as it goes before there are tokens: a client with a credential that does not change is refused for good.
# An expired one in the handshake is HTTP 401 (`test_a_refused_handshake`: any 4xx but 429 is final), one shown in hello is
# close 4501 (`test_a_close_code_says_whether_to_come_back`: final), so there is one attempt and no loop. The callback that is
# asked for each attempt comes with `authorize`; 4002 then means "return with a new token".
