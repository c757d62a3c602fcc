"""What the seam promises, over a real Redis and a real Valkey."""

from pathlib import Path

from gateway.core.position import Position
from gateway.store import Changed, Committed, Ended, Gone, Moved, Renewed, Stored
from gateway.store.keys import keys_of
from gateway.store.scripted import ScriptedStore
from tests.engines import Flavour, redis_server
from tests.store.support import commit, created, opened, records, running


async def test_what_is_committed_is_read(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store, **records(3), parts={"page": b"{}", "regions": b"[]"}, ttl_ms=60_000)
        second = await store.commit(
            "s",
            commit(
                first,
                b"d2",
                put={"r1": b"new", "x": b"\x00\xff\r\n"},
                drop=["r0"],
                scores={"x": -(2**40), "r1": 10**15},
                parts={"page": None, "state": b"{}"},
            ),
        )
        assert isinstance(second, Committed) and second.position == Position(first.epoch, 2)
        stored = await store.read("s")
    assert isinstance(stored, Stored)
    assert stored.position == second.position and stored.as_of == second.as_of
    assert stored.records == {"r1": b"new", "r2": b"{}", "x": b"\x00\xff\r\n"}
    assert stored.scores == {"r1": 10**15, "r2": 2 << 20, "x": -(2**40)}
    assert stored.parts == {"regions": b"[]", "state": b"{}"}
    assert (stored.secret, stored.digest, stored.ttl_ms) == (b"s" * 32, b"d2", 60_000)


async def test_a_repeat_answers_its_position_and_another_base_is_told_the_current_one(
    tmp_path: Path, flavour: Flavour
) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store)
        again = await store.commit("s", commit())
        assert isinstance(again, Committed) and again.repeated and again.position == first
        assert await store.commit("s", commit(digest=b"other")) == Moved(first)
        second = Position(first.epoch, 2)
        assert isinstance(await store.commit("s", commit(first, b"d2")), Committed)
        repeat = await store.commit("s", commit(first, b"d2"))
        assert isinstance(repeat, Committed) and repeat.repeated and repeat.position == second
        assert await store.commit("s", commit(first, b"d3")) == Moved(second)
        assert await store.commit("s", commit()) == Moved(second)
        assert await store.commit("s", commit(Position("elsewhere", 2), b"d3")) == Moved(second)
        assert await store.commit("none", commit(first, b"d2")) == Moved(None)


async def test_events_reach_a_node_that_watches_and_no_other(tmp_path: Path, flavour: Flavour) -> None:
    async with (
        redis_server(tmp_path, flavour) as engine,
        opened(engine) as one,
        opened(engine) as two,
        running(two) as heard,
    ):
        await two.watch("s")
        first = await created(one, redo=b"\n\x00 1", cause='{"kind":"data"}\n')
        await created(one, "other")
        assert isinstance(await one.commit("s", commit(first, b"d2", redo=None)), Committed)
        assert await one.end("s", None) == Position(first.epoch, 2)
        await heard.wait_for(Ended)
    kinds = [event for name, event in heard.events if name == "s"]
    assert len(kinds) == len(heard.events) == 3
    made, changed, ended = kinds
    assert isinstance(made, Changed) and isinstance(changed, Changed)
    assert (made.position, made.redo, made.cause) == (first, b"\n\x00 1", '{"kind":"data"}\n')
    assert (changed.position.revision, changed.redo) == (2, None)
    assert ended == Ended("ended")


async def test_a_restart_begins_a_new_epoch(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store) as heard:
        await store.watch("s")
        first = await created(store, **records(2))
        await store.commit("s", commit(first, b"d2"))
        await engine.restart()
        await heard.wait_for_doubt(0)
        renewed = await store.check("s")
        assert isinstance(renewed, Position) and renewed.epoch != first.epoch and renewed.revision == 1
        event = await heard.wait_for(Renewed)
        assert event.position == renewed
        assert await engine.admin.exists(keys_of("s")[3]) == 0
        log = await store.log("s", Position(first.epoch, 1))
        assert not isinstance(log, Gone) and log.entries is None and log.position == renewed
        assert log.digest == b""
        assert await store.commit("s", commit(first, b"d3")) == Moved(renewed)
        assert await store.commit("s", commit(first, b"d2")) == Moved(renewed)  # it names another history
        answer = await store.commit("s", commit(renewed, b"d3"))
        assert isinstance(answer, Committed) and answer.position == Position(renewed.epoch, 2)


async def test_the_log_gives_what_is_behind_a_position_and_nothing_else(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store)
        await store.commit("s", commit(first, b"d2", cause="two", redo=b"r2", undo=b"u2"))
        await store.commit("s", commit(Position(first.epoch, 2), b"d3", cause="three", redo=None, undo=None))
        log = await store.log("s", first)
        assert not isinstance(log, Gone) and log.entries is not None
        two, three = log.entries
        assert (two.revision, two.cause, two.redo, two.undo) == (2, "two", b"r2", b"u2")
        assert (three.revision, three.cause, three.redo, three.undo) == (3, "three", None, None)
        assert (log.position, log.as_of, log.digest) == (Position(first.epoch, 3), three.as_of, b"d3")
        reached = await store.log("s", log.position)
        assert not isinstance(reached, Gone) and reached.entries == []
        for elsewhere in (Position(first.epoch, 4), Position("another", 1), Position(first.epoch, 2**53 - 1)):
            answer = await store.log("s", elsewhere)
            assert not isinstance(answer, Gone) and answer.entries is None
        assert await store.log("none", first) == Gone("lost")


