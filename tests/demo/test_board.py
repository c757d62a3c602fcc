"""The board at each moment, and that its changes lead from one to another."""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.limits import Limits
from gateway.core.params import Patch, Publish
from gateway.demo import board
from gateway.demo.board import Controls, Moment
from gateway.demo.flights import Flight, load_flights
from tests.demo.naive import applied, canonical

FLIGHTS = load_flights()
LAST = board.last_minute(FLIGHTS)
LIMITS = Limits()
CARRIERS = sorted({flight.carrier for flight in FLIGHTS})


def flight(scheduled: int, departed: int | None) -> Flight:
    return Flight("UA", "1545", "United Air Lines Inc.", "N14228", "EWR", "IAH", scheduled, departed)


def at(minute: int, **chosen: Any) -> dict[str, Any]:
    return board.snapshot(FLIGHTS, Moment(minute, Controls(**chosen)))


def on_board(snapshot: dict[str, Any], region: str = "board") -> list[dict[str, Any]]:
    return [record["fields"] for record in snapshot["records"] if record["region"] == region]


@pytest.mark.parametrize(
    ("departed", "shown"),
    [
        (595, {569: ("Scheduled", None), 570: ("Boarding", None), 594: ("Boarding", None), 595: ("Departed", -5)}),
        (600, {599: ("Boarding", None), 600: ("Departed", 0), 2000: ("Departed", 0)}),
        (614, {613: ("Boarding", None), 614: ("Departed", 14)}),
        (615, {614: ("Boarding", None), 615: ("Departed", 15)}),
        (
            640,
            {
                615: ("Delayed", 15),
                629: ("Delayed", 15),
                630: ("Delayed", 30),
                639: ("Delayed", 30),
                640: ("Departed", 40),
            },
        ),
        (None, {569: ("Scheduled", None), 570: ("Cancelled", None), 2000: ("Cancelled", None)}),
    ],
)
def test_status_of_a_flight_at_ten(departed: int | None, shown: dict[int, tuple[str, int | None]]) -> None:
    assert {minute: board.status_at(flight(600, departed), minute) for minute in shown} == shown


@pytest.mark.parametrize("sort", board.SORTS)
def test_nothing_is_told_before_it_happened(sort: board.Sort) -> None:
    """Two days that differ only in when flights leave, and whether, look the same until the first has left."""
    until = 620
    known = [flight for flight in FLIGHTS if flight.departed is None or flight.departed < until]
    open_yet = [flight for flight in FLIGHTS if flight.departed is not None and flight.departed >= until]
    other = [flight._replace(departed=until + n) for n, flight in enumerate(reversed(open_yet))]
    days = [sorted([*known, *rest], key=lambda flight: (flight.scheduled, flight.id)) for rest in (open_yet, other)]
    assert days[0] != days[1]
    for minute in range(560, until):
        for airport in board.AIRPORTS:
            moment = Moment(minute, Controls(airport, sort=sort, flight=open_yet[0].id))
            assert board.snapshot(days[0], moment) == board.snapshot(days[1], moment)


def test_a_flight_is_told_with_the_facts_once_they_are_there() -> None:
    names = {"flight": "UA 1545", "carrier": "UA", "airline": "United Air Lines Inc.", "tail": "N14228"}
    names |= {"origin": "EWR", "dest": "IAH", "scheduled": "2013-11-27T23:30"}
    late = flight(1410, 1468)
    assert board.fields_at(late, 0) == names | {"status": "Scheduled"}
    left = {"status": "Departed", "departed": "2013-11-28T00:28", "delay": 58}
    assert board.fields_at(late, 1468) == names | left
    assert "tail" not in board.fields_at(late._replace(tail=""), 0)


