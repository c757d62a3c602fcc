"""The replay against a far end that checks every base; the sleep is handed in and ends each run."""

from typing import Any

import pytest

from gateway.core.errors import GatewayError
from gateway.demo.board import Controls, Moment, first_minute, last_minute, snapshot
from gateway.demo.flights import load_flights
from gateway.demo.replay import PATCHES_PER_SECOND, Quit, pace, replay
from gateway.demo.script import Desk
from tests.demo.naive import Gateway, canonical

FLIGHTS = load_flights()
LAST = last_minute(FLIGHTS)


def board(minute: int, desk: Desk | None = None) -> dict[str, Any]:
    """The board at a minute as the script, or a desk, has it."""
    return snapshot(FLIGHTS, Moment(minute, (desk or Desk(FLIGHTS)).controls_at(minute)))


class EndOfTest(Exception):
    """Raised by the sleep instead of the one after the last."""


class Naps:
    """A sleep that returns at once, `count` times."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        if len(self.slept) == self.count:
            raise EndOfTest
        self.slept.append(seconds)


async def run(gateway: Gateway, naps: int, *, speed: float = 60.0, start: int = 325) -> tuple[list[int], list[float]]:
    """The minutes told and the seconds slept until the sleep ended it."""
    told: list[int] = []
    sleep = Naps(naps)
    with pytest.raises(EndOfTest):
        await replay(gateway, speed=speed, start_minute=start, sleep=sleep, told=told.append)
    return told, sleep.slept


async def test_publishes_then_patches_each_minute_on_the_last_position() -> None:
    gateway = Gateway()
    told, slept = await run(gateway, 80)
    assert told == list(range(325, 406)) and slept == [1.0] * 80
    assert [method for method, _ in gateway.requests] == ["publish"] + ["patch"] * 80
    assert all(params["session"] == "departures" for _, params in gateway.requests)
    assert canonical(gateway.snapshot) == canonical(board(405))
    causes = [params["cause"]["kind"] for _, params in gateway.requests]
    assert {n + 325: cause for n, cause in enumerate(causes) if cause != "data"} == {
        342: "filter",
        354: "modal",
        360: "modal",
        380: "navigation",
        392: "pagination",
        396: "sort",
    }


async def test_after_the_last_departure_the_day_starts_again() -> None:
    gateway = Gateway()
    told, _ = await run(gateway, 4, start=LAST - 2)
    assert told == [LAST - 2, LAST - 1, LAST, 270, 271]
    assert [method for method, _ in gateway.requests] == ["publish", "patch", "patch", "publish", "patch"]
    assert gateway.requests[3][1]["cause"] == {"kind": "navigation"}
    assert canonical(gateway.snapshot) == canonical(board(first_minute(FLIGHTS) + 1))


async def test_somebody_else_wrote_and_the_board_is_published_over_it() -> None:
    gateway = Gateway()
    sleep = Naps(5)

    async def meddle(seconds: float) -> None:
        if len(sleep.slept) == 2:
            gateway.revision += 1
            gateway.snapshot = {"records": []}
        await sleep(seconds)

    with pytest.raises(EndOfTest):
        await replay(gateway, speed=60, start_minute=325, sleep=meddle)
    assert [method for method, _ in gateway.requests] == [
        "publish",
        "patch",
        "patch",
        "patch",
        "publish",
        "patch",
        "patch",
    ]
    assert canonical(gateway.snapshot) == canonical(board(330))


async def test_a_session_that_is_gone_is_published_anew() -> None:
    gateway = Gateway(None, GatewayError("unknown_session", "There is no such session."))
    told, _ = await run(gateway, 2)
    assert told == [325, 326, 327]
    assert [method for method, _ in gateway.requests] == ["publish", "patch", "publish", "patch"]
    assert canonical(gateway.snapshot) == canonical(board(327))


@pytest.mark.parametrize(
    "refusal",
    [GatewayError("store_unavailable", "The store is out of reach."), ConnectionResetError()],
    ids=["store", "lost"],
)
@pytest.mark.parametrize("accepted", [0, 3])
async def test_other_errors_go_up_and_the_caller_goes_on_from_the_minute_told(
    refusal: Exception, accepted: int
) -> None:
    gateway = Gateway(*[None] * accepted, refusal)
    told: list[int] = []
    with pytest.raises(type(refusal)):
        await replay(gateway, speed=60, start_minute=325, sleep=Naps(9), told=told.append)
    assert told == list(range(325, 325 + accepted))
    assert (await run(gateway, 1, start=told[-1] if told else 325))[0] == [
        325 + max(accepted - 1, 0),
        325 + max(accepted, 1),
    ]
    assert gateway.requests[accepted + 1][0] == "publish"


@pytest.mark.parametrize(
    ("speed", "step", "wait"), [(1, 1, 60.0), (60, 1, 1.0), (1200, 1, 0.05), (1201, 2, 120 / 1201), (86_400, 72, 0.05)]
)
def test_pace(speed: float, step: int, wait: float) -> None:
    minutes, seconds = pace(speed)
    assert minutes == step and seconds == pytest.approx(wait)
    assert 1 / seconds <= PATCHES_PER_SECOND
    assert minutes * 60 / seconds == pytest.approx(speed)


async def test_at_high_speed_minutes_are_merged_and_the_last_one_is_not_passed() -> None:
    gateway = Gateway()
    told, slept = await run(gateway, 2, speed=86_400, start=LAST - 100)
    assert told == [LAST - 100, LAST - 28, LAST] and slept == [pytest.approx(0.05)] * 2
    assert canonical(gateway.snapshot) == canonical(board(LAST))


@pytest.mark.parametrize(
    ("speed", "start"), [(0.0, 325), (0.5, 325), (86_401.0, 325), (float("nan"), 325), (60.0, -1), (60.0, LAST + 1)]
)
async def test_out_of_range_is_refused_before_anything_is_published(speed: float, start: int) -> None:
    gateway = Gateway()
    with pytest.raises(ValueError, match="must be between"):
        await replay(gateway, speed=speed, start_minute=start, sleep=Naps(1))
    assert gateway.requests == []


class Typed:
    """Keys that come at given seconds of a clock that only waiting moves; the end of the list ends the test."""

    def __init__(self, *keys: tuple[float, str]) -> None:
        self.keys = list(keys)
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    async def within(self, seconds: float) -> str:
        if not self.keys:
            raise EndOfTest
        at, key = self.keys[0]
        if at > self.now + seconds:
            self.now += seconds
            return ""
        self.keys.pop(0)
        self.now = max(at, self.now)
        return key


async def steered(gateway: Gateway, *keys: tuple[float, str]) -> list[int]:
    typed, told = Typed(*keys), list[int]()

    async def never(seconds: float) -> None:
        raise AssertionError("it waits for keys instead")

    with pytest.raises(EndOfTest):
        await replay(gateway, sleep=never, start_minute=325, told=told.append, keys=typed, clock=typed.clock)
    return told


async def test_a_key_is_published_at_once_and_the_minute_goes_on_behind_it() -> None:
    gateway = Gateway()
    assert await steered(gateway, (0.5, "l"), (0.75, "s"), (1.5, "o"), (3.5, "o")) == [325, 326, 327, 328]
    causes = [(method, params["cause"]["kind"]) for method, params in gateway.requests]
    patches = ["navigation", "sort", "data", "modal", "data", "data", "modal"]
    assert causes == [("publish", "data"), *[("patch", cause) for cause in patches]]
    assert canonical(gateway.snapshot) == canonical(snapshot(FLIGHTS, Moment(328, Controls("LGA", sort="delay"))))


async def test_a_key_that_changes_nothing_is_no_patch() -> None:
    gateway = Gateway()
    await steered(gateway, (0.5, "j"), (0.6, "p"))
    assert len(gateway.requests) == 1


async def test_what_was_chosen_is_kept_over_a_conflict_and_the_day() -> None:
    gateway = Gateway(None, GatewayError("conflict", "The base does not hold."))
    told = await steered(gateway, (0.5, "e"), (2.5, "c"))
    assert told == [325, 326, 327]
    assert [method for method, _ in gateway.requests] == ["publish", "patch", "publish", "patch", "patch", "patch"]
    assert gateway.snapshot["state"]["airport"] == "EWR" and gateway.snapshot["state"]["carrier"]


async def test_the_key_that_ends_it_ends_it() -> None:
    gateway, typed = Gateway(), Typed((0.5, "lq"))
    with pytest.raises(Quit):
        await replay(gateway, sleep=Naps(0), start_minute=325, keys=typed, clock=typed.clock)
    assert len(gateway.requests) == 1


async def test_a_desk_handed_in_chooses() -> None:
    gateway, desk = Gateway(), Desk(FLIGHTS, "EWR")
    desk.press("s", 325)
    with pytest.raises(EndOfTest):
        await replay(gateway, sleep=Naps(1), start_minute=325, desk=desk)
    assert canonical(gateway.snapshot) == canonical(snapshot(FLIGHTS, Moment(326, Controls("EWR", sort="delay"))))
