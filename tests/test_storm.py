"""The service under everything that can go wrong at once: every view converges or was told why it cannot."""

from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from gateway.core.errors import GatewayError
from gateway.hub import LINGER_S
from tests.engines import redis_server
from tests.oracle.replica import apply_after, without_publisher
from tests.service import (
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

SESSIONS = ("s0", "s1", "s2")


class Storm:
    """Random requests, lost events, slow peers and cut links on three nodes; what every view was told has to hold."""

    def __init__(self, nodes: list[Node], random: Random) -> None:
        self.nodes, self.random = nodes, random
        self.peers = [(node, RecordingPeer(f"{n}")) for node in nodes for n in range(3)]
        self.asked: dict[tuple[RecordingPeer, str], dict[str, Any]] = {}
        self.count = 0

    async def step(self) -> None:
        node, peer = self.random.choice(self.peers)
        session = self.random.choice(SESSIONS)
        self.count += 1
        what = self.random.choices(
            ["patch", "publish", "subscribe", "resume", "unsubscribe", "end", "deaf", "room", "check", "describe"],
            [30, 8, 20, 8, 6, 2, 4, 6, 4, 6],
        )[0]
        with suppress(GatewayError):
            await getattr(self, what)(node, peer, session)

    async def patch(self, node: Node, peer: RecordingPeer, session: str) -> None:
        n = self.count
        change: dict[str, Any] = self.random.choice(
            [
                status(f"F-{n % 5}", f"{n}"),
                {"records": {"upsert": [flight(100 + n) | {"before": f"F-{n % 4}"}]}},
                {"state": {"set": {"n": n}}},
                {"regions": {"upsert": [{"id": "ask", "title": "?", "modal": True, "active": n % 2 == 0}]}},
            ]
        )
        kind: dict[str, Any] = {"cause": {"kind": self.random.choice(["filter", "data"])}} if n % 5 == 0 else {}
        await node.call("patch", peer, session=session, change=change, base="any", **kind)

    async def publish(self, node: Node, peer: RecordingPeer, session: str) -> None:
        await node.call("publish", peer, session=session, snapshot=board(5 + self.count % 7), base="any")

    async def subscribe(self, node: Node, peer: RecordingPeer, session: str, **more: Any) -> None:
        asked: dict[str, Any] = {"session": session} | self.random.choice(
            [{}, {"limit": 2}, {"limit": 5, "offset": 2}, {"record": "F-3"}]
        )
        how: dict[str, Any] = self.random.choice(
            [{}, {"paceMs": 50}, {"deliver": "push"}, {"deliver": "push", "paceMs": 100}]
        )
        told = await node.call("subscribe", peer, **asked, **how, **more)
        self.asked[peer, told["view"]] = asked

    async def resume(self, node: Node, peer: RecordingPeer, session: str) -> None:
        """What another connection knows, on whatever node this one is."""
        known: Told = {}
        if self.asked:
            key = self.random.choice(list(self.asked))
            known = Follower(*key).follow()
        if known:
            view = since(known)
            told = await node.call("changes", peer, **self.asked[key], since=view)
            if told["kind"] == "after":
                fresh = apply_after(known, told["after"])
                assert fresh["revision"] == told["after"]["revision"]

    async def unsubscribe(self, node: Node, peer: RecordingPeer, session: str) -> None:
        if peer.views:
            await node.call("unsubscribe", peer, view=self.random.choice(list(peer.views)))

    async def end(self, node: Node, peer: RecordingPeer, session: str) -> None:
        await node.call("end", peer, session=session)

    async def deaf(self, node: Node, peer: RecordingPeer, session: str) -> None:
        share = self.random.choice([0.0, 0.3, 1.0])
        node.faults.hears = lambda session, event: self.random.random() >= share

    async def room(self, node: Node, peer: RecordingPeer, session: str) -> None:
        peer.room = not peer.room
        if peer.room:
            node.sessions.drained(peer)

    async def check(self, node: Node, peer: RecordingPeer, session: str) -> None:
        node.check()

    async def describe(self, node: Node, peer: RecordingPeer, session: str) -> None:
        await node.call("describe", peer, session=session)

    async def calm(self) -> None:
        """Nothing goes wrong any more; the next check finds what did."""
        for node in self.nodes:
            node.faults.hears = lambda session, event: True
        for node, peer in self.peers:
            peer.room = True
            node.sessions.drained(peer)
        for node in self.nodes:
            await node.idle()
            node.check()
            await node.idle()

    async def judge(self, witness: Node) -> int:
        """How many views are live and equal what a node reads that had no part in it."""
        live = 0
        witness.hub.sweep(witness.hub.now() + 2 * LINGER_S)  # what it answers is read from the store
        for node, peer in self.peers:
            for view in list(peer.views):
                follower, asked = Follower(peer, view), self.asked[peer, view]
                fresh = await witness.call("describe", **asked)
                held = node.hub.held(asked["session"])
                assert held is not None
                watcher = held.replica.views[view].watchers[peer]
                await peer.until_that(partial(settled, follower, fresh, watcher.push))
                assert follower.live or follower.reasons
                live += follower.live
                if follower.live:
                    assert without_publisher(follower.describe) == without_publisher(fresh)
        return live


def settled(follower: Follower, fresh: Told, push: bool) -> bool:
    """Whether the view has what is there, or is stale and stays so until it is asked for."""
    there = position(follower.follow()) == position(fresh)
    return there if follower.live else not push


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_goes_wrong_every_view_converges_or_was_told(tmp_path: Path, seed: int) -> None:
    async with (
        redis_server(tmp_path) as engine,
        running_node(engine.url) as one,
        running_node(engine.url) as two,
        running_node(engine.url) as three,
        running_node(engine.url) as witness,
    ):
        storm = Storm([one, two, three], Random(seed))
        for session in SESSIONS:
            await one.call("publish", session=session, snapshot=board(8), base=None)
        for n in range(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(storm.step)
            if n % 20 == 19:
                await engine.kill_pubsub()
        await storm.calm()
        await storm.judge(witness)
        for node, peer in storm.peers[::2]:
            for session in SESSIONS:
                await one.call("publish", session=session, snapshot=board(9), base="any")
                await storm.subscribe(node, peer, session)
                await one.call("patch", session=session, change={"state": {"set": {"last": seed}}}, base="any")
        assert await storm.judge(witness) >= 5