@pytest.mark.parametrize("airport", board.AIRPORTS)
def test_the_first_records_are_the_next_departures(airport: board.Airport) -> None:
    """All day: no flight that has not left stands behind one scheduled later, and those that left go within minutes."""
    for minute in range(board.first_minute(FLIGHTS), LAST + 1):
        rows = board.shown(FLIGHTS, Moment(minute, Controls(airport))).rows
        assert [row.scheduled for row in rows] == sorted(row.scheduled for row in rows)
        waiting = [f for f in FLIGHTS if f.origin == airport and f.departed is not None and f.departed > minute]
        assert [row for row in rows if row in waiting] == waiting[: sum(row in waiting for row in rows)]
        left = [row for row in rows if row.departed is not None and row.departed <= minute]
        assert all(minute - (row.departed or 0) < board.KEPT_MIN for row in left) and len(left) <= 8
        cancelled = [row for row in rows if row.departed is None]
        assert all(minute - row.scheduled < board.KEPT_MIN for row in cancelled)


def test_pages_hold_every_flight_of_the_airport_once() -> None:
    first = at(600)
    pages = [on_board(at(600, page=n + 1)) for n in range(first["state"]["pages"])]
    assert [len(rows) for rows in pages[:-1]] == [board.ROWS] * (len(pages) - 1)
    seen = [row["flight"] for rows in pages for row in rows]
    listed = [f"{f.carrier} {f.number}" for f in FLIGHTS if f.origin == "JFK" and board.is_listed(f, 600)]
    assert seen == listed
    others = len(first["records"]) - board.ROWS
    assert first["recordsTotal"] == len(listed) + others > len(first["records"])
    assert at(600, page=99) == at(600, page=len(pages))


def test_a_carrier_and_an_order_are_what_they_say() -> None:
    rows = on_board(at(700, carrier="B6"))
    assert {row["carrier"] for row in rows} == {"B6"} and {row["origin"] for row in rows} == {"JFK"}
    by_dest = [row["dest"] for row in on_board(at(700, sort="dest"))]
    assert by_dest == sorted(by_dest) and len(set(by_dest)) > 1
    by_delay = [row.get("delay", 0) for row in on_board(at(1000, sort="delay"))]
    assert by_delay == sorted(by_delay, reverse=True) and by_delay[0] > by_delay[-1]
    assert at(700, sort="dest")["page"] == at(700)["page"] != at(700, airport="LGA")["page"]


def test_a_carrier_without_flights_is_said_to_have_none() -> None:
    empty = at(700, carrier="HA", airport="LGA")
    assert on_board(empty) == [] and (empty["state"]["page"], empty["state"]["pages"]) == (1, 1)
    messages = [(entry["level"], entry["message"]) for entry in empty["feedback"]]
    assert messages == [("notice", "No flight of HA is left on the board of LGA today.")]


def test_an_opened_flight_stands_above_the_board() -> None:
    opened = FLIGHTS[3]
    snapshot = at(500, flight=opened.id)
    assert snapshot["records"][0]["id"] == f"open:{opened.id}"
    [fields] = on_board(snapshot, "flight")
    assert fields == board.fields_at(opened, 500) | {"boarding": board.local_time(opened.scheduled - 30)}
    regions = {region["id"]: region for region in snapshot["regions"]}
    assert regions["flight"]["active"] and regions["flight"]["modal"]
    assert not {region["id"]: region for region in at(500)["regions"]}["flight"]["active"]
    assert at(500, flight="no flight") == at(500)


def test_regions_have_a_hierarchy_and_fields_their_sources() -> None:
    regions = {region["id"]: region for region in at(500)["regions"]}
    assert {id: region.get("parent") for id, region in regions.items()} == {
        "airport": None, "board": "airport", "notices": "airport", "flight": "airport",
    }  # fmt: skip
    sources = {
        field.get("source", "application") if isinstance(field, dict) else "application"
        for region in regions.values()
        for field in region["fields"]
    }
    assert sources == {"application", "user", "external"}


