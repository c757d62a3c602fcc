"""The publisher's helper: what it sends, scripted; and what the gateway then holds, for real."""

from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from gateway.client import Client, ConnectionLost, GatewayError, Position, Publisher, connect
from gateway.client.publisher import CONFLICTS_MAX, stronger
from gateway.core.limits import Limits
from gateway.running import running_gateway
from gateway.settings import Settings
from tests.client.following import Follower
from tests.engines import redis_server
from tests.oracle import session
from tests.oracle.alter import OPERATIONS, change
from tests.oracle.invent import snapshot as invented
from tests.oracle.plain import canonical
from tests.scripted import Peer, scripted

LONG = {"text": "a state that is longer than any patch of it" * 3}


async def at_once(seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


def state(n: int) -> dict[str, Any]:
    return {"state": LONG | {"n": n}}


def set_to(n: int) -> dict[str, Any]:
    return {"state": {"set": {"n": n}}}


def at(revision: int, epoch: str = "e") -> dict[str, Any]:
    return {"epoch": epoch, "revision": revision}


async def accept(peer: Peer, method: str, revision: int, epoch: str = "e") -> dict[str, Any]:
    params = await peer.expect(method)
    await peer.reply(at(revision, epoch))
    return params


async def conflict(peer: Peer, method: str, **told: Any) -> dict[str, Any]:
    params = await peer.expect(method)
    await peer.refuse("conflict", "transient", **told)
    return params


async def test_first_whole_then_patches_on_the_last_position_then_nothing() -> None:
    async def script(peer: Peer) -> None:
        first = {"session": "s", "snapshot": state(1), "base": None, "ttlMs": 5}
        assert await accept(peer, "publish", 1) == first
        patch = {"session": "s", "change": set_to(2), "base": at(1), "cause": {"kind": "data"}}
        assert await accept(peer, "patch", 2) == patch
        assert (await accept(peer, "patch", 3))["change"] == {}, "a required cause is told all the same"

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s", ttl_ms=5)
        assert await publisher.flush() is None
        live = state(1)
        assert (await publisher.update(live)).position == Position("e", 1)
        live["state"]["n"] = 2  # in place: the former text was taken
        assert (await publisher.update(live, cause={"kind": "data"})).position == Position("e", 2)
        assert (await publisher.update(live, cause={"kind": "data"})).position == Position("e", 2)
        assert (await publisher.update(live, cause={"kind": "modal"})).position == Position("e", 3)


async def test_a_patch_that_is_no_shorter_goes_whole() -> None:
    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 1)
        assert (await accept(peer, "publish", 2))["base"] == at(1)
        assert (await accept(peer, "publish", 3))["snapshot"] == {
            "regions": [{"id": "g", "title": "", "fields": ["b"]}]
        }

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        await publisher.update({"state": {"a": 1}})
        await publisher.update({"regions": [{"id": "g", "title": "", "fields": ["a"]}]})
        await publisher.update({"regions": [{"id": "g", "title": "", "fields": ["b"]}]})


async def test_a_burst_is_one_message_with_one_in_flight() -> None:
    asked = anyio.Event()
    offered = anyio.Event()

    async def script(peer: Peer) -> None:
        await peer.expect("publish")
        asked.set()
        await offered.wait()
        await peer.reply(at(1))
        params = await accept(peer, "patch", 2)
        assert (params["change"], params["cause"]) == (set_to(99), {"kind": "navigation"})

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        positions = []

        async def update(n: int) -> None:
            cause = {"kind": {50: "navigation", 60: "modal"}.get(n, "data")}
            positions.append((await publisher.update(state(n), cause=cause)).position.revision)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(update, 0)
            await asked.wait()
            for n in range(1, 100):
                tasks.start_soon(update, n)
            await anyio.wait_all_tasks_blocked()
            offered.set()
        assert sorted(positions) == [1] + [2] * 99


