"""The board's publisher comes back at the minute last accepted."""

from typing import Any

import pytest

from gateway.client import ConnectionLost
from gateway.core.errors import GatewayError
from gateway.demo.publisher import publish_departures
from tests.scripted import Peer, scripted


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def accept(peer: Peer, method: str, revision: int) -> dict[str, Any]:
    params = await peer.expect(method)
    await peer.reply({"epoch": "e", "revision": revision})
    return params


async def test_after_a_break_the_day_goes_on_where_it_stood() -> None:
    boards: list[dict[str, Any]] = []

    async def first(peer: Peer) -> None:
        boards.append(await accept(peer, "publish", 1))
        for revision in range(2, 12):
            await accept(peer, "patch", revision)
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        boards.append(await accept(peer, "publish", 12))
        await peer.expect("patch")
        await peer.refuse("store_unavailable", "transient", retryAfterMs=3000)
        with pytest.raises(Exception, match="1000"):
            await peer.socket.recv()

    async def third(peer: Peer) -> None:
        boards.append(await accept(peer, "publish", 13))
        await peer.socket.close(4501)

    told: list[tuple[type[Exception], float]] = []
    async with scripted(first, second, third) as url:
        with pytest.raises(ConnectionLost) as caught:
            await publish_departures(
                url,
                speed=60,
                sleep=Sleeps(),
                clock=lambda: 0.0,
                chance=lambda: 1.0,
                told=lambda error, wait_s: told.append((type(error), wait_s)),
            )
    assert caught.value.code == 4501
    assert told == [(ConnectionLost, 0.5), (GatewayError, 4.0)]
    assert [board["base"] for board in boards] == ["any"] * 3
    assert boards[0]["snapshot"] != boards[1]["snapshot"] == boards[2]["snapshot"]


async def test_a_lasting_refusal_ends_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("publish")
        await peer.refuse("limit_exceeded", limit="records")

    async with scripted(script) as url:
        with pytest.raises(GatewayError):
            await publish_departures(url, speed=60)


class Typed:
    """Keys that come one after the other without waiting; behind the last one minutes pass."""

    def __init__(self, keys: str) -> None:
        self.keys = list(keys)

    async def within(self, seconds: float) -> str:
        return self.keys.pop(0) if self.keys else ""


async def test_what_was_chosen_is_kept_over_a_break_and_a_key_ends_it() -> None:
    boards: list[dict[str, Any]] = []
    keys = Typed("s")

    async def first(peer: Peer) -> None:
        boards.append(await accept(peer, "publish", 1))
        assert (await accept(peer, "patch", 2))["cause"] == {"kind": "sort"}
        await peer.socket.close(1012)

    async def second(peer: Peer) -> None:
        boards.append(await peer.expect("publish"))
        keys.keys = ["q"]
        await peer.reply({"epoch": "e", "revision": 3})
        with pytest.raises(Exception, match="1000"):
            await peer.socket.recv()

    async with scripted(first, second) as url:
        await publish_departures(
            url, speed=60, airport="LGA", keys=keys, sleep=Sleeps(), clock=lambda: 0.0, chance=lambda: 1.0
        )
    assert [board["snapshot"]["page"]["params"]["airport"] for board in boards] == ["LGA", "LGA"]
    assert [board["snapshot"]["state"]["sort"] for board in boards] == ["scheduled", "delay"]