def test_what_cannot_be_done_is_told_with_its_reason() -> None:
    snapshot = at(472)  # flights of every status
    status = {record["id"]: record["fields"]["status"] for record in snapshot["records"] if record["region"] == "board"}
    told: dict[str, dict[str, str]] = {}
    for entry in snapshot["unavailable"]:
        told.setdefault(entry["capability"], {})[entry.get("record", "")] = entry["reason"]
    closed = {id: text for id, text in status.items() if text in ("Departed", "Cancelled")}
    assert told["flight.hold"] == told["flight.cancel"] == closed != {}
    assert told["flight.notify"].keys() == {id for id, text in status.items() if text not in ("Delayed", "Cancelled")}
    assert told["flight.close"] == {"": "No flight is open"} and "flight.open" not in told
    opened = at(472, flight=FLIGHTS[500].id)["unavailable"]
    assert {"capability": "flight.open", "reason": "Another flight is open"} in opened
    assert not any(entry["capability"] == "flight.close" for entry in opened)
    [cancel] = [each for each in snapshot["capabilities"] if each["id"] == "flight.cancel"]
    assert (cancel["effect"], cancel["confirm"]) == ("destructive", True)


def test_the_desk_is_handed_over_twice() -> None:
    handovers = [minute for minute in range(LAST + 1) if board.handover_at(minute) is not None]
    assert handovers == [*range(805, 810), *range(1285, 1290)]
    assert [at(minute)["scope"] for minute in (809, 810, 1289, 1290)] == [
        {"shift": "early"}, {"shift": "late"}, {"shift": "late"}, {"shift": "night"},
    ]  # fmt: skip
    assert at(805)["feedback"][0]["message"] == "The desk is handed over to the late shift until 13:30."
    whole = [entry["capability"] for entry in at(805)["unavailable"] if entry["reason"] == "Handover until 13:30"]
    assert sorted(whole) == ["flight.cancel", "flight.hold", "flight.notify"]


def test_cancelled_flights_stand_in_the_notices() -> None:
    [cancelled, *_] = [f for f in FLIGHTS if f.departed is None and f.origin == "LGA"]
    name, begin = f"{cancelled.carrier} {cancelled.number}", cancelled.scheduled - board.BOARDING_MIN
    for minute, stands in ((begin - 1, False), (begin, True), (cancelled.scheduled + board.NOTICE_MIN, False)):
        notices = on_board(at(minute, airport="LGA"), "notices")
        assert (name in [notice["flight"] for notice in notices]) == stands


def test_start_and_end_of_the_day() -> None:
    assert (board.first_minute(FLIGHTS), LAST) == (270, 1468)
    start = at(0)
    assert {name: start["state"][name] for name in ("clock", "shift", "airport", "carrier", "sort", "page", "open")} == {
        "clock": "2013-11-27T00:00", "shift": "early", "airport": "JFK", "carrier": None, "sort": "scheduled",
        "page": 1, "open": None,
    }  # fmt: skip
    assert start["feedback"] == []
    statuses = [status.lower() for status in board.STATUSES]
    counts: Counter[str] = Counter()
    for airport in board.AIRPORTS:
        end = at(LAST, airport=airport)
        counts.update({name: end["state"][name] for name in statuses})
        assert {name: at(0, airport=airport)["state"][name] for name in statuses[1:]} == dict.fromkeys(statuses[1:], 0)
    assert counts == {"scheduled": 0, "boarding": 0, "delayed": 0, "departed": 979, "cancelled": 35}


CHOSEN = st.builds(
    Controls,
    st.sampled_from(board.AIRPORTS),
    st.none() | st.sampled_from(CARRIERS),
    st.sampled_from(board.SORTS),
    st.integers(1, 15),
    st.none() | st.sampled_from([flight.id for flight in FLIGHTS]),
)
MOMENTS = st.builds(Moment, st.integers(0, LAST + 60), CHOSEN)


@given(MOMENTS, MOMENTS | st.none(), st.integers(0, 30))
def test_a_change_leads_from_any_moment_to_any_other(before: Moment, other: Moment | None, minutes: int) -> None:
    """Also back: what is merged, steered or begun again needs no special case."""
    after = other or Moment(before.minute + minutes, before.controls)
    old, new = board.snapshot(FLIGHTS, before), board.snapshot(FLIGHTS, after)
    changed = board.changes(FLIGHTS, before, after)
    assert (changed is None) == (canonical(old) == canonical(new))
    reached = applied(old, changed[0] if changed else {})
    assert canonical(reached) == canonical(new)


