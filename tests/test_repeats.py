"""Repeats, conflicts, lost replies, sessions that end under their writers; two nodes over one real store."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.core.errors import GatewayError
from gateway.store import Changed
from gateway.store.keys import keys_of
from tests.engines import FLAVOURS, Flavour, redis_server
from tests.oracle.replica import without_publisher
from tests.service import (
    DEADLINE_S,
    Follower,
    Node,
    RecordingPeer,
    Told,
    board,
    flight,
    out_of_reach,
    position,
    running_node,
    status,
)


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value


def kinds(told: Told) -> list[str]:
    return [reason["kind"] for reason in told.get("reasons", [])]


async def until_at(node: Node, told: Told, session: str = "s") -> None:
    """Return once the node's replica has what was told."""
    with anyio.fail_after(DEADLINE_S):
        while position(await node.call("describe", session=session)) != position(told):
            await checkpoint()


# Repeats and conflicts


@pytest.mark.parametrize("base", ["position", "any"])
async def test_a_repeat_answers_the_same_position_on_any_node(tmp_path: Path, flavour: Flavour, base: str) -> None:
    async with (
        redis_server(tmp_path, flavour) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        made = await ours.call("publish", session="s", snapshot=board(), base=None)
        for node in (ours, theirs, ours):  # theirs is cold
            assert await node.call("publish", session="s", snapshot=board(), base=None) == made
        await ours.call("subscribe", session="s")
        for method, content in (
            ("patch", {"change": status("F-1", "x")}),
            ("publish", {"snapshot": board(2)}),
            ("patch", {"change": {}, "cause": {"kind": "navigation"}}),
        ):
            on: Any = position(made) if base == "position" else "any"
            first = await ours.call(method, session="s", base=on, **content)
            assert first["revision"] == made["revision"] + 1 and "unchanged" not in first
            for node in (ours, theirs, theirs, ours):
                assert await node.call(method, session="s", base=on, **content) == first
            made = first
        assert [told["revision"] for told in ours.peer.told()] == [2, 3, 4]


async def test_what_is_no_repeat_is_a_conflict_that_tells_the_position(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        first = await ours.call("publish", session="s", snapshot=board(), base=None)
        await theirs.call("describe", session="s")
        now = await ours.call("patch", session="s", change=status("F-1", "x"), base=position(first))
        for node in (ours, theirs):
            for base in (None, position(first), position(now) | {"revision": 9}, position(now) | {"epoch": "other"}):
                error = await node.refused("publish", session="s", snapshot=board(1), base=base)
                assert error.kind == "conflict" and error.data == position(now)
            # The content of an earlier repeat, but not the current revision any more.
            error = await node.refused("publish", session="s", snapshot=board(), base=None)
            assert error.kind == "conflict" and error.data == position(now)
        for base in (position(first), position(now) | {"epoch": "other"}):
            error = await ours.refused("end", session="s", base=base)
            assert error.kind == "conflict" and error.data == position(now)
        error = await ours.refused("publish", session="none", snapshot=board(), base=position(now))
        assert error.kind == "conflict" and error.data == {}
        for unknown in ("any", position(now)):
            assert (await ours.refused("patch", session="none", change={}, base=unknown)).kind == "unknown_session"
        assert (await ours.refused("end", session="none")).kind == "unknown_session"


@pytest.mark.parametrize("retried_on", ["the same node", "the other node"])
async def test_a_commit_whose_reply_was_lost_is_one_revision(tmp_path: Path, retried_on: str) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        again = ours if retried_on == "the same node" else theirs

        async def lose() -> None:
            ours.faults.behind.clear()
            raise out_of_reach()

        ours.faults.behind["commit"] = lose
        assert (await ours.refused("publish", session="s", snapshot=board(), base=None)).kind == "store_unavailable"
        made = await again.call("publish", session="s", snapshot=board(), base=None)
        assert made["revision"] == 1
        await ours.call("subscribe", session="s")
        for base in (position(made), "any"):
            change = status("F-1", f"{base}")
            ours.faults.behind["commit"] = lose
            assert (await ours.refused("patch", session="s", change=change, base=base)).kind == "store_unavailable"
            retried = await again.call("patch", session="s", change=change, base=base)
            assert retried["revision"] == made["revision"] + 1
            made = retried
        await ours.peer.until(2)
        assert [a["revision"] for a in ours.peer.told("after")] == [2, 3]
        await until_at(theirs, made)


async def test_a_repeat_is_none_once_another_publisher_wrote(tmp_path: Path) -> None:
    """Under `any` the last writer wins, even on a node that has not heard of the other's revision yet."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("publish", session="s", snapshot=board(1), base="any")
        ours.faults.hears = lambda session, event: False
        await theirs.call("publish", session="s", snapshot=board(2), base="any")
        again = await ours.call("publish", session="s", snapshot=board(1), base="any")
        assert again["revision"] == 4
        await until_at(theirs, again)
        assert (await theirs.call("describe", session="s"))["context"]["recordsTotal"] == 1


async def test_a_repeat_of_what_another_node_wrote_does_not_hide_what_came_before_it(tmp_path: Path) -> None:
    """The same patch under `any` on a node that misses a revision: answered as a repeat, with all that came before."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("patch", session="s", change=status("F-0", "a"), base="any")
        reply = await ours.call("subscribe", session="s")
        ours.faults.hears = lambda session, event: False
        await theirs.call("patch", session="s", change=status("F-1", "missed"), base="any")
        made = await theirs.call("patch", session="s", change=status("F-2", "both"), base="any")
        assert await ours.call("patch", session="s", change=status("F-2", "both"), base="any") == made
        fresh = await theirs.call("describe", session="s")
        assert await ours.call("describe", session="s") == fresh
        follower = Follower(ours.peer, reply["view"])
        assert without_publisher(follower.follow()) == without_publisher(fresh)
        assert follower.revisions == [2, 3, 4]


async def test_a_publisher_under_any_asks_the_store_for_nothing_but_its_commits(tmp_path: Path) -> None:
    """Whether the event or the commit's answer comes first."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        made = await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("describe", session="s")

        async def event_first() -> None:
            await until_at(ours, {"epoch": made["epoch"], "revision": 3})

        for n in range(3):
            ours.faults.behind = {"commit": event_first} if n == 1 else {}
            await ours.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
        assert ours.faults.calls[-3:] == ["commit"] * 3 and "log" not in ours.faults.calls


async def test_br_038_a_publisher_that_comes_back(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        made = await ours.call("publish", session="s", snapshot=board(), base=None)
        bases = [position(made)]
        for n in range(2, 41):
            bases.append(position(await ours.call("patch", session="s", change=status("F-1", f"{n}"), base=bases[-1])))
        await theirs.call("subscribe", session="s")
        # A blip: 40 comes again, then 41.
        again = await theirs.call("patch", session="s", change=status("F-1", "40"), base=bases[38])
        assert position(again) == bases[39] and theirs.peer.frames == []
        now = await theirs.call("patch", session="s", change=status("F-1", "41"), base=bases[39])
        assert now["revision"] == 41 and [a["revision"] for a in theirs.peer.told("after")] == [41]
        # 39 behind it.
        error = await theirs.refused("patch", session="s", change=status("F-1", "39"), base=bases[37])
        assert error.kind == "conflict" and error.data == position(now)
        # A reload knows no position: it publishes whole, knowingly.
        error = await ours.refused("publish", session="s", snapshot=board(4), base=None)
        assert error.kind == "conflict" and error.data == position(now)
        reloaded = await ours.call("publish", session="s", snapshot=board(4), base="any")
        assert reloaded["revision"] == 42 and reloaded["epoch"] == now["epoch"]
        await theirs.peer.until(2)


async def test_what_changes_nothing_makes_no_revision(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        made = await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        for node in (ours, theirs):
            for base in (position(made), "any"):
                for method, content in (
                    ("publish", {"snapshot": board(), "ttlMs": 70_000}),
                    ("patch", {"change": {}}),
                    ("patch", {"change": status("F-1", "On time"), "cause": {"kind": "data"}}),
                ):
                    told = await node.call(method, session="s", base=base, **content)
                    assert told["unchanged"] is True and position(told) == position(made)
        assert ours.peer.frames == []
        told = await ours.call("patch", session="s", change={}, base="any", cause={"kind": "scope"})
        assert told["revision"] == 2 and "unchanged" not in told
        assert kinds(ours.peer.told("invalidated")[0]) == ["scope"]


async def test_the_time_to_live_of_an_unchanged_publish_takes_effect(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None, ttlMs=3_600_000)

        async def ttl() -> int:
            return int(await engine.admin.hget(keys_of("s")[0], "ttl") or 0)

        assert await ttl() == 3_600_000
        told = await ours.call("publish", session="s", snapshot=board(), base="any", ttlMs=50_000)
        assert told["unchanged"] and await ttl() == 50_000
        await ours.call("patch", session="s", change=status("F-1", "x"), base="any")
        assert await ttl() == 50_000
        await ours.call("publish", session="s", snapshot=board(), base="any", ttlMs=1)
        with anyio.fail_after(DEADLINE_S):
            while (error := await _outcome(ours)) is None:
                await checkpoint()
        assert error == "unknown_session"


async def _outcome(node: Node) -> str | None:
    try:
        await node.call("patch", session="s", change={}, base="any")
    except GatewayError as error:
        return error.kind
    return None


async def test_a_session_created_again_has_a_new_epoch(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        epochs = set()
        for node in (ours, theirs, ours):
            made = await node.call("publish", session="s", snapshot=board(), base=None)
            assert made["revision"] == 1
            epochs.add(made["epoch"])
            assert (await node.call("end", session="s", base=position(made))).keys() == {"agent_surface"}
            error = await node.refused("patch", session="s", change=status("F-1", "x"), base=position(made))
            assert error.kind == "unknown_session"
        assert len(epochs) == 3


async def test_writers_that_wait_for_a_session_which_ends_find_out(tmp_path: Path) -> None:
    """Each gets what its base says of a session that is not there."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        made = await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("describe", session="s")
        ours.faults.hears = lambda session, event: False
        outcomes: dict[str, Any] = {}

        async def write(name: str, method: str, **params: Any) -> None:
            try:
                outcomes[name] = await ours.call(method, RecordingPeer(), session="s", **params)
            except GatewayError as error:
                outcomes[name] = error.kind

        await theirs.call("end", session="s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: write("patch", "patch", change=status("F-1", "x"), base="any"))
            tasks.start_soon(lambda: write("held", "patch", change=status("F-1", "y"), base=position(made)))
            tasks.start_soon(lambda: write("published", "publish", snapshot=board(2), base=position(made)))
        assert outcomes == {"patch": "unknown_session", "held": "unknown_session", "published": "conflict"}
        again = await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("describe", session="s")
        await theirs.call("end", session="s")
        created = await ours.call("publish", session="s", snapshot=board(), base="any")
        assert created["revision"] == 1 and created["epoch"] != again["epoch"]


async def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        created = []

        async def create(node: Node, n: int) -> None:
            try:
                created.append(await node.call("publish", session="s", snapshot=board(n), base=None))
            except GatewayError as error:
                assert error.kind == "conflict"

        async with anyio.create_task_group() as tasks:
            for n in range(6):
                tasks.start_soon(create, (ours, theirs)[n % 2], n)
        assert len(created) == 1 and created[0]["revision"] == 1
        await ours.call("publish", session="s", snapshot=board(0), base="any")
        start = (await ours.call("describe", session="s"))["revision"]

        async def write(n: int) -> None:
            change = {"records": {"upsert": [flight(n)]}}
            await (ours, theirs)[n % 2].call("patch", RecordingPeer(), session="s", change=change, base="any")

        async with anyio.create_task_group() as tasks:
            for n in range(4):
                tasks.start_soon(write, n)
        for node in (ours, theirs):
            told = await node.call("changes", session="s", since={"view": "v", "epoch": "e", "revision": 9_999})
            assert told["revision"] == start + 4
            described = await node.call("describe", session="s")
            assert sorted(described["context"]["recordIds"]) == [f"F-{n}" for n in range(4)]


# Ends


async def test_an_end_is_told_on_both_nodes_and_nobody_is_answered_afterwards(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        for node in (ours, theirs):
            await node.call("subscribe", session="s")
        await theirs.call("end", session="s")
        assert theirs.peer.told("ended") == [{"session": "s", "reason": "ended"}]
        assert (await theirs.refused("describe", session="s")).kind == "unknown_session"
        await ours.peer.until(1)
        assert ours.peer.told("ended") == [{"session": "s", "reason": "ended"}]
        assert (await ours.refused("describe", session="s")).kind == "unknown_session"
        assert (await ours.refused("end", session="s")).kind == "unknown_session"


async def test_a_session_ended_and_created_again_ends_its_views_elsewhere(tmp_path: Path) -> None:
    """A node that hears of the end and asks only after the session is there again does not take it for the old one."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        first = await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        created = anyio.Event()
        ours.faults.before["log"] = created.wait
        await theirs.call("end", session="s")
        again = await theirs.call("publish", session="s", snapshot=board(5), base=None)
        assert again["epoch"] != first["epoch"] and again["revision"] == 1
        created.set()
        await ours.peer.until(1)
        assert ours.peer.methods() == ["ended"] and not ours.peer.views
        reply = await ours.call("subscribe", session="s")
        assert reply["epoch"] == again["epoch"] and reply["describe"]["context"]["recordsTotal"] == 5
        await theirs.call("patch", session="s", change=status("F-4", "x"), base="any")
        await ours.peer.until(2)
        assert ours.peer.told("after")[0]["revision"] == 2


@pytest.mark.parametrize("held_back", ["read", "log"])
async def test_an_end_that_comes_while_the_session_is_read_is_not_missed(tmp_path: Path, held_back: str) -> None:
    """The answer in flight still has the session; without another look it would live on until the next check."""
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        if held_back == "log":
            await ours.call("subscribe", session="s")
        ended = anyio.Event()

        def hear(session: str, event: object) -> bool:
            if not isinstance(event, Changed):
                ended.set()
            return True

        async def end() -> None:
            ours.faults.behind.clear()
            await theirs.call("end", session="s")
            await ended.wait()

        ours.faults.hears = hear
        ours.faults.behind[held_back] = end
        if held_back == "log":
            ours.faults.doubt()
            await ours.peer.until(1)
            assert ours.peer.methods() == ["ended"]
        assert (await ours.refused("describe", session="s")).kind == "unknown_session"


async def test_a_full_outbox_hears_of_the_end_when_it_has_room(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        for session in ("s", "t"):
            await ours.call("publish", session=session, snapshot=board(), base=None)
            await ours.call("subscribe", session=session)
        ours.peer.room = False
        await ours.call("end", session="s")
        assert not ours.peer.frames
        ours.sessions.drained(ours.peer)  # still none
        ours.peer.room = True
        ours.sessions.drained(ours.peer)
        ours.sessions.drained(ours.peer)
        assert ours.peer.told() == [{"session": "s", "reason": "ended"}]
        ours.peer.room = False
        await ours.call("end", session="t")
        ours.sessions.leave(ours.peer)
        ours.peer.room = True
        ours.sessions.drained(ours.peer)
        assert len(ours.peer.frames) == 1


async def test_a_session_expires_for_those_who_watch_it(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None, ttlMs=40)
        await ours.call("subscribe", session="s")
        with anyio.fail_after(DEADLINE_S):
            while not ours.peer.frames:
                ours.check()
                await ours.idle()
                await checkpoint()
        assert ours.peer.told("ended") == [{"session": "s", "reason": "expired"}]
        assert (await ours.refused("describe", session="s")).kind == "unknown_session"
