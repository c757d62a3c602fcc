"""What the seam promises, over a real Redis and a real Valkey."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.core.limits import Limits
from gateway.core.position import Position
from gateway.store import Changed, Commit, Committed, Ended, Event, Gone, Moved, Renewed, Stored
from gateway.store.keys import keys_of
from gateway.store.opening import open_store
from gateway.store.scripted import ScriptedStore
from tests.engines import FLAVOURS, Flavour, RunningEngine, redis_server

WAIT_S = 20.0  # an event that must come has come by then


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value


def commit(base: Position | None = None, digest: bytes = b"d1", **members: Any) -> Commit:
    given: dict[str, Any] = {
        "secret": b"s" * 32,
        "parts": {},
        "put": {},
        "drop": [],
        "scores": {},
        "cause": "data",
        "redo": b"redo",
        "undo": b"undo",
        "ttl_ms": None,
    }
    return Commit(base=base, digest=digest, **(given | members))


def records(count: int, first: int = 0) -> dict[str, Any]:
    ids = [f"r{number}" for number in range(first, first + count)]
    return {"put": dict.fromkeys(ids, b"{}"), "scores": {i: n << 20 for n, i in enumerate(ids, first)}}


class Heard:
    """The events and doubts of one node."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []
        self.doubts = 0
        self._news = anyio.Event()

    def listener(self, session: str, event: Event) -> None:
        self.events.append((session, event))
        self._news.set()

    def doubt(self) -> None:
        self.doubts += 1
        self._news.set()

    async def wait_for(self, kind: type[Event]) -> Any:
        with anyio.fail_after(WAIT_S):
            while True:
                news = self._news = anyio.Event()
                found = [event for _, event in self.events if isinstance(event, kind)]
                if found:
                    return found[0]
                await news.wait()

    async def wait_for_doubt(self, more_than: int) -> None:
        with anyio.fail_after(WAIT_S):
            while self.doubts <= more_than:
                news = self._news = anyio.Event()
                await news.wait()


@asynccontextmanager
async def opened(engine: RunningEngine, **limits: int) -> AsyncIterator[ScriptedStore]:
    store = open_store(engine.url, Limits(**limits))
    assert isinstance(store, ScriptedStore)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def running(store: ScriptedStore) -> AsyncIterator[Heard]:
    heard = Heard()
    async with anyio.create_task_group() as tasks:

        async def run(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            await store.run(heard.listener, heard.doubt, started=task_status.started)

        await tasks.start(run)
        yield heard
        tasks.cancel_scope.cancel()


async def created(store: ScriptedStore, session: str = "s", **members: Any) -> Position:
    answer = await store.commit(session, commit(**members))
    assert isinstance(answer, Committed) and not answer.repeated
    return answer.position


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
        assert await store.commit("s", commit(first, b"d3")) == Moved(renewed)
        answer = await store.commit("s", commit(renewed, b"d3"))
        assert isinstance(answer, Committed) and answer.position == Position(renewed.epoch, 2)
