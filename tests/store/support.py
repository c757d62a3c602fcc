"""What the tests of the store share: a commit with defaults, an opened store, what a node hears."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc

from gateway.core.limits import Limits
from gateway.core.position import Position
from gateway.store import Commit, Committed, Event
from gateway.store.opening import open_store
from gateway.store.scripted import ScriptedStore
from tests.engines import RunningEngine

WAIT_S = 20.0  # an event that must come has come by then


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
async def opened(engine: RunningEngine, *, url: str = "", **limits: int) -> AsyncIterator[ScriptedStore]:
    store = open_store(url or engine.url, Limits(**limits))
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