@pytest.mark.parametrize(
    ("cause", "change"),
    [
        ("navigation", {"airport": "EWR"}),
        ("modal", {"flight": FLIGHTS[0].id}),
        ("filter", {"carrier": "B6", "sort": "dest"}),
        ("sort", {"sort": "dest"}),
        ("pagination", {"page": 2}),
        ("data", {}),
    ],
)
def test_the_cause_is_what_the_desk_did(cause: str, change: dict[str, Any]) -> None:
    changed = board.changes(FLIGHTS, Moment(600, Controls()), Moment(601, Controls(**change)))
    assert changed is not None and changed[1] == cause


@pytest.mark.parametrize(("minute", "cause"), [(804, "availability"), (809, "scope"), (810, "data")])
def test_the_cause_of_a_handover(minute: int, cause: str) -> None:
    changed = board.changes(FLIGHTS, Moment(minute, Controls()), Moment(minute + 1, Controls()))
    assert changed is not None and changed[1] == cause


def test_a_page_that_is_no_more_is_told_as_paging() -> None:
    """The desk did nothing: the last page's flights have become those of the one before."""
    moments = [Moment(minute, Controls(page=99)) for minute in range(1000, LAST)]
    pages = [board.shown(FLIGHTS, moment).page for moment in moments]
    n = next(n for n in range(len(pages)) if pages[n + 1] < pages[n])
    changed = board.changes(FLIGHTS, moments[n], moments[n + 1])
    assert changed is not None and changed[1] == "pagination"


def test_nothing_changed_is_no_change() -> None:
    assert board.changes(FLIGHTS, Moment(600, Controls()), Moment(600, Controls())) is None
    shown = board.snapshot(FLIGHTS, Moment(600, Controls()))["state"]["pages"]
    moments = [Moment(600, Controls(page=page)) for page in (shown, shown + 5)]
    assert board.changes(FLIGHTS, *moments) is None


@pytest.mark.parametrize("minute", [0, 807, LAST])
def test_snapshot_is_as_publish_takes_it(minute: int) -> None:
    whole = at(minute, flight=FLIGHTS[0].id)
    raw = json.dumps({"session": board.SESSION, "snapshot": whole, "base": "any", "cause": {"kind": "data"}})
    publish = msgspec.json.decode(raw, type=Publish)
    assert len(raw) < LIMITS.message_bytes // 4
    declared = {
        region["id"]: {field if isinstance(field, str) else field["name"] for field in region["fields"]}
        for region in board.REGIONS
    }
    for entry in publish.snapshot.records:
        assert set(entry.fields) <= declared[entry.region]
    ids = {entry.id for entry in publish.snapshot.records}
    assert {entry.record for entry in publish.snapshot.unavailable} <= ids | {msgspec.UNSET}


def test_a_change_is_as_patch_takes_it() -> None:
    changed = board.changes(FLIGHTS, Moment(600, Controls()), Moment(640, Controls("EWR", flight=FLIGHTS[0].id)))
    assert changed is not None
    change, cause = changed
    msgspec.convert({"session": board.SESSION, "change": change, "base": "any", "cause": {"kind": cause}}, Patch)


def test_long_delays_are_warned_of_within_the_limit() -> None:
    moments = [Moment(minute, Controls("LGA", sort="delay")) for minute in range(300, LAST)]
    counts = [len(board.feedback(board.shown(FLIGHTS, moment), moment)) for moment in moments]
    assert max(counts) > 1
    hopeless = [flight(600, 2000)._replace(number=str(number)) for number in range(200)]
    moment = Moment(720, Controls("EWR"))
    assert len(board.feedback(board.shown(hopeless, moment), moment)) == board.ROWS <= LIMITS.feedback
    early = Moment(719, Controls("EWR"))
    assert board.feedback(board.shown(hopeless, early), early) == []
    assert board.feedback(board.shown(hopeless[:1], moment), moment) == [
        {
            "id": "late-UA-0",
            "level": "warning",
            "message": "UA 0 to IAH is 120 minutes late and has not left.",
            "record": "UA-0",
        }
    ]
