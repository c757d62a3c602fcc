"""A running hub and its sessions over a real store, without sockets: peers that record what they are told."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import msgspec

from gateway.core.errors import GatewayError
from gateway.core.limits import Limits
from gateway.core.params import METHODS
from gateway.core.position import Position
from gateway.core.view import Target
from gateway.frames import Frame
from gateway.hub import CHECK_S, Hub
from gateway.metrics import Metrics
from gateway.sessions import Sessions
from gateway.store import Commit, Committed, Doubt, Event, Gone, Listener, Listing, Log, Moved, Store, Stored
from gateway.store.opening import open_store
from tests.oracle.replica import apply_after, without_publisher

TARGET = Target("argv", "redis://localhost:6379/0")
DEADLINE_S = 10.0  # an event that must come has come by then

Told = dict[str, Any]


class RecordingPeer:
    """A connection that keeps every frame; `room` False: its outbox is full.

    `frames`: the notifications. `log`: these and the results of its requests, in the order they leave.
    """

    def __init__(self, name: str = "peer") -> None:
        self.name = name
        self.views: dict[str, str] = {}
        self.room = True
        self.frames: list[Told] = []
        self.log: list[tuple[str, Told]] = []
        self._news = anyio.Event()

    def deliver(self, frame: Frame) -> bool:
        if not self.room:
            return False
        message = json.loads(frame.text)
        self.frames.append(message)
        self.log.append((message["method"], message["params"]))
        self._news.set()
        return True

    def replied(self, method: str, result: Told) -> None:
        self.log.append((f"reply {method}", result))

    def told(self, method: str | None = None) -> list[Told]:
        """The params of all notifications so far, or of those of one method."""
        return [frame["params"] for frame in self.frames if method in (None, frame["method"])]

    def methods(self) -> list[str]:
        return [frame["method"] for frame in self.frames]

    async def until(self, count: int) -> list[Told]:
        """All frames, once there are at least `count`."""
        await self.until_that(lambda: len(self.frames) >= count)
        return self.frames

    async def until_that(self, holds: Callable[[], bool]) -> None:
        """Return once it holds; looked at with every frame."""
        with anyio.fail_after(DEADLINE_S):
            while not holds():
                self._news = anyio.Event()
                await self._news.wait()


class Follower:
    """What a client knows of one view from its connection's log; raises where the law of §9 does not hold."""

    def __init__(self, peer: RecordingPeer, view: str) -> None:
        self.peer, self.view = peer, view
        self.describe: Told = {}
        self.live = False
        self.reasons: list[str] = []
        self.revisions: list[int] = []
        self._read = 0

    def follow(self) -> Told:
        """Take what came since; the describe response as it is now."""
        for kind, message in self.peer.log[self._read :]:
            if message.get("view") == self.view:
                self._take(kind, message)
        self._read = len(self.peer.log)
        return self.describe

    def _take(self, kind: str, message: Told) -> None:
        if kind.startswith("reply") and kind != "reply subscribe":
            return
        same_epoch = message.get("epoch") == self.describe.get("epoch")
        if same_epoch and kind in ("after", "invalidated"):
            assert message["revision"] >= self.describe["revision"], "a step back"
        if kind == "reply subscribe" and "describe" in message:
            assert not same_epoch or message["revision"] >= self.describe["revision"], "a step back"
            self.describe, self.live = message["describe"], True
            assert message["revision"] == self.describe["revision"]
        elif kind == "reply subscribe" and "after" in message:
            self._after(message["after"])
        elif kind == "after":
            assert self.live, "an after of a view that is not live"
            self._after(message)
        elif kind == "described":
            self.describe, self.live = message, True
        elif kind == "invalidated":
            self.reasons += [reason["kind"] for reason in message["reasons"]]
            self.live = self.live and not any(reason["required"] for reason in message["reasons"])
        self.revisions.append(message["revision"])

    def _after(self, after: Told) -> None:
        self.describe = apply_after(self.describe, after)
        self.live = True


Hook = Callable[[], Awaitable[None]]


