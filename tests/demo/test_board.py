"""The board at each minute, and that its changes lead from one to the next."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.limits import Limits
from gateway.core.params import Patch, Publish
from gateway.demo import board
from gateway.demo.flights import Flight, load_flights
from tests.demo.naive import applied, canonical

FLIGHTS = load_flights()
LAST = board.last_minute(FLIGHTS)
LIMITS = Limits()


def flight(scheduled: int, departed: int | None) -> Flight:
    return Flight("UA", "1545", "United Air Lines Inc.", "N14228", "EWR", "IAH", scheduled, departed)


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


def test_nothing_is_told_before_it_happened() -> None:
    """Two flights that differ only in when they left look the same until the first has left."""
    for minute in range(560, 700):
        assert board.record(flight(600, 700), minute) == board.record(flight(600, 900), minute)


def test_record_tells_the_facts_once_they_are_there() -> None:
    names = {"flight": "UA 1545", "carrier": "UA", "airline": "United Air Lines Inc.", "tail": "N14228"}
    names |= {"origin": "EWR", "dest": "IAH", "scheduled": "2013-11-27T23:30"}
    late = flight(1410, 1468)
    assert board.record(late, 0)["fields"] == names | {"status": "Scheduled"}
    left = {"status": "Departed", "departed": "2013-11-28T00:28", "delay": 58}
    assert board.record(late, 1468)["fields"] == names | left
    assert "tail" not in board.record(late._replace(tail=""), 0)["fields"]


def test_only_flights_that_left_or_never_will_cannot_be_held() -> None:
    closed = {entry["record"]: entry["reason"] for entry in board.snapshot(FLIGHTS, 800)["unavailable"]}
    status = {entry["id"]: entry["fields"]["status"] for entry in board.snapshot(FLIGHTS, 800)["records"]}
    assert closed == {name: text for name, text in status.items() if text in ("Departed", "Cancelled")}
    assert set(closed.values()) == {"Departed", "Cancelled"} and len(closed) < 1014


def test_start_and_end_of_the_day() -> None:
    assert (board.first_minute(FLIGHTS), LAST) == (270, 1468)
    start, end = board.snapshot(FLIGHTS, 0), board.snapshot(FLIGHTS, LAST)
    assert {entry["fields"]["status"] for entry in start["records"]} == {"Scheduled"}
    assert start["state"] == {
        "clock": "2013-11-27T00:00", "scheduled": 1014, "boarding": 0, "delayed": 0, "departed": 0, "cancelled": 0,
    }  # fmt: skip
    assert start["unavailable"] == start["feedback"] == []
    assert (end["state"]["departed"], end["state"]["cancelled"]) == (979, 35)
    assert len(end["unavailable"]) == 1014 and end["feedback"] == []
    assert board.snapshot(FLIGHTS, 269)["state"]["boarding"] == 0 < board.snapshot(FLIGHTS, 270)["state"]["boarding"]


def test_all_changes_of_the_day_lead_to_its_end() -> None:
    """The day, minute by minute. Each change is as `patch` takes it and small enough that every view gets an `after`."""
    replica = board.snapshot(FLIGHTS, 0)
    records = {entry["id"]: entry for entry in replica["records"]}
    moved = 0
    for minute in range(LAST):
        change = board.changes(FLIGHTS, minute, minute + 1)
        assert change is not None and len(json.dumps(change)) < LIMITS.after_bytes // 4
        msgspec.convert({"session": board.SESSION, "change": change, "base": "any", "cause": {"kind": "data"}}, Patch)
        for upsert in change.get("records", {}).get("upsert", []):
            held = records[upsert["id"]]["fields"]
            assert upsert["fields"] and all(held.get(name) != value for name, value in upsert["fields"].items())
            held.update(upsert["fields"])
            moved += 1
        replica["feedback"] = change.get("feedback", replica["feedback"])
        replica["state"] |= change["state"]["set"]
        replica["unavailable"] += change.get("unavailable", {}).get("set", [])
    assert canonical(replica) == canonical(board.snapshot(FLIGHTS, LAST))
    assert moved > 2 * 979


@given(st.tuples(st.integers(0, LAST + 60), st.integers(0, LAST + 60)).map(sorted))
def test_a_change_leads_from_any_minute_to_any_later_one(minutes: list[int]) -> None:
    start, end = minutes
    change = board.changes(FLIGHTS, start, end)
    assert (change is None) == (start == end)
    reached = applied(board.snapshot(FLIGHTS, start), change or {})
    assert canonical(reached) == canonical(board.snapshot(FLIGHTS, end))


def test_no_change_leads_back() -> None:
    with pytest.raises(ValueError, match="later"):
        board.changes(FLIGHTS, 600, 599)


@pytest.mark.parametrize("minute", [0, 800, LAST])
def test_snapshot_is_as_publish_takes_it(minute: int) -> None:
    whole = board.snapshot(FLIGHTS, minute)
    raw = json.dumps({"session": board.SESSION, "snapshot": whole, "base": "any", "cause": {"kind": "data"}})
    publish = msgspec.json.decode(raw, type=Publish)
    assert len(raw) < LIMITS.publish_bytes // 4
    assert len(publish.snapshot.records) == 1014 <= LIMITS.records
    declared = set(board.FIELDS)
    for entry in publish.snapshot.records:
        assert entry.region == board.REGION and set(entry.fields) <= declared
        assert len(json.dumps(entry.fields)) < LIMITS.record_bytes
    assert len(declared) <= LIMITS.fields_per_record
    assert len(json.dumps(whole["state"])) < LIMITS.state_bytes
    ids = {entry.id for entry in publish.snapshot.records}
    assert {entry.record for entry in publish.snapshot.unavailable} <= ids
    texts = [board.BOARD["description"], *(entry["message"] for entry in whole["feedback"])]
    assert all(len(str(text)) <= LIMITS.text_chars for text in texts)


def test_warnings_stay_within_the_limit() -> None:
    counts = [len(board.feedback(FLIGHTS, minute)) for minute in range(LAST + 1)]
    assert 0 < max(counts) <= LIMITS.feedback
    hopeless = [flight(600, 2000)._replace(number=str(number)) for number in range(200)]
    assert len(board.feedback(hopeless, 720)) == board.WARNINGS == LIMITS.feedback
    assert board.feedback(hopeless, 719) == []
    assert board.feedback(hopeless[:1], 720) == [
        {
            "id": "late-UA-0",
            "level": "warning",
            "message": "UA 0 to IAH is 120 minutes late and has not left.",
            "record": "UA-0",
        }
    ]
