"""The methods over a real store: resume, repeats and conflicts, ends, limits, cost; two nodes where it matters."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.core.errors import GatewayError
from gateway.core.limits import Limits
from gateway.core.messages import Refused, decode
from gateway.store.keys import keys_of
from tests.engines import FLAVOURS, Flavour, RunningEngine, redis_server
from tests.oracle.replica import apply_after, without_publisher
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


def since(told: Told) -> Told:
    """Where a client stands that was told this describe response."""
    return position(told) | {"view": told["view"]}


def random_change(random: Random, n: int) -> Told:
    """A change that gives no required reason."""
    match random.randrange(4):
        case 0:
            return {"records": {"upsert": [flight(1_000 + n) | {"before": "F-2"}]}}
        case 1:
            return {"state": {"set": {f"k{n % 3}": n}, "unset": [f"k{(n + 1) % 3}"]}}
        case 2:
            return {"feedback": [{"id": "f", "level": "notice", "message": f"{n}", "record": "F-1"}]}
    return status(f"F-{random.randrange(5)}", f"{n}")


async def until_at(node: Node, told: Told, session: str = "s") -> None:
    """Return once the node's replica has what was told."""
    with anyio.fail_after(DEADLINE_S):
        while position(await node.call("describe", session=session)) != position(told):
            await checkpoint()


# Resume


async def test_a_resume_anywhere_is_what_a_live_watcher_was_told(tmp_path: Path, flavour: Flavour) -> None:
    """From memory on the node that was watching, from the log on one that was not; both the same bytes."""
    random = Random(5)
    async with (
        redis_server(tmp_path, flavour) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as cold,
    ):
        await ours.call("publish", session="s", snapshot=board(12), base=None)
        reply = await ours.call("subscribe", session="s")
        follower = Follower(ours.peer, reply["view"])
        states = [follower.follow()]
        for n in range(30):
            await ours.call("patch", session="s", change=random_change(random, n), base="any")
            states.append(follower.follow())
        last = states[-1]
        assert last["revision"] > 20 and not follower.reasons
        for state in states:
            told = {}
            for node in (ours, cold):
                changes = await node.call("changes", session="s", since=since(state))
                peer = RecordingPeer()
                again = await node.call("subscribe", peer, session="s", since=since(state))
                assert again["recovered"] and position(again) == position(last)
                node.sessions.leave(peer)
                if state["revision"] == last["revision"]:
                    assert changes["kind"] == "unchanged" and "after" not in again
                    continue
                assert changes["after"] == again["after"] and changes["after"]["base"] == state["revision"]
                assert without_publisher(apply_after(state, again["after"])) == without_publisher(last)
                told[node] = json.dumps(again["after"])
            assert len(set(told.values())) <= 1


async def test_what_came_and_went_in_between_is_told_from_memory_and_from_the_log(tmp_path: Path) -> None:
    ask = {"id": "ask", "title": "Sure?", "modal": True}
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as cold:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        state = await ours.call("describe", session="s")
        await ours.call("patch", session="s", change={"regions": {"upsert": [ask]}}, base="any")
        await ours.call("patch", session="s", change={"regions": {"remove": ["ask"]}}, base="any")
        await ours.call("patch", session="s", change=status("F-1", "x"), base="any", cause={"kind": "sort"})
        await ours.call("patch", session="s", change=status("F-1", "On time"), base="any")
        for node in (ours, cold):
            told = await node.call("changes", session="s", since=since(state))
            assert told["kind"] == "invalidated" and kinds(told) == ["modal", "sort"] and told["revision"] == 5
            again = await node.call("subscribe", session="s", since=since(state))
            assert not again["recovered"] and kinds(again) == ["modal", "sort"]
            assert again["describe"]["revision"] == 5


async def test_a_resume_too_large_for_one_after_is_insufficient(tmp_path: Path) -> None:
    limits = Limits(after_bytes=2_000)
    async with redis_server(tmp_path) as engine, running_node(engine.url, limits) as ours:
        await ours.call("publish", session="s", snapshot=board(5), base=None)
        reply = await ours.call("subscribe", session="s")
        for n in range(4):
            await ours.call("patch", session="s", change=status(f"F-{n}", "x" * 600), base="any")
        assert len(ours.peer.told("after")) == 4
        told = await ours.call("changes", session="s", since=since(reply))
        assert told["kind"] == "invalidated" and kinds(told) == ["insufficient"]