class FaultyStore:
    """A store that delegates to a real one and lets a test step in.

    `before`, `behind`: by the name of an operation, what is awaited before it is asked and behind its answer (what that
    raises takes the answer's place). `hears`: False loses the event. `away`: the store is out of reach. `silence_ms`:
    what `reached_ms_ago` says instead.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.before: dict[str, Hook] = {}
        self.behind: dict[str, Hook] = {}
        self.hears: Callable[[str, Event], bool] = lambda session, event: True
        self.away = False
        self.silence_ms: int | None = None
        self.calls: list[str] = []
        self.doubt: Doubt = lambda: None
        self._doubts = 0
        self._doubted = anyio.Event()

    async def _asked(self, name: str) -> None:
        self.calls.append(name)
        if hook := self.before.get(name):
            await hook()
        if self.away:
            raise out_of_reach()

    async def _answered(self, name: str) -> None:
        if hook := self.behind.get(name):
            await hook()

    async def commit(self, session: str, commit: Commit) -> Committed | Moved:
        await self._asked("commit")
        answer = await self.inner.commit(session, commit)
        await self._answered("commit")
        return answer

    async def end(self, session: str, base: Position | None) -> Position | Moved:
        await self._asked("end")
        return await self.inner.end(session, base)

    async def read(self, session: str) -> Stored | Gone:
        await self._asked("read")
        answer = await self.inner.read(session)
        await self._answered("read")
        return answer

    async def log(self, session: str, since: Position) -> Log | Gone:
        await self._asked("log")
        answer = await self.inner.log(session, since)
        await self._answered("log")
        return answer

    async def check(self, session: str, ttl_ms: int | None = None) -> Position | Gone:
        await self._asked("check")
        answer = await self.inner.check(session, ttl_ms)
        await self._answered("check")
        return answer

    async def sessions(self, prefix: str, after: str | None, limit: int) -> Listing:
        await self._asked("sessions")
        return await self.inner.sessions(prefix, after, limit)

    async def watch(self, session: str) -> None:
        await self._asked("watch")
        await self.inner.watch(session)
        await self._answered("watch")

    async def unwatch(self, session: str) -> None:
        self.calls.append("unwatch")
        await self.inner.unwatch(session)

    def reached_ms_ago(self) -> int:
        return self.inner.reached_ms_ago() if self.silence_ms is None else self.silence_ms

    def links_replaced(self) -> int:
        return self.inner.links_replaced()

    def ready(self) -> bool:
        return self.inner.ready()

    async def run(self, listener: Listener, doubt: Doubt, *, started: Callable[[], Awaitable[None] | None]) -> None:
        def hear(session: str, event: Event) -> None:
            if self.hears(session, event):
                listener(session, event)

        def doubted() -> None:
            self._doubts += 1
            self._doubted.set()
            doubt()

        self.doubt = doubt
        await self.inner.run(hear, doubted, started=started)

    async def until_doubted(self, times: int) -> None:
        """Return once the event link was replaced so often."""
        with anyio.fail_after(DEADLINE_S):
            while self._doubts < times:
                self._doubted = anyio.Event()
                await self._doubted.wait()

    async def close(self) -> None:
        await self.inner.close()


def out_of_reach() -> GatewayError:
    return GatewayError("store_unavailable", "The store is out of reach.", retryAfterMs=1_000)


class Node:
    """One gateway node without its ring. `faults`: its store."""

    def __init__(self, faults: FaultyStore, hub: Hub, sessions: Sessions) -> None:
        self.faults, self.hub, self.sessions = faults, hub, sessions
        self.peer = RecordingPeer("own")

    async def call(self, method: str, peer: RecordingPeer | None = None, **params: Any) -> Told:
        """The result of a request, `params` under their wire names."""
        peer = peer or self.peer
        typed = msgspec.convert(params, METHODS[method])
        result: Told = json.loads(await self.sessions.call(peer, method, typed))
        peer.replied(method, result)
        return result

    async def refused(self, method: str, peer: RecordingPeer | None = None, **params: Any) -> GatewayError:
        """The error of a request that must be refused."""
        try:
            result = await self.call(method, peer, **params)
        except GatewayError as error:
            return error
        raise AssertionError(f"{method} was answered: {result}")

    def check(self) -> None:
        """The periodic check of every session, now."""
        for held in self.hub.every():
            held.checked -= CHECK_S
        self.hub.sweep(self.hub.now())

    async def idle(self) -> None:
        """Return once no task opens, heals or checks a session."""
        with anyio.fail_after(DEADLINE_S):
            while busy := [held for held in self.hub.every() if held.working]:
                await busy[0].attempt.wait()


@asynccontextmanager
async def running_node(url: str, limits: Limits | None = None) -> AsyncIterator[Node]:
    """A node on the store at `url` for as long as the block lasts."""
    limits = limits or Limits()
    metrics = Metrics()
    store = FaultyStore(open_store(url, limits))
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


def board(count: int = 3, **members: Any) -> dict[str, Any]:
    """A snapshot of `count` flights."""
    snapshot = {
        "page": {"title": "Departures", "route": "/departures"},
        "regions": [REGION],
        "records": [flight(n) for n in range(count)],
    }
    return snapshot | members


def flight(n: int) -> dict[str, Any]:
    return {"id": f"F-{n}", "region": "board", "fields": {"dest": "IAH", "status": "On time"}}


def status(id: str, value: str) -> dict[str, Any]:
    """The change of one field."""
    return {"records": {"upsert": [{"id": id, "fields": {"status": value}}]}}


def position(told: Told) -> dict[str, Any]:
    """The position a result tells, as `base` names it."""
    return {"epoch": told["epoch"], "revision": told["revision"]}


def since(told: Told) -> Told:
    """Where a client stands that was told this describe response."""
    return position(told) | {"view": told["view"]}


async def caught_up(follower: Follower, revision: int) -> None:
    """Return once the view is at the revision or behind it."""
    await follower.peer.until_that(lambda: follower.follow()["revision"] >= revision)


async def same_as_fresh(follower: Follower, node: Node, **view: Any) -> None:
    """The law of §9: what a client made of all it was told is what it is told when it asks."""
    fresh = await node.call("describe", session=follower.describe["session"], **view)
    assert without_publisher(follower.follow()) == without_publisher(fresh)
