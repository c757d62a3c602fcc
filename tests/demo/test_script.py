"""The script of the day, and who chooses when somebody steers."""

from itertools import pairwise

import pytest

from gateway.demo.board import AIRPORTS, Airport, Controls, Moment, first_minute, last_minute
from gateway.demo.flights import load_flights
from gateway.demo.script import QUIET_UNTIL, Desk, script
from gateway.demo.steer import KEYS, QUIT, SCRIPT

FLIGHTS = load_flights()
FIRST, LAST = first_minute(FLIGHTS), last_minute(FLIGHTS)


@pytest.mark.parametrize("start", AIRPORTS)
def test_the_script_is_keys_with_ascending_minutes(start: Airport) -> None:
    steps = script(start)
    assert all(one < other for (one, _), (other, _) in pairwise(steps))
    assert all(minute >= QUIET_UNTIL and set(keys) <= KEYS - {QUIT, SCRIPT} for minute, keys in steps)


@pytest.mark.parametrize("start", AIRPORTS)
def test_the_day_begins_at_its_airport_and_goes_to_all(start: Airport) -> None:
    desk = Desk(FLIGHTS, start)
    chosen = [desk.controls_at(minute) for minute in range(FIRST, LAST + 1)]
    assert set(chosen[: QUIET_UNTIL - FIRST]) == {Controls(start)}
    assert {controls.airport for controls in chosen} == set(AIRPORTS)
    assert {controls.sort for controls in chosen} == {"scheduled", "delay", "dest"}
    assert len({controls.carrier for controls in chosen}) > 4 and {controls.page for controls in chosen} == {1, 2}
    assert len({controls.flight for controls in chosen}) > 10


def test_minutes_may_be_skipped() -> None:
    """At a high speed minutes are merged; what is chosen is the same. Which flight is opened depends on the minute."""
    whole, fast = Desk(FLIGHTS), Desk(FLIGHTS)
    at = {minute: whole.controls_at(minute) for minute in range(FIRST, LAST + 1)}
    assert all(fast.controls_at(minute) == at[minute] for minute in range(FIRST, LAST + 1, 37))


def test_a_day_is_as_the_one_before() -> None:
    desk = Desk(FLIGHTS, "LGA")
    day = [desk.controls_at(minute) for minute in range(FIRST, LAST + 1)]
    desk.begin_day()
    assert [desk.controls_at(minute) for minute in range(FIRST, LAST + 1)] == day


def test_the_script_rests_from_the_first_key_until_it_is_let_go_on() -> None:
    desk = Desk(FLIGHTS)
    assert desk.press("ls", 340) == Controls("LGA", sort="delay")
    assert desk.controls_at(700) == Controls("LGA", sort="delay")
    desk.begin_day()
    assert desk.controls_at(FIRST) == Controls("LGA", sort="delay")
    assert desk.press(SCRIPT, 779) == Controls("LGA", sort="delay") and not desk.is_steered
    assert desk.controls_at(780) == Controls("JFK")
    desk.press("e", 781)
    desk.begin_day()
    desk.press(SCRIPT, FIRST)
    desk.begin_day()
    assert desk.controls_at(FIRST) == Controls("JFK")


def test_a_key_comes_behind_the_steps_of_its_minute() -> None:
    desk = Desk(FLIGHTS)
    desk.controls_at(779)
    assert desk.press("s", 792) == Controls("JFK", sort="delay")
    assert Desk(FLIGHTS).press("p", 792) == Controls("JFK", page=1)
    assert Moment(792, Desk(FLIGHTS).controls_at(792)) == Moment(792, Controls("JFK", page=2))
