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

from gateway.core.limits import Limits
from gateway.core.messages import Refused, decode
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
    position,
    running_node,
    since,
    status,
)


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value


def kinds(told: Told) -> list[str]:
    return [reason["kind"] for reason in told.get("reasons", [])]


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
