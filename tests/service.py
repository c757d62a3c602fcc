"""A running hub and its sessions over a real store, without sockets: peers that record what they are told."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import msgspec

from gateway.core.limits import Limits
from gateway.core.params import METHODS
from gateway.core.view import Target
from gateway.frames import Frame
from gateway.hub import Hub
from gateway.metrics import Metrics
from gateway.sessions import Sessions
from gateway.store import Store
from gateway.store.opening import open_store

TARGET = Target("argv", "redis://localhost:6379/0")
DEADLINE_S = 10.0


class RecordingPeer:
    """A connection that keeps every frame; `room` False: its outbox is full."""

    def __init__(self, name: str = "peer") -> None:
        self.name = name
        self.views: dict[str, str] = {}
        self.room = True
        self.frames: list[dict[str, Any]] = []
        self._told = anyio.Event()

    def deliver(self, frame: Frame) -> bool:
        if not self.room:
            return False
        self.frames.append(json.loads(frame.text))
        self._told.set()
        return True

    async def until(self, count: int) -> list[dict[str, Any]]:
        """All frames, once there are at least `count`."""
        with anyio.fail_after(DEADLINE_S):
            while len(self.frames) < count:
                self._told = anyio.Event()
                await self._told.wait()
        return self.frames


class Node:
    """One gateway node without its ring."""

    def __init__(self, store: Store, hub: Hub, sessions: Sessions) -> None:
        self.store, self.hub, self.sessions = store, hub, sessions
        self.peer = RecordingPeer("own")

    async def call(self, method: str, peer: RecordingPeer | None = None, **params: Any) -> dict[str, Any]:
        """The result of a request, `params` under their wire names."""
        typed = msgspec.convert(params, METHODS[method])
        result: dict[str, Any] = json.loads(await self.sessions.call(peer or self.peer, method, typed))
        return result


@asynccontextmanager
async def running_node(url: str, limits: Limits | None = None) -> AsyncIterator[Node]:
    """A node on the store at `url` for as long as the block lasts."""
    limits = limits or Limits()
    metrics = Metrics()
    store = open_store(url, limits)
    hub = Hub(store, limits, TARGET, metrics, Random(0))
    ready = anyio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: hub.run(ready.set))
            await ready.wait()
            yield Node(store, hub, Sessions(store, hub, limits, TARGET, metrics))
            tasks.cancel_scope.cancel()
    finally:
        await store.close()


REGION = {"id": "board", "title": "Board", "fields": ["dest", "status"]}


def board(count: int = 3) -> dict[str, Any]:
    """A snapshot of `count` flights."""
    return {
        "page": {"title": "Departures", "route": "/departures"},
        "regions": [REGION],
        "records": [
            {"id": f"F-{n}", "region": "board", "fields": {"dest": "IAH", "status": "On time"}} for n in range(count)
        ],
    }


def status(id: str, value: str) -> dict[str, Any]:
    """The change of one field."""
    return {"records": {"upsert": [{"id": id, "fields": {"status": value}}]}}