async def test_run_sends_what_is_offered() -> None:
    done = anyio.Event()

    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 1)
        assert (await accept(peer, "patch", 2))["change"] == set_to(3)
        done.set()

    async with scripted(script) as url, connect(url) as client, anyio.create_task_group() as tasks:
        publisher = Publisher(client, "s")
        publisher.offer(state(1))
        tasks.start_soon(publisher.run)
        while publisher.position is None:
            await anyio.lowlevel.checkpoint()
        publisher.offer(state(2))
        publisher.offer(state(3))
        await done.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_lost_reply_is_asked_for_with_the_same_message(accepted: bool) -> None:
    """§6.2: a repeat of an accepted message answers its position again; only then comes what is newer."""

    async def first(peer: Peer) -> None:
        await accept(peer, "publish", 1)
        assert (await peer.expect("patch"))["change"] == set_to(2)
        publisher.offer(state(3))
        peer.socket.transport.abort()

    async def second(peer: Peer) -> None:
        assert await accept(peer, "patch", 2) == {"session": "s", "change": set_to(2), "base": at(1)}
        assert await accept(peer, "patch", 3) == {"session": "s", "change": set_to(3), "base": at(2)}

    async with scripted(first, second) as url, connect(url, sleep=at_once) as client:
        publisher = Publisher(client, "s")
        await publisher.update(state(1))
        assert (await publisher.update(state(2))).position.revision == 2
        told = await publisher.flush()
        assert told and told.position.revision == 3


async def test_a_cancelled_flush_loses_nothing() -> None:
    asked = anyio.Event()

    async def script(peer: Peer) -> None:
        assert (await peer.expect("publish"))["snapshot"] == state(1)
        asked.set()
        assert (await accept(peer, "publish", 1))["snapshot"] == state(1)
        assert (await accept(peer, "patch", 2))["change"] == set_to(2)

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publisher.update, state(1))
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert (await publisher.update(state(2))).position.revision == 2


async def test_a_conflict_stops_until_it_is_overwritten_knowingly() -> None:
    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 1)
        await conflict(peer, "patch", **at(5))
        assert (await conflict(peer, "patch", **at(6)))["base"] == at(1)
        assert (await accept(peer, "publish", 7))["base"] == at(6)
        assert (await accept(peer, "patch", 8))["base"] == at(7)

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        await publisher.update(state(1))
        for revision in (5, 6):
            with pytest.raises(GatewayError) as caught:
                await publisher.update(state(revision))
            assert (caught.value.kind, caught.value.data["revision"]) == ("conflict", revision)
            assert publisher.position == Position("e", 1)
        publisher.overwrite(Position("e", 6))
        await publisher.update(state(7))
        await publisher.update(state(8))


async def test_overwrite_publishes_over_what_the_conflict_told_a_few_times() -> None:
    waits: list[float] = []

    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 1)
        await conflict(peer, "patch", **at(4))
        assert await accept(peer, "publish", 5) == {
            "session": "s",
            "snapshot": state(2),
            "base": at(4),
            "cause": {"kind": "sort"},
        }
        await conflict(peer, "patch", **at(9))
        for n in range(CONFLICTS_MAX):
            assert (await conflict(peer, "publish", **at(10 + n)))["base"] == at(9 + n)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with scripted(script) as url, connect(url, sleep=sleep, chance=lambda: 1.0, clock=lambda: 0.0) as client:
        publisher = Publisher(client, "s", base="any", on_conflict="overwrite")
        await publisher.update(state(1))
        await publisher.update(state(2), cause={"kind": "sort"})
        with pytest.raises(GatewayError, match="No"):
            await publisher.update(state(3))
    assert waits == [0.5, 1.0, 2.0, 4.0], "two that overwrite each other do not do so in a hot loop"


async def test_somebody_else_made_the_session_first() -> None:
    async def script(peer: Peer) -> None:
        await conflict(peer, "publish", **at(1))

    async with scripted(script) as url, connect(url) as client:
        with pytest.raises(GatewayError) as caught:
            await Publisher(client, "s").update(state(1))
        assert caught.value.kind == "conflict"


@pytest.mark.parametrize(
    ("kind", "told", "base"),
    [("conflict", at(1, "f"), at(1, "f")), ("conflict", {}, None), ("unknown_session", {}, None)],
)
async def test_a_new_epoch_or_a_session_that_went_is_published_anew(
    kind: str, told: dict[str, Any], base: dict[str, Any] | None
) -> None:
    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 7)
        await peer.expect("patch")
        await peer.refuse(kind, **told)
        params = await accept(peer, "publish", 2, "f")
        assert (params["snapshot"], params["base"]) == (state(2), base)

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        await publisher.update(state(1))
        assert (await publisher.update(state(2))).position == Position("f", 2)


async def test_a_new_epoch_in_which_somebody_wrote_is_a_conflict() -> None:
    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 7)
        await conflict(peer, "patch", **at(2, "f"))

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        await publisher.update(state(1))
        with pytest.raises(GatewayError):
            await publisher.update(state(2))


