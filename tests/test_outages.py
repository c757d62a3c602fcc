"""A store that restarts, is emptied, is away, or keeps what nobody can read: what watchers and callers are told."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.core.limits import Limits
from gateway.store import Changed
from gateway.store.keys import keys_of
from tests.engines import FLAVOURS, Flavour, redis_server
from tests.service import (
    DEADLINE_S,
    Follower,
    Node,
    RecordingPeer,
    board,
    caught_up,
    position,
    running_node,
    same_as_fresh,
    status,
)


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value


def reasons(node: Node) -> list[dict[str, Any]]:
    return [reason for told in node.peer.told("invalidated") for reason in told["reasons"]]


# Restart, loss, absence of the store


async def test_a_restarted_store_begins_a_new_epoch_and_watchers_are_told(tmp_path: Path, flavour: Flavour) -> None:
    async with (
        redis_server(tmp_path, flavour) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        reply = await ours.call("subscribe", session="s")
        await theirs.call("subscribe", session="s")
        patched = await theirs.call("patch", session="s", change=status("F-1", "Gone"), base="any")
        await ours.peer.until(1)
        await engine.restart()
        await ours.peer.until(2)
        await theirs.peer.until(2)
        told = ours.peer.told("invalidated")[0]
        assert theirs.peer.told("invalidated") == [told]
        assert told["reasons"] == [{"kind": "gap", "required": True}]
        assert told["epoch"] != patched["epoch"] and told["revision"] == 1
        for node in (ours, theirs):
            described = await node.call("describe", session="s")
            assert position(described) == position(told)
            assert described["context"]["records"][1]["fields"]["status"] == "Gone"
            error = await node.refused("patch", session="s", change=status("F-1", "x"), base=position(patched))
            assert error.kind == "conflict" and error.data == position(told)
            since = position(patched) | {"view": reply["view"]}
            changes = await node.call("changes", session="s", since=since)
            assert changes["kind"] == "invalidated" and [r["kind"] for r in changes["reasons"]] == ["gap"]
            again = await node.call("subscribe", RecordingPeer(), session="s", since=since)
            assert not again["recovered"] and [r["kind"] for r in again["reasons"]] == ["gap"]
        await theirs.call("patch", session="s", change=status("F-1", "Back"), base=position(told))
        with anyio.fail_after(DEADLINE_S):  # stale: nothing more is told but what is asked for
            while (await ours.call("describe", session="s"))["revision"] < 2:
                await checkpoint()
        assert len(ours.peer.frames) == 2


async def test_br_002_what_is_written_right_after_a_restart_is_told(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        await engine.restart()
        written = await theirs.call("publish", session="s", snapshot=board(5), base="any")
        await ours.peer.until(1)
        assert [r["kind"] for r in reasons(ours)] == ["gap"]
        reply = await ours.call("subscribe", session="s")
        follower = Follower(ours.peer, reply["view"])
        await caught_up(follower, written["revision"])
        assert follower.describe["epoch"] == written["epoch"]
        assert follower.describe["context"]["recordsTotal"] == 5


async def test_old_data_restored_from_a_copy_is_never_taken_for_new(tmp_path: Path) -> None:
    kept, data = tmp_path / "kept", tmp_path / "data"
    data.mkdir()
    async with redis_server(data) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        await engine.stop()
        shutil.copytree(data / "appendonlydir", kept)
        await engine.start()
        newer = await ours.call("publish", session="s", snapshot=board(7), base="any")
        for n in range(5):
            newer = await ours.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
        await ours.call("subscribe", session="s")
        await engine.stop()
        shutil.rmtree(data / "appendonlydir")
        shutil.copytree(kept, data / "appendonlydir")
        await engine.start()
        await ours.peer.until(1)
        told = ours.peer.told("invalidated")[-1]
        assert [r["kind"] for r in told["reasons"]] == ["gap"] and told["epoch"] != newer["epoch"]
        described = await ours.call("describe", session="s")
        assert position(described) == position(told) and described["context"]["recordsTotal"] == 3
        error = await ours.refused("patch", session="s", change=status("F-1", "x"), base=position(newer))
        assert error.kind == "conflict" and error.data == position(told)


async def test_an_emptied_store_ends_what_was_watched_as_lost(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, running_node(engine.url) as ours:
        first = await ours.call("publish", session="s", snapshot=board(), base=None)
        for limit in (1, 2):
            await ours.call("subscribe", session="s", limit=limit)
        await engine.flush()
        ours.check()
        await ours.peer.until(1)
        assert ours.peer.frames == [{"jsonrpc": "2.0", "method": "ended", "params": {"session": "s", "reason": "lost"}}]
        assert ours.peer.views == {}
        assert (await ours.refused("describe", session="s")).kind == "unknown_session"
        assert (
            await ours.refused("patch", session="s", change=status("F-1", "x"), base="any")
        ).kind == "unknown_session"
        again = await ours.call("publish", session="s", snapshot=board(), base=None)
        assert again["epoch"] != first["epoch"] and again["revision"] == 1


async def test_hot_sessions_are_read_while_the_store_is_away_and_heal_when_it_comes_back(tmp_path: Path) -> None:
    limits = Limits(lease_ms=300)
    async with redis_server(tmp_path) as engine, running_node(engine.url, limits) as ours:
        first = await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        await engine.stop()
        start = anyio.current_time()
        for request in (
            {"base": position(first)},
            {"base": "any"},
            {"base": {"epoch": "elsewhere", "revision": 7}},  # asked of the store: must not stop the readers
        ):
            error = await ours.refused("patch", session="s", change=status("F-1", "x"), **request)
            assert error.kind == "store_unavailable" and error.data["retryAfterMs"] > 0
        assert (await ours.refused("end", session="s")).kind == "store_unavailable"
        assert (await ours.call("describe", session="s"))["revision"] == 1
        assert anyio.current_time() - start < 4  # none of these waits for a deadline
        await ours.peer.until_that(
            lambda: {"kind": "publisher", "required": False, "publisher": "unknown"} in reasons(ours)
        )
        described = await ours.call("describe", session="s")
        assert described["publisher"] == "unknown" and described["revision"] == 1
        ours.faults.silence_ms = limits.stale_read_ms + 1
        assert (await ours.refused("describe", session="s")).kind == "store_unavailable"
        ours.faults.silence_ms = None
        await engine.start()
        await ours.peer.until_that(lambda: {"kind": "gap", "required": True} in reasons(ours))
        await ours.idle()
        told = await ours.call("patch", session="s", change=status("F-1", "x"), base="any")
        assert told["revision"] == 2 and told["epoch"] != first["epoch"]
        assert (await ours.call("describe", session="s"))["publisher"] == "none"


async def test_the_publisher_is_told_unknown_and_known_again_and_nothing_else_changes(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        reply = await ours.call("subscribe", session="s")
        ours.faults.silence_ms = 10_001
        ours.hub.sweep(ours.hub.now())
        ours.hub.sweep(ours.hub.now())
        ours.faults.silence_ms = None
        ours.hub.sweep(ours.hub.now())
        await theirs.call("patch", session="s", change=status("F-1", "x"), base="any")
        follower = Follower(ours.peer, reply["view"])
        await caught_up(follower, 2)
        assert ours.peer.methods() == ["invalidated", "invalidated", "after"]
        assert reasons(ours) == [
            {"kind": "publisher", "required": False, "publisher": value} for value in ("unknown", "none")
        ]
        await same_as_fresh(follower, theirs)


async def test_a_session_that_could_not_be_healed_is_answered_as_known_and_healed_later(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        ours.faults.away = True
        ours.faults.hears = lambda session, event: not (isinstance(event, Changed) and event.position.revision == 2)
        for n in range(2):
            await theirs.call("patch", session="s", change=status("F-1", f"{n}"), base="any")
        with anyio.fail_after(DEADLINE_S):
            while "log" not in ours.faults.calls:
                await checkpoint()
        await ours.idle()
        assert (await ours.call("describe", session="s"))["revision"] == 1
        ours.faults.away = False
        ours.check()
        await ours.peer.until(2)
        assert [a["revision"] for a in ours.peer.told("after")] == [2, 3]


async def test_a_reader_does_not_wait_for_a_store_that_has_been_silent_for_long(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        ours.faults.before["log"] = anyio.Event().wait  # for ever
        ours.faults.doubt()
        ours.faults.silence_ms = 10_001
        with anyio.fail_after(1):
            described = await ours.call("describe", session="s")
        assert described["revision"] == 1 and described["publisher"] == "unknown"


async def test_a_cold_session_is_unavailable_while_the_store_is_and_opened_when_it_is_back(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as theirs:
        await theirs.call("publish", session="s", snapshot=board(), base=None)
        ours.faults.away = True
        assert (await ours.refused("describe", session="s")).kind == "store_unavailable"
        assert (await ours.refused("subscribe", session="s")).kind == "store_unavailable"
        assert not ours.hub.every() and not ours.peer.views
        ours.faults.away = False
        assert (await ours.call("describe", session="s"))["revision"] == 1


# What cannot be read


@pytest.mark.parametrize("part", ["p:regions", "p:capabilities", "p:state", "p:page", "p:unavailable", "p:feedback"])
async def test_br_094_a_session_without_one_of_its_parts_is_lost_and_published_again(tmp_path: Path, part: str) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as cold:
        first = await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        await engine.admin.hdel(keys_of("s")[0], part)
        assert (await cold.refused("describe", session="s")).kind == "unknown_session"
        await ours.peer.until(1)  # one outcome for all: who knew it hears that it is over
        assert ours.peer.methods() == ["ended"]
        for node in (ours, cold):
            since = {"view": "v", "epoch": first["epoch"], "revision": 1}
            assert (await node.refused("subscribe", session="s", since=since)).kind == "unknown_session"
            error = await node.refused("patch", session="s", change=status("F-1", "x"), base="any")
            assert error.kind == "unknown_session"
        again = await cold.call("publish", session="s", snapshot=board(), base=None)
        assert again["revision"] == 1 and again["epoch"] != first["epoch"]
        assert (await ours.call("describe", session="s"))["context"]["recordsTotal"] == 3


@pytest.mark.parametrize("key", [0, 1, 2])
async def test_br_094_a_session_without_one_of_its_keys_is_lost_for_those_who_watch(tmp_path: Path, key: int) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours:
        await ours.call("publish", session="s", snapshot=board(), base=None)
        await ours.call("subscribe", session="s")
        await engine.admin.delete(keys_of("s")[key])
        assert (
            await ours.refused("patch", session="s", change=status("F-1", "x"), base="any")
        ).kind == "unknown_session"
        await ours.peer.until(1)
        assert ours.peer.told("ended") == [{"session": "s", "reason": "lost"}]
        assert (await ours.call("publish", session="s", snapshot=board(), base="any"))["revision"] == 1


async def test_content_of_another_hand_ends_this_session_and_no_other(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, running_node(engine.url) as ours, running_node(engine.url) as cold:
        for session in ("s", "t"):
            await ours.call("publish", session=session, snapshot=board(), base=None)
            await ours.call("subscribe", session=session)
        epoch = (await ours.call("describe", session="s"))["epoch"]
        channel = keys_of("s")[0].removesuffix(b":meta")
        await engine.admin.spublish(channel, f"changed {epoch} 2 0 4 1\ndata{{not ours".encode())
        await engine.admin.hset(keys_of("s")[1], "F-1", b"not ours")
        error = await cold.refused("describe", session="s")
        assert error.kind == "internal" and "ours" not in str(error.wire())
        for node in (ours, cold):
            assert (await node.call("describe", session="t"))["revision"] == 1
        await cold.call("patch", session="t", change=status("F-1", "x"), base="any")
        await ours.peer.until_that(lambda: any(a["session"] == "t" for a in ours.peer.told("after")))