async def test_what_history_does_not_reach_is_a_gap(tmp_path: Path) -> None:
    limits = Limits(history_revisions=3)
    async with (
        redis_server(tmp_path) as engine,
        running_node(engine.url, limits) as ours,
        running_node(engine.url, limits) as cold,
    ):
        await ours.call("publish", session="s", snapshot=board(), base=None)
        states = [await ours.call("describe", session="s")]
        for n in range(5):
            await ours.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
            states.append(await ours.call("describe", session="s"))
        for node in (ours, cold):
            reached = [(await node.call("changes", session="s", since=since(s)))["kind"] for s in states]
            assert reached == ["invalidated"] * 2 + ["after"] * 3 + ["unchanged"]
            told = await node.call("changes", session="s", since=since(states[0]))
            assert kinds(told) == ["gap"]


async def test_a_position_nobody_reached_another_view_and_another_epoch_are_gaps(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        here = since(await ours.call("describe", session="s"))
        other = await ours.call("describe", session="s", limit=2)
        for asked in (here | {"revision": 2}, here | {"epoch": "elsewhere"}, here | {"view": other["view"]}):
            told = await ours.call("changes", session="s", since=asked)
            assert told["kind"] == "invalidated" and kinds(told) == ["gap"]
            assert position(told) == position(here) and told["view"] == here["view"]
            again = await ours.call("subscribe", session="s", since=asked)
            assert not again["recovered"] and kinds(again) == ["gap"] and "describe" in again


async def test_a_position_ahead_of_this_node_is_asked_of_the_store_first(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("describe", session="s")
        ours.faults.hears = lambda session, event: False
        await theirs.call("patch", session="s", change=status("F-1", "x"), base="any")
        state = await theirs.call("describe", session="s")
        again = await ours.call("subscribe", session="s", since=since(state))
        assert again["recovered"] and again["revision"] == 2 and "after" not in again


async def test_br_030_resuming_again_and_again_delivers_nothing(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        state = await ours.call("subscribe", session="s")
        ours.sessions.leave(ours.peer)
        for n in range(2):
            await theirs.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
        await until_at(ours, {"epoch": state["epoch"], "revision": 3})
        peer = RecordingPeer()
        told = await ours.call("subscribe", peer, session="s", since=since(state))
        assert (told["after"]["base"], told["after"]["revision"]) == (1, 3)
        for node in (ours, theirs, ours, theirs, ours):
            ours.sessions.leave(peer)
            theirs.sessions.leave(peer)
            again = await node.call("subscribe", peer, session="s", since=since(told))
            assert again["recovered"] and again["revision"] == 3 and "after" not in again
        assert peer.frames == []


async def test_br_032_two_publishers_on_two_nodes_and_a_resume_after_any_message_elsewhere(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        reply = await ours.call("subscribe", session="s")
        follower = Follower(ours.peer, reply["view"])

        async def publish(node: Node, first: int, count: int) -> None:
            for n in range(first, first + count):
                await node.call("patch", session="s", change=status(f"F-{n % 3}", f"{n}"), base="any")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish, theirs, 0, 10)
            tasks.start_soon(publish, ours, 100, 10)
        await ours.peer.until(20)
        assert len(ours.peer.frames) == 20
        follower.follow()
        assert follower.revisions == list(range(1, 22))
        cuts: list[Told] = []
        walked = Follower(RecordingPeer(), reply["view"])
        for entry in ours.peer.log:
            walked.peer.log.append(entry)
            cuts.append(walked.follow())
        ours.sessions.leave(ours.peer)
        await publish(theirs, 200, 5)
        stored = await theirs.call("describe", session="s")
        assert stored["revision"] == 26
        for cut in cuts:
            peer = RecordingPeer()
            told = await theirs.call("subscribe", peer, session="s", since=since(cut))
            assert told["recovered"] and told["after"]["base"] == cut["revision"]
            assert without_publisher(apply_after(cut, told["after"])) == without_publisher(stored)
            assert peer.frames == []


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


# Scenarios


async def test_br_036_a_session_from_nothing_and_regions_replaced_at_once(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot={}, base=None)
        reply = await ours.call("subscribe", session="s")
        context = reply["describe"]["context"]
        assert context["regions"] == context["records"] == context["recordIds"] == [] and "page" not in context
        other = {"id": "other", "title": "Other", "fields": ["dest"]}
        records = [{"id": "F-0", "region": "other", "fields": {"dest": "JFK"}}]
        for n, snapshot in enumerate(
            (
                {"regions": board()["regions"], "records": board(2)["records"]},
                {"regions": [], "records": []},
                {"regions": board()["regions"], "records": board(2)["records"]},
                {"regions": [other], "records": records},  # all removed and others there, in one publish
                {"regions": [other | {"title": "Again"}, *board()["regions"]], "records": records},
            ),
            2,
        ):
            await theirs.call("publish", session="s", snapshot=snapshot, base="any")
            await ours.peer.until(n - 1)
            fresh = await theirs.call("describe", session="s")
            follower = Follower(ours.peer, reply["view"])
            assert without_publisher(follower.follow()) == without_publisher(fresh)
            assert not follower.reasons and fresh["revision"] == n


async def test_br_044_a_capability_that_becomes_unavailable_is_a_revision_with_its_reason(tmp_path: Path) -> None:
    capability = {"id": "approve", "title": "Approve", "description": "", "appliesTo": "record", "effect": "write"}
    before = board(capabilities=[capability])
    after = before | {"unavailable": [{"capability": "approve", "record": "F-1", "reason": "Closed"}]}
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=before, base=None)
        reply = await ours.call("subscribe", session="s")
        told = await ours.call("publish", session="s", snapshot=after, base="any")
        assert told["revision"] == 2 and "unchanged" not in told
        [change] = ours.peer.told("after")
        assert change["unavailable"] == after["unavailable"] and change["totals"] == {"unavailableTotal": 1}
        assert "capabilities" not in change
        fresh = await ours.call("describe", session="s")
        assert fresh["context"]["unavailable"] == after["unavailable"]
        follower = Follower(ours.peer, reply["view"])
        assert without_publisher(follower.follow()) == without_publisher(fresh)
        await ours.call("publish", session="s", snapshot=before, base="any")
        assert ours.peer.told("after")[1]["unavailable"] == []


async def test_br_101_the_same_content_again_is_a_revision_of_its_own(tmp_path: Path) -> None:
    page_b = board(page={"title": "Arrivals", "route": "/arrivals"})
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        first = await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        for n, snapshot in ((2, page_b), (3, board())):
            assert (await ours.call("publish", session="s", snapshot=snapshot, base="any"))["revision"] == n
            assert kinds(ours.peer.told("invalidated")[-1]) == ["navigation"]
            reply = await ours.call("subscribe", session="s")
            assert reply["revision"] == n
        assert len(ours.peer.frames) == 2
        error = await ours.refused("patch", session="s", change=status("F-1", "x"), base=position(first))
        assert error.kind == "conflict" and error.data["revision"] == 3
        back = await ours.call("changes", session="s", since=since(reply) | {"revision": 1})
        assert kinds(back) == ["navigation"]  # equal content, but it went and came back


PUBLISH: dict[str, Any] = {
    "session": "s",
    "base": None,
    "snapshot": {
        "capabilities": [{"id": "c", "title": "C", "description": "", "appliesTo": "session", "effect": "destructive"}]
    },
}


@pytest.mark.parametrize("value", [None, "false", 0, 1, "true", []])
@pytest.mark.parametrize("member", ["confirm", "idempotent"])
def test_br_073_null_and_other_types_are_no_bool(member: str, value: Any) -> None:
    params = copy.deepcopy(PUBLISH)
    params["snapshot"]["capabilities"][0][member] = value
    with pytest.raises(Refused) as caught:
        decode(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "publish", "params": params}), Limits())
    assert caught.value.error.kind == "invalid_params"
    assert caught.value.error.data["path"] == f"/snapshot/capabilities/0/{member}"


