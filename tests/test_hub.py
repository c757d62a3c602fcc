"""The hub: hand-over, buffer, healing, faults of the store; two nodes over one real store."""

from collections import defaultdict
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest

from gateway.hub import LINGER_S
from tests.engines import FLAVOURS, Flavour, redis_server
from tests.oracle.replica import without_publisher
from tests.service import Follower, Node, RecordingPeer, board, running_node, status

SUBSCRIBES = 1_000
AT_ONCE = 5
SESSIONS = ("s0", "s1", "s2")


@pytest.fixture(params=FLAVOURS)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    value: Flavour = request.param
    return value


def _reached(follower: Follower, revision: int) -> bool:
    return bool(follower.follow()["revision"] == revision)


async def publish_for_ever(node: Node) -> None:
    for n in range(10**9):
        await node.call("patch", session=SESSIONS[n % 3], change=status(f"F-{n % 5}", f"{n}"), base="any")


async def test_a_thousand_subscribes_while_another_node_publishes_as_fast_as_it_may(
    tmp_path: Path, flavour: Flavour
) -> None:
    random = Random(1)
    peers = [RecordingPeer(f"p{n}") for n in range(6)]
    views: dict[RecordingPeer, dict[str, str]] = defaultdict(dict)  # view → session
    async with (
        redis_server(tmp_path, flavour) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        for session in SESSIONS:
            await theirs.call("publish", session=session, snapshot=board(8), base=None)

        async def subscribe(peer: RecordingPeer) -> None:
            session, window = random.choice(SESSIONS), random.choice([{}, {"limit": 2}, {"limit": 5, "offset": 2}])
            told = await ours.call("subscribe", peer, session=session, **window)
            views[peer][told["view"]] = session

        async with anyio.create_task_group() as publishing:
            publishing.start_soon(publish_for_ever, theirs)
            for n in range(SUBSCRIBES // AT_ONCE):
                async with anyio.create_task_group() as tasks:
                    for peer in random.sample(peers, AT_ONCE):
                        tasks.start_soon(subscribe, peer)
                await peer.until(len(peer.frames) + 3)
                if n % 4 == 0:
                    peer = random.choice(peers)
                    for view in list(peer.views)[:2]:
                        await ours.call("unsubscribe", peer, view=view)
                if n % 20 == 0:  # the next one finds a session that is not hot
                    for peer in peers:
                        ours.sessions.leave(peer)
                    ours.hub.sweep(ours.hub.now() + 2 * LINGER_S)
                    assert not ours.hub.every()
            publishing.cancel_scope.cancel()

        frames = 0
        for peer in peers:
            for view in peer.views:
                follower = Follower(peer, view)
                session = peer.views[view]
                target = await theirs.call("describe", session=session)
                await peer.until_that(partial(_reached, follower, target["revision"]))
                assert follower.live and not follower.reasons
                window = follower.describe["context"]["recordWindow"]
                asked = {} if window["limit"] == 8 else {"limit": window["limit"], "offset": window["offset"]}
                if window["offset"] == 0:
                    asked.pop("offset", None)
                fresh = await theirs.call("describe", session=session, **asked)
                assert without_publisher(follower.describe) == without_publisher(fresh)
            for view in views[peer]:  # those given up too: never a gap, a repeat or a step back
                Follower(peer, view).follow()
            frames += len(peer.frames)
        assert frames > SUBSCRIBES
        assert sum(len([1 for kind, _ in peer.log if kind == "reply subscribe"]) for peer in peers) == SUBSCRIBES