async def test_a_store_that_is_away_is_waited_for() -> None:
    waits: list[float] = []

    async def script(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.refuse("store_unavailable", "transient", retryable=True, retryAfterMs=3000)
        await accept(peer, "publish", 1)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with scripted(script) as url, connect(url, sleep=sleep, chance=lambda: 1.0) as client:
        await Publisher(client, "s").update(state(1))
    assert waits == [3.5]


async def test_a_refusal_is_told_to_all_it_concerns_and_the_next_offer_goes_on() -> None:
    async def script(peer: Peer) -> None:
        await accept(peer, "publish", 1)
        await peer.expect("patch")
        await peer.refuse("limit_exceeded", limit="stateBytes")
        assert (await peer.expect("publish"))["base"] == at(1), "the snapshot itself is judged before it is given up"
        await peer.refuse("limit_exceeded", limit="stateBytes")
        assert (await accept(peer, "publish", 2))["base"] == at(1)

    refused = []
    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        await publisher.update(state(1))

        async def update(n: int) -> None:
            try:
                await publisher.update(state(n))
            except GatewayError as error:
                refused.append(error.data["limit"])

        async with anyio.create_task_group() as tasks:
            for n in (2, 3, 4):
                tasks.start_soon(update, n)
        assert refused == ["stateBytes"] * 3
        assert (await publisher.update(state(5))).position.revision == 2


async def test_a_final_close_ends_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.socket.close(4501)

    async with scripted(script) as url, connect(url) as client:
        publisher = Publisher(client, "s")
        for _ in range(2):
            with pytest.raises(ConnectionLost) as caught:
                await publisher.update(state(1))
            assert (caught.value.kind, caught.value.code, caught.value.final) == ("connection_lost", 4501, True)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (None, None, None),
        ("data", None, "data"),
        (None, "data", "data"),
        ("navigation", "sort", "navigation"),
        ("data", "availability", "availability"),
        ("action", "data", "action"),
    ],
)
def test_the_stronger_cause(one: str | None, other: str | None, told: str | None) -> None:
    causes = [{"kind": kind} if kind else None for kind in (one, other, told)]
    assert stronger(causes[0], causes[1]) == causes[2]


async def describe_is(client: Client, one: str, other: str) -> None:
    """Two sessions are described alike, but for their names and positions."""
    raws = [(await client.describe(name, limit=100)).raw for name in (one, other)]
    apart = ("session", "view", "epoch", "revision", "asOf")
    left, right = ({name: value for name, value in raw.items() if name not in apart} for raw in raws)
    assert canonical(left) == canonical(right)


async def test_whatever_is_published_stands_at_the_gateway(tmp_path: Path) -> None:
    """A random walk: after each step the session is what a publish of the snapshot under another name makes."""
    rng = Random(42)
    limits = Limits()
    async with (
        redis_server(tmp_path) as engine,
        running_gateway(Settings(port=0, db=engine.url, limits=limits)) as url,
        connect(url) as client,
    ):
        publisher = Publisher(client, "walk")
        whole = invented(rng, 30, limits)
        for step in range(60):
            if step % 20 == 19:
                whole = invented(rng, rng.randrange(40), limits)
            elif step:
                before = session.publish(whole)
                after = session.patch(before, change(rng, before, [rng.choice(list(OPERATIONS))], limits))
                records = [{name: record[name] for name in ("id", "region", "fields")} for record in after["records"]]
                whole = after | {"records": records}
            await publisher.update(whole)
            await client.publish("twin", whole, base="any")
            await describe_is(client, "walk", "twin")
        assert publisher.position and publisher.position.revision > 30


async def test_a_store_that_restarts_gets_the_session_anew_and_watchers_are_told(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as engine,
        running_gateway(Settings(port=0, db=engine.url)) as url,
        connect(url, sleep=at_once) as client,
        anyio.create_task_group() as tasks,
    ):
        publisher = Publisher(client, "s")
        first = await publisher.update(state(1))
        follower = Follower(client.subscribe("s"))
        tasks.start_soon(follower.run)
        await follower.until_at(first.position)
        await engine.restart()
        second = await publisher.update(state(2))
        assert second.position.epoch != first.position.epoch
        await follower.until_at(second.position)
        assert follower.view.now and follower.view.now.context["state"]["n"] == 2
        assert "gap" in follower.reasons
        tasks.cancel_scope.cancel()