async def test_br_073_what_is_not_said_takes_the_safe_value_and_an_empty_scope_is_a_scope(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", **PUBLISH)
        [capability] = (await ours.call("subscribe", session="s"))["describe"]["capabilities"]
        assert capability["confirm"] is True and capability["idempotent"] is False
        told = await ours.call("patch", session="s", change={"scope": {}}, base="any")
        assert told["revision"] == 2 and kinds(ours.peer.told("invalidated")[0]) == ["scope"]
        assert "scope" not in (await ours.call("describe", session="s"))["context"]


# Limits


async def test_limits_of_views_count_views_and_are_freed(tmp_path: Path) -> None:
    limits = Limits(views_per_connection=3, views_per_session=4)
    async with redis_server(tmp_path) as engine, running_node(engine.url, limits) as ours:
        for session in ("s", "t"):
            await ours.call("publish", session=session, snapshot=board(), base=None)
        mine = [(await ours.call("subscribe", session="s", limit=n))["view"] for n in (1, 2, 3)]
        for limit in (1, 2, 3):  # again: the same view counts for nothing
            assert (await ours.call("subscribe", session="s", limit=limit))["view"] in mine
        error = await ours.refused("subscribe", session="t")
        assert error.kind == "limit_exceeded"
        assert error.data == {"limit": "viewsPerConnection", "maximum": 3, "given": 4}
        other = RecordingPeer()
        await ours.call("subscribe", other, session="s", limit=1)  # watched already: no view more
        await ours.call("subscribe", other, session="s", limit=4)
        error = await ours.refused("subscribe", other, session="s", limit=5)
        assert error.kind == "limit_exceeded"
        assert error.data == {"limit": "viewsPerSession", "maximum": 4, "given": 5}
        assert await ours.call("unsubscribe", view=mine[2]) == {}
        assert (await ours.refused("unsubscribe", view=mine[2])).kind == "unknown_view"
        assert (await ours.refused("unsubscribe", other, view=mine[1])).kind == "unknown_view"
        await ours.call("subscribe", other, session="s", limit=5)
        ours.sessions.leave(ours.peer)
        ours.sessions.leave(ours.peer)
        await ours.call("patch", session="s", change=status("F-1", "x"), base="any")
        assert ours.peer.frames == [] and len(other.told("after")) == 3


# Cost


Cost = tuple[dict[str, int], int]


async def cost(engine: RunningEngine, node: Node, change: Callable[[int], Told], times: int = 6) -> Cost:
    """Commands and bytes the store takes for one patch: the least of several, for probes and checks come in between."""
    await node.call("patch", session="s", change=change(0), base="any")
    found: list[Cost] = []
    for n in range(1, times):
        before = await _counted(engine)
        await node.call("patch", session="s", change=change(n), base="any")
        after = await _counted(engine)
        commands = {name: after[0][name] - before[0].get(name, 0) for name in after[0]}
        found.append(({name: calls for name, calls in commands.items() if calls}, after[1] - before[1]))
    return min(found, key=lambda one: (sum(one[0].values()), one[1]))


async def _counted(engine: RunningEngine) -> Cost:
    stats = await engine.admin.info("commandstats")
    network = await engine.admin.info("stats")
    calls = {name: entry["calls"] for name, entry in stats.items() if name != "cmdstat_info"}
    return calls, network["total_net_input_bytes"]


async def test_a_patch_and_an_insert_cost_the_same_at_10_and_at_100_000_records(tmp_path: Path) -> None:
    costs: list[list[Cost]] = []
    limits = Limits(records=100_100)  # room for what is inserted
    for count in (10, 100_000):
        directory = tmp_path / f"{count}"
        directory.mkdir()
        async with redis_server(directory) as engine, running_node(engine.url, limits) as node:
            await node.call("publish", session="s", snapshot=board(count), base=None)
            await node.call("describe", session="s")

            def one_field(n: int) -> Told:
                return status("F-5", f"{n}")

            def insert(n: int) -> Told:
                return {"records": {"upsert": [{"id": f"N-{n}", "region": "board", "before": "F-0"}]}}

            costs.append([await cost(engine, node, one_field), await cost(engine, node, insert)])
    assert costs[0] == costs[1]
    for commands, size in costs[0]:
        assert commands["cmdstat_evalsha"] == 1 and size < 2_000
        assert not {"cmdstat_hgetall", "cmdstat_zrange"} & commands.keys()