async def test_the_log_keeps_so_many_revisions(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine, history_revisions=3) as store:
        epoch = (await created(store)).epoch
        for revision in range(1, 10):
            await store.commit("s", commit(Position(epoch, revision), b"%d" % revision))
        kept = await store.log("s", Position(epoch, 7))
        assert not isinstance(kept, Gone) and kept.entries is not None
        assert [entry.revision for entry in kept.entries] == [8, 9, 10]
        gone = await store.log("s", Position(epoch, 6))
        assert not isinstance(gone, Gone) and gone.entries is None


async def test_the_log_keeps_so_many_bytes(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine, history_bytes=100_000) as store:
        epoch = (await created(store)).epoch
        for revision in range(1, 40):
            await store.commit("s", commit(Position(epoch, revision), b"%d" % revision, redo=bytes(10_000)))
        assert await engine.admin.xlen(keys_of("s")[3]) == 9
        counted = int((await engine.admin.hget(keys_of("s")[0], "logBytes")) or 0)
        assert 90_000 < counted <= 100_000


async def test_the_log_keeps_so_long(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine, history_ms=1) as store:
        first = await created(store)
        position = first
        while (answer := await store.log("s", first)) and not isinstance(answer, Gone) and answer.entries is not None:
            made = await store.commit("s", commit(position, str(position.revision).encode()))
            assert isinstance(made, Committed) and made.position.revision < 10_000
            position = made.position


async def test_a_lowered_limit_is_reached_in_bounded_steps(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as wide:
        position = await created(wide)
        for number in range(60):
            made = await wide.commit("s", commit(position, b"%d" % number))
            assert isinstance(made, Committed)
            position = made.position
        async with opened(engine, history_revisions=1) as narrow:
            for left in (46, 31, 16, 1, 1):
                made = await narrow.commit("s", commit(position, b"n%d" % position.revision))
                assert isinstance(made, Committed)
                position = made.position
                assert await engine.admin.xlen(keys_of("s")[3]) == left


async def test_as_of_never_falls(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store)
        ahead = 10**13
        await engine.admin.hset(keys_of("s")[0], "asOf", str(ahead))  # a store whose clock was ahead
        made = await store.commit("s", commit(first, b"d2"))
        assert isinstance(made, Committed) and made.as_of == ahead


async def test_end_is_found_again_and_leaves_the_reason_alone(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store, **records(2), parts={"page": b"{}"})
        assert await store.end("s", Position(first.epoch, 7)) == Moved(first)
        assert await store.end("s", first) == first
        assert await store.read("s") == await store.check("s") == await store.log("s", first) == Gone("ended")
        assert await store.end("s", None) == Moved(None)
        assert await store.commit("s", commit(first, b"d2")) == Moved(None)
        meta, *others = keys_of("s")
        assert await engine.admin.exists(*others) == 0
        assert set(await engine.admin.hkeys(meta)) == {b"reason", b"token", b"epoch", b"revision"}
        assert 3_500_000 < await engine.admin.pttl(meta) <= 3_600_000
        again = await created(store)
        assert again.epoch != first.epoch and again.revision == 1
        stored = await store.read("s")
        assert isinstance(stored, Stored) and stored.records == {} and stored.parts == {}


async def test_a_session_expires_ttl_after_its_last_revision(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store) as heard:
        await store.watch("s")
        first = await created(store, **records(2), ttl_ms=30)
        while await store.check("s") == first:  # reading prolongs nothing
            pass
        assert await store.check("s") == Gone("expired")
        assert await heard.wait_for(Ended) == Ended("expired")
        assert await store.commit("s", commit(first, b"d2")) == Moved(None)
        assert await engine.admin.exists(*keys_of("s")[1:]) == 0
        assert (await created(store)).epoch != first.epoch


async def test_a_revision_prolongs_and_keeps_the_ttl(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine, session_ttl_ms=5_000) as store:
        first = await created(store)
        meta = keys_of("s")[0]

        async def left() -> int:
            seconds, micros = await engine.admin.time()
            return int(await engine.admin.hget(meta, "expires") or 0) - seconds * 1000 - micros // 1000

        assert 0 < await left() <= 5_000
        await store.commit("s", commit(first, b"d2", ttl_ms=100_000, **records(1)))
        assert 90_000 < await left() <= 100_000
        await store.commit("s", commit(Position(first.epoch, 2), b"d3"))
        assert 90_000 < await left() <= 100_000
        await store.check("s", 50_000)
        assert 40_000 < await left() <= 50_000
        await store.check("s", 100_000)
        assert 90_000 < await left() <= 100_000
        for key in keys_of("s"):
            assert 3_690_000 < await engine.admin.pttl(key) <= 3_700_000


async def test_scripts_the_store_forgot_are_sent_again(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        await engine.admin.script_flush()
        first = await created(store)
        await engine.admin.script_flush()
        assert await store.check("s") == first
        assert (await store.sessions("", None, 10)).sessions == [("s", first, (await _as_of(store)), None)]


async def _as_of(store: ScriptedStore) -> int:
    stored = await store.read("s")
    assert isinstance(stored, Stored)
    return stored.as_of
