"""The hub: hand-over, buffer, healing, faults of the store; two nodes over one real store."""

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.hub import CHECK_S, LINGER_S, TICK_S
from gateway.store import Changed, Event
from tests.engines import FLAVOURS, Flavour, redis_server
from tests.oracle.replica import without_publisher
from tests.service import (
    DEADLINE_S,
    Follower,
    Node,
    RecordingPeer,
    board,
    caught_up,
    out_of_reach,
    position,
    running_node,
    same_as_fresh,
    status,
)

SUBSCRIBES = 1_000
AT_ONCE = 5
SESSIONS = ("s0", "s1", "s2")
KILLED_S = 1.0
"""Seconds in which a watcher has what was published while its node's event link was cut: back-off, subscribe, one log."""


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value


class Heard:
    """The events that reached a node; `lose`: they go no further."""

    def __init__(self, *, lose: bool = False) -> None:
        self.events: list[Event] = []
        self._lose = lose

    def __call__(self, session: str, event: Event) -> bool:
        self.events.append(event)
        return not self._lose


async def publish_for_ever(node: Node) -> None:
    for n in range(10**9):
        await node.call("patch", session=SESSIONS[n % 3], change=status(f"F-{n % 5}", f"{n}"), base="any")


# Hand-over


async def test_a_thousand_subscribes_while_another_node_publishes_as_fast_as_it_may(
    tmp_path: Path, flavour: Flavour
) -> None:
    random = Random(1)
    peers = [RecordingPeer(f"p{n}") for n in range(6)]
    seen: dict[RecordingPeer, dict[str, dict[str, Any]]] = defaultdict(dict)  # view → how it is asked for
    async with (
        redis_server(tmp_path, flavour) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        for session in SESSIONS:
            await theirs.call("publish", session=session, snapshot=board(8), base=None)

        async def subscribe(peer: RecordingPeer) -> None:
            asked = {"session": random.choice(SESSIONS)} | random.choice([{}, {"limit": 2}, {"limit": 5, "offset": 2}])
            told = await ours.call("subscribe", peer, **asked)
            seen[peer][told["view"]] = asked

        async with anyio.create_task_group() as publishing:
            publishing.start_soon(publish_for_ever, theirs)
            for n in range(SUBSCRIBES // AT_ONCE):
                async with anyio.create_task_group() as tasks:
                    for peer in random.sample(peers, AT_ONCE):
                        tasks.start_soon(subscribe, peer)
                await peer.until(len(peer.frames) + 3)
                if n % 4 == 0:
                    for view in list(peer.views)[:2]:
                        await ours.call("unsubscribe", peer, view=view)
                if n % 20 == 0:  # the next ones find sessions that are not hot
                    for peer in peers:
                        ours.sessions.leave(peer)
                    ours.hub.sweep(ours.hub.now() + 2 * LINGER_S)
                    assert not ours.hub.every()
            publishing.cancel_scope.cancel()

        for peer in peers:
            for view in peer.views:
                asked, follower = seen[peer][view], Follower(peer, view)
                target = await theirs.call("describe", **asked)
                await caught_up(follower, target["revision"])
                assert follower.live and not follower.reasons
                assert without_publisher(follower.describe) == without_publisher(target)
            for view in seen[peer]:  # those given up too: never a gap, a repeat or a step back
                Follower(peer, view).follow()
        assert sum(len(peer.frames) for peer in peers) > SUBSCRIBES
        assert sum(kind == "reply subscribe" for peer in peers for kind, _ in peer.log) == SUBSCRIBES


async def test_br_098_the_reply_comes_first_and_the_first_after_stands_on_it(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        for session in SESSIONS:
            await theirs.call("publish", session=session, snapshot=board(8), base=None)
        async with anyio.create_task_group() as publishing:
            publishing.start_soon(publish_for_ever, theirs)
            for n in range(200):
                peer = RecordingPeer()
                reply = await ours.call("subscribe", peer, session=SESSIONS[n % 3])
                await peer.until(5)
                assert [kind for kind, _ in peer.log[:6]] == ["reply subscribe"] + ["after"] * 5
                at = reply["revision"]
                assert [after["base"] for _, after in peer.log[1:6]] == list(range(at, at + 5))
                assert [after["revision"] for _, after in peer.log[1:6]] == list(range(at + 1, at + 6))
                ours.sessions.leave(peer)
                if n % 10 == 0:
                    ours.hub.sweep(ours.hub.now() + 2 * LINGER_S)
            publishing.cancel_scope.cancel()


@pytest.mark.parametrize("where", ["before watch", "behind watch", "before read", "behind read"])
@pytest.mark.parametrize("count", [1, 2, 5])
async def test_br_028_what_is_published_while_a_session_is_opened_is_told(
    tmp_path: Path, where: str, count: int
) -> None:
    """The read is held back while another node publishes; nothing is published afterwards."""
    when, operation = where.split()
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        heard = Heard()
        ours.faults.hears = heard

        async def publish() -> None:
            for n in range(count):
                await theirs.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
            if operation == "read" or when == "behind":  # the events have come when the read is let go
                with anyio.fail_after(DEADLINE_S):
                    while len(heard.events) < count:
                        await checkpoint()

        getattr(ours.faults, when)[operation] = publish
        reply = await ours.call("subscribe", session="s")
        assert reply["revision"] == 1 + count
        assert reply["describe"]["context"]["records"][1]["fields"]["status"] == f"{count - 1}"
        assert ours.faults.calls == ["watch", "read"] and not ours.peer.frames


async def test_br_028_control_without_the_buffer_the_change_is_missed(tmp_path: Path) -> None:
    """The same, but events that come before the read is answered are lost, and nothing heals: the revision is missing."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        heard = Heard(lose=True)
        ours.faults.hears = heard

        async def refuse() -> None:
            raise out_of_reach()

        async def publish() -> None:
            await theirs.call("patch", session="s", change=status("F-1", "31"), base="any")
            with anyio.fail_after(DEADLINE_S):
                while not heard.events:
                    await checkpoint()
            ours.faults.hears = lambda session, event: True

        ours.faults.behind["read"] = publish
        ours.faults.before |= {"check": refuse, "log": refuse}
        reply = await ours.call("subscribe", session="s")
        assert reply["revision"] == 1
        ours.check()
        await ours.idle()
        assert (await ours.call("describe", session="s"))["revision"] == 1
        # With healing the next check tells it.
        ours.faults.before.clear()
        ours.check()
        await ours.peer.until(1)
        assert [after["revision"] for after in ours.peer.told("after")] == [2]


# Lost events and links


async def test_br_002_a_revision_in_the_gap_of_a_killed_link_is_told_though_nothing_follows(
    tmp_path: Path, flavour: Flavour
) -> None:
    async with (
        redis_server(tmp_path, flavour) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        reply = await ours.call("subscribe", session="s")
        await theirs.call("describe", session="s")
        for n in range(3):
            heard = ours.faults.hears = Heard()
            resubscribed = ours.hub.metrics.resubscribed._value.get()
            assert await engine.kill_pubsub() == 2
            await theirs.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
            start = anyio.current_time()
            await ours.peer.until(n + 1)
            assert anyio.current_time() - start < KILLED_S
            assert not heard.events, "the event came: not the gap"
            await theirs.faults.until_doubted(n + 1)
            assert ours.hub.metrics.resubscribed._value.get() == resubscribed + 1
        follower = Follower(ours.peer, reply["view"])
        follower.follow()
        assert follower.revisions == [1, 2, 3, 4] and not follower.reasons
        await same_as_fresh(follower, theirs)


async def test_br_004_an_event_that_never_comes_is_found_by_the_check(tmp_path: Path) -> None:
    assert CHECK_S + TICK_S < 6  # the documented time, with one exchange more
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        ours.faults.hears = lambda session, event: False
        await theirs.call("patch", session="s", change=status("F-1", "21"), base="any")
        await theirs.call("patch", session="s", change=status("F-2", "22"), base="any")
        ours.check()
        await ours.peer.until(2)
        assert [(a["base"], a["revision"]) for a in ours.peer.told("after")] == [(1, 2), (2, 3)]


async def test_a_lost_event_is_found_at_the_next_one_and_told_once(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        reply = await ours.call("subscribe", session="s")
        deaf = {2, 3, 6}
        ours.faults.hears = lambda session, event: not (isinstance(event, Changed) and event.position.revision in deaf)
        for n in range(2, 9):
            await theirs.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
        follower = Follower(ours.peer, reply["view"])
        await caught_up(follower, 8)
        assert follower.revisions == list(range(1, 9))


async def test_a_change_too_large_to_travel_is_read_and_told(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(20), base=None)
        reply = await ours.call("subscribe", session="s", limit=3)
        big = {"records": {"upsert": [{"id": f"F-{n}", "fields": {"dest": "x" * 4_000}} for n in range(3, 20)]}}
        await theirs.call("patch", session="s", change=big, base="any", cause={"kind": "data"})
        follower = Follower(ours.peer, reply["view"])
        await caught_up(follower, 2)
        assert follower.revisions == [1, 2] and not follower.reasons
        assert ours.peer.told("after")[0]["cause"] == {"kind": "data"}
        await same_as_fresh(follower, theirs, limit=3)
        # Behind it, nobody can say what a large change among several did: a gap, and only then.
        ours.faults.hears = lambda session, event: False
        for letter in "yz":
            for entry in big["records"]["upsert"]:
                entry["fields"] = {"dest": letter * 4_000}
            await theirs.call("patch", session="s", change=big, base="any")
        ours.check()
        await ours.peer.until(2)
        assert [r["kind"] for r in ours.peer.told("invalidated")[0]["reasons"]] == ["gap"]


# What a connection was told holds for it


async def test_no_read_is_answered_below_a_revision_told_by_a_listing_or_a_conflict(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        first = await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("describe", session="s")
        ours.faults.hears = lambda session, event: False
        await theirs.call("patch", session="s", change=status("F-1", "x"), base="any")
        listed = (await ours.call("sessions"))["sessions"]
        assert listed[0]["revision"] == 2
        assert (await ours.call("describe", session="s"))["revision"] == 2
        await theirs.call("patch", session="s", change=status("F-1", "y"), base="any")
        error = await ours.refused("end", session="s", base=position(first))
        assert error.kind == "conflict" and error.data["revision"] == 3
        assert (await ours.call("describe", session="s"))["revision"] == 3

        async def refuse() -> None:
            raise out_of_reach()

        await theirs.call("patch", session="s", change=status("F-1", "z"), base="any")
        ours.faults.before["log"] = refuse
        await ours.call("sessions")
        assert (await ours.refused("describe", session="s")).kind == "store_unavailable"


async def test_a_refresh_is_not_served_by_a_read_that_began_before_it(tmp_path: Path) -> None:
    """A base told by another node is no conflict here because this node was healing from an older answer just then."""
    async with (
        redis_server(tmp_path) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
        anyio.create_task_group() as tasks,
    ):
        first = await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        ours.faults.hears = lambda session, event: False
        writing, fail, answered, go_on, done = (anyio.Event() for _ in range(5))

        async def hold_write() -> None:
            ours.faults.before.clear()
            writing.set()
            await fail.wait()
            raise out_of_reach()

        async def hold_log() -> None:
            ours.faults.behind.clear()
            answered.set()
            await go_on.wait()

        async def patch() -> None:
            made = await ours.call(
                "patch", session="s", change=status("F-2", "x"), base=position(first) | {"revision": 2}
            )
            assert made["revision"] == 3
            done.set()

        ours.faults.before["commit"] = hold_write
        tasks.start_soon(
            lambda: ours.refused("patch", RecordingPeer(), session="s", change=status("F-1", "y"), base="any")
        )
        await writing.wait()
        tasks.start_soon(patch)  # waits for its turn to write
        await checkpoint()
        ours.faults.behind["log"] = hold_log
        ours.faults.doubt()
        await answered.wait()
        await theirs.call("patch", session="s", change=status("F-1", "x"), base="any")
        fail.set()
        for _ in range(5):
            await checkpoint()
        go_on.set()
        with anyio.fail_after(DEADLINE_S):
            await done.wait()
        assert [a["revision"] for a in ours.peer.told("after")] == [2, 3]


async def test_a_session_created_while_another_looked_for_it_is_there_for_its_creator(tmp_path: Path) -> None:
    """Its next request joins an opening whose read began before the creation, and is answered all the same."""
    async with (
        redis_server(tmp_path) as engine,
        running_node(engine.url) as ours,
        anyio.create_task_group() as tasks,
    ):
        answered, go_on, found = anyio.Event(), anyio.Event(), []

        async def look() -> None:
            found.append(await ours.call("describe", RecordingPeer(), session="s"))

        async def begin_to_look() -> None:
            ours.faults.behind["read"] = hold
            tasks.start_soon(look)
            await answered.wait()

        async def hold() -> None:
            ours.faults.behind.clear()
            answered.set()
            await go_on.wait()

        ours.faults.before["commit"] = begin_to_look
        await ours.call("publish", session="s", snapshot=board(), base=None)
        go_on.set()
        assert (await ours.call("describe", session="s"))["revision"] == 1
        assert found[0]["revision"] == 1


# Linger


async def test_br_006_who_comes_back_around_the_linger_time_hears_the_next_change(tmp_path: Path) -> None:
    random = Random(6)
    closed = 0
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        for n in range(200):
            peer = RecordingPeer()
            await ours.call("subscribe", peer, session="s")
            ours.sessions.leave(peer)
            held = ours.hub.held("s")
            assert held is not None
            ours.hub.sweep(held.used + LINGER_S + random.choice([-0.005, 0.0, 0.005]))
            closed += ours.hub.held("s") is None
            for _ in range(random.randrange(4)):  # the unsubscribe is somewhere on its way
                await checkpoint()
            reply = await ours.call("subscribe", peer, session="s")
            await theirs.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
            await peer.until(1)
            assert peer.told("after")[0]["base"] == reply["revision"]
            ours.sessions.leave(peer)
    assert 20 < closed < 180


# Timers


async def test_a_paced_view_is_told_by_one_timer_however_much_is_published(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        reply = await ours.call("subscribe", session="s", paceMs=50)
        await ours.call("subscribe", RecordingPeer(), session="s", paceMs=2500)
        for n in range(200):
            await ours.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
            assert len(ours.hub._timers) <= 4  # one that is due and one that was overtaken, for each pace
        follower = Follower(ours.peer, reply["view"])
        await caught_up(follower, 201)
        assert len(ours.peer.told("after")) < 100 and not follower.reasons
        await same_as_fresh(follower, ours)
