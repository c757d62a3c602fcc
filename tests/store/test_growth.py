"""What does not grow with the session, and large sessions as a whole."""

from pathlib import Path

import anyio

from gateway.core.position import Position
from gateway.store import Committed, Stored
from gateway.store.scripted import WHOLE_RECORDS, ScriptedStore
from tests.engines import Flavour, RunningEngine, redis_server
from tests.store.support import commit, created, opened, records

PIECES = 5  # commits a session is built of, whatever its size: the log is the same

Usage = tuple[dict[str, int], int, int]


async def usage(engine: RunningEngine) -> Usage:
    """Calls of each command, bytes in, bytes out, since the engine started."""
    stats = await engine.admin.info("commandstats")
    net = await engine.admin.info("stats")
    calls = {name: int(values["calls"]) for name, values in stats.items()}
    return calls, net["total_net_input_bytes"], net["total_net_output_bytes"]


def used(before: Usage, after: Usage) -> tuple[dict[str, int], int]:
    calls = {name: count - before[0].get(name, 0) for name, count in after[0].items()}
    return {name: count for name, count in calls.items() if count}, after[1] - before[1]


async def built(store: ScriptedStore, size: int) -> Position:
    """A session of `size` records of 24 bytes."""
    base = None
    for piece in range(PIECES):
        some = records(size // PIECES, piece * (size // PIECES))
        some["put"] = dict.fromkeys(some["put"], b'{"status":"on time ....}')
        made = await store.commit("s", commit(base, b"%d" % piece, redo=None, undo=None, **some))
        assert isinstance(made, Committed)
        base = made.position
    assert base is not None
    return base


async def test_a_patch_and_an_insert_cost_the_same_at_10_and_100_000_records(tmp_path: Path, flavour: Flavour) -> None:
    costs = []
    for size in (10, 100_000):
        async with redis_server(tmp_path / str(size), flavour) as engine, opened(engine) as store:
            base = await built(store, size)
            await usage(engine)
            before = await usage(engine)
            patched = await store.commit("s", commit(base, b"patch", put={"r7": b'{"status":"delayed ....}'}))
            between = await usage(engine)
            assert isinstance(patched, Committed)
            inserted = await store.commit(
                "s", commit(patched.position, b"insert", put={"new": b"{}"}, scores={"new": (7 << 20) + 5})
            )
            after = await usage(engine)
            assert isinstance(inserted, Committed)
            costs.append((used(before, between), used(between, after)))
            stored = await store.read("s")
            assert isinstance(stored, Stored) and len(stored.records) == len(stored.scores) == size + 1
            assert stored.records["r7"] == b'{"status":"delayed ....}' and stored.scores["new"] == (7 << 20) + 5
    assert costs[0] == costs[1]
    calls, bytes_in = costs[0][0]
    assert calls["cmdstat_hset"] == 2 and calls["cmdstat_evalsha"] == 1 and sum(calls.values()) < 25
    assert bytes_in < 2_000


async def test_20_000_records_in_one_commit(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        many = records(20_000)
        first = await created(store, **many)
        stored = await store.read("s")
        assert isinstance(stored, Stored) and stored.records == many["put"] and stored.scores == many["scores"]
        made = await store.commit("s", commit(first, b"d2", drop=list(many["put"])[1:]))
        assert isinstance(made, Committed)
        stored = await store.read("s")
        assert isinstance(stored, Stored) and stored.records == {"r0": b"{}"} and stored.scores == {"r0": 0}


async def test_a_large_session_that_moves_is_read_of_one_position(tmp_path: Path, flavour: Flavour) -> None:
    size = WHOLE_RECORDS + 1_500
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        position = await created(store, **records(size))
        moving = True

        async def move() -> None:
            nonlocal position
            while moving:
                mark = b"%d" % (position.revision + 1)
                ends = {f"r{number}": mark for number in range(0, size, 100)}
                made = await store.commit("s", commit(position, mark, put=ends, parts={"state": mark}))
                assert isinstance(made, Committed)
                position = made.position

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(move)
            with anyio.fail_after(20):
                whole = 0
                while not whole:  # until a read had to hold the store
                    stored = await store.read("s")
                    assert isinstance(stored, Stored) and len(stored.records) == len(stored.scores) == size
                    if stored.position.revision > 1:
                        marks = {stored.records[f"r{number}"] for number in range(0, size, 100)}
                        assert marks == {stored.parts["state"]} == {b"%d" % stored.position.revision}
                    whole = (await engine.admin.info("commandstats")).get("cmdstat_exec", {}).get("calls", 0)
            moving = False
        last = await store.read("s")
        assert isinstance(last, Stored) and last.position == position
