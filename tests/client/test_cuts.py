"""The client over a real gateway whose links are cut at random bytes, and which is restarted (issue 3, must show)."""

from pathlib import Path
from random import Random

import anyio
from anyio.abc import TaskGroup, TaskStatus

from gateway.client import Client, Publisher, connect
from gateway.core.limits import Limits
from gateway.demo.board import SESSION, Moment, changes, first_minute, last_minute, snapshot
from gateway.demo.flights import load_flights
from gateway.demo.script import Desk
from gateway.running import running_gateway
from gateway.settings import Settings
from tests.client.following import Follower
from tests.engines import redis_server
from tests.oracle.replica import canonical, without_publisher
from tests.tcp_relay import tcp_relay

CUTS = 200


async def at_once(seconds: float) -> None:
    """Takes the place of waiting for the back-off."""
    await anyio.lowlevel.checkpoint()


async def same_as_a_fresh_describe(
    follower: Follower, client: Client, offset: int = 0, limit: int | None = None
) -> None:
    fresh = await client.describe(SESSION, offset=offset or None, limit=limit)
    assert follower.view.now is not None
    assert canonical(without_publisher(follower.view.now.raw)) == canonical(without_publisher(fresh.raw))


async def test_a_day_of_the_board_with_the_links_cut_at_random_bytes(tmp_path: Path) -> None:
    """Two watchers and the publisher, each behind a relay: links break anywhere, in the handshake and in frames too."""
    rng = Random(200)
    flights = load_flights()
    minutes = range(first_minute(flights), last_minute(flights) + 1)
    desk = Desk(flights)
    at = Moment(minutes[0], desk.controls_at(minutes[0]))
    whole = len(canonical(snapshot(flights, at)))
    async with (
        redis_server(tmp_path) as engine,
        running_gateway(Settings(port=0, db=engine.url)) as url,
        tcp_relay(url) as watched,
        tcp_relay(url) as published,
        connect(url) as direct,
        connect(watched.url, sleep=at_once, chance=rng.random) as one,
        connect(watched.url, sleep=at_once, chance=rng.random) as two,
        connect(published.url, sleep=at_once, chance=rng.random) as owner,
        anyio.create_task_group() as tasks,
    ):
        # From the second connection on: who cannot connect at all is told so at once.
        watched.allowance = lambda: rng.randrange(1, rng.choice([3_000, 3_000, 3_000, 4_000, 30_000]))
        published.allowance = lambda: rng.randrange(1, 3 * whole)
        watched.cut()
        published.cut()
        board = Publisher(owner, SESSION)
        followers = [Follower(one.subscribe(SESSION)), Follower(two.subscribe(SESSION, offset=20, limit=100))]
        told = await board.update(snapshot(flights, at))
        for follower in followers:
            tasks.start_soon(follower.run)
        days = 0
        while watched.cuts < CUTS:
            for minute in minutes:
                before, at = at, Moment(minute, desk.controls_at(minute))
                if changed := changes(flights, before, at):
                    told = await board.update(snapshot(flights, at), cause={"kind": changed[1]})
                if minute % 10 == 0:
                    for follower in followers:
                        await follower.until_at(told.position)
            days += 1
            desk.begin_day()
        for follower in followers:
            await follower.until_at(told.position)
        await same_as_a_fresh_describe(followers[0], direct)
        await same_as_a_fresh_describe(followers[1], direct, offset=20, limit=100)
        tasks.cancel_scope.cancel()
    assert watched.cuts >= CUTS
    assert all(follower.count["after"] > follower.count["described"] for follower in followers), (
        "most changes are afters"
    )
    assert all(not {"gap", "behind"} & set(follower.reasons) for follower in followers), "cuts are resumed"
    assert all("navigation" in follower.reasons for follower in followers)


class Gateway:
    """A gateway that can be stopped and started again at one address."""

    def __init__(self, settings: Settings, tasks: TaskGroup) -> None:
        self.settings, self.tasks = settings, tasks
        self.url = ""
        self._leave = self._gone = anyio.Event()
        self.up = anyio.Event()

    async def back(self, seconds: float) -> None:
        """Takes the place of waiting for the back-off: a `goodbye` asked to stay away until it is there again."""
        await self.up.wait()

    async def start(self) -> None:
        self._leave, self._gone = anyio.Event(), anyio.Event()
        self.url = await self.tasks.start(self._serve)
        self.up.set()

    async def stop(self) -> None:
        self.up = anyio.Event()
        self._leave.set()
        await self._gone.wait()

    async def _serve(self, *, task_status: TaskStatus[str]) -> None:
        async with running_gateway(self.settings) as url:
            task_status.started(url)
            await self._leave.wait()
        self._gone.set()


async def test_restarts_of_the_gateway_are_resumed(tmp_path: Path, unused_tcp_port: int) -> None:
    """Over a store of its own nothing is lost: no describe but the first, and no reason that would ask for one."""
    restarts = 5
    flights = load_flights()
    minute = first_minute(flights)
    controls = Desk(flights).controls_at(minute)
    async with redis_server(tmp_path) as engine, anyio.create_task_group() as tasks:
        gateway = Gateway(Settings(port=unused_tcp_port, db=engine.url, limits=Limits(drain_ms=200)), tasks)
        await gateway.start()
        async with (
            connect(gateway.url, sleep=gateway.back) as client,
            connect(gateway.url, sleep=gateway.back) as owner,
            anyio.create_task_group() as watching,
        ):
            board = Publisher(owner, SESSION)
            told = await board.update(snapshot(flights, Moment(minute, controls)))
            follower = Follower(client.subscribe(SESSION, limit=50))
            watching.start_soon(follower.run)
            await follower.until_at(told.position)
            for _ in range(restarts):
                await gateway.stop()
                await gateway.start()
                for _ in range(10):
                    minute += 1
                    told = await board.update(snapshot(flights, Moment(minute, controls)))
                await follower.until_at(told.position)
            await same_as_a_fresh_describe(follower, client, limit=50)
            watching.cancel_scope.cancel()
        await gateway.stop()
    assert follower.count["described"] == 1
    assert follower.count["goodbye"] == restarts
    assert follower.reasons == []
    assert told.position.revision == 1 + restarts * 10
