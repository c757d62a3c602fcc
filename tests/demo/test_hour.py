"""An hour of the board against a real gateway on a real Redis: what a watcher keeps is what is there."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio

from gateway.client import connect, watch
from gateway.demo.board import SESSION, local_time
from gateway.demo.replay import replay
from gateway.running import running_gateway
from gateway.settings import load_settings
from tests.demo.test_day import PUBLISHED
from tests.engines import redis_server
from tests.oracle.replica import apply_after, canonical, without_publisher

FROM, TO = 779, 841  # from 12:59: the round that meets the handover, so that every kind of event comes
DEADLINE_S = 25.0


class Watcher:
    """A view of the board kept by `after`s, and what came."""

    def __init__(self) -> None:
        self.replica: dict[str, Any] = {}
        self.kinds: set[str] = set()
        self.afters = 0
        self._news = anyio.Event()

    def take(self, method: str, params: dict[str, Any]) -> None:
        if method == "described":
            self.replica = params
        elif method == "invalidated":
            self.kinds |= {reason["kind"] for reason in params["reasons"]}
        else:
            assert method == "after"
            self.replica = apply_after(self.replica, params)
            self.afters += 1
        self._news.set()

    def is_at(self, minute: int) -> bool:
        return bool(self.replica) and self.replica["context"]["state"]["clock"] == local_time(minute)

    async def until(self, minute: int) -> None:
        while not self.is_at(minute):
            self._news = anyio.Event()
            await self._news.wait()


async def test_a_watchers_replica_is_the_board_after_an_hour(tmp_path: Path) -> None:
    """The publisher waits for the watcher after each minute, so that no two changes are merged."""
    watcher, published = Watcher(), anyio.Event()
    minute = FROM

    def told(accepted: int) -> None:
        nonlocal minute
        minute = accepted
        published.set()

    async def sleep(seconds: float) -> None:
        await watcher.until(minute)
        if minute == TO:
            await anyio.sleep_forever()

    async def publish(url: str) -> None:
        async with connect(url) as client:
            await replay(client, sleep=sleep, start_minute=FROM, told=told)

    async with redis_server(tmp_path) as engine:
        settings = load_settings({"db": engine.url, "port": 0}, environ={"HOME": str(tmp_path)})
        with anyio.fail_after(DEADLINE_S):
            async with running_gateway(settings) as url, anyio.create_task_group() as tasks:
                tasks.start_soon(publish, url)
                await published.wait()
                async with aclosing(watch(url, SESSION)) as notes:
                    async for note in notes:
                        watcher.take(note.method, note.params)
                        if watcher.is_at(TO):
                            break
                async with connect(url) as client:
                    fresh = await client.request("describe", {"session": SESSION})
                tasks.cancel_scope.cancel()
    assert canonical(without_publisher(watcher.replica)) == canonical(without_publisher(fresh))
    assert watcher.kinds == PUBLISHED
    assert watcher.afters == TO - FROM - 9  # two of them the handover
