"""The departures board as a pure function of the flights and a minute of the day: no clock, no I/O.

`snapshot` is the `snapshot` of a `publish` (protocol §6), `changes` the smallest `change` of a `patch` (§6.1) between two
minutes. The source says when a flight left and which never did, not when anybody knew; these rules of the replay fill
that in, and tell nothing before it happened:

- boarding begins `BOARDING_MIN` before the scheduled time; a flight that never left shows as cancelled from then on;
- from `LATE_MIN` after the scheduled time a flight that has not left is delayed, and `delay` grows in steps of that size;
- once it left, `departed` and `delay` are the facts.

Records stand in the order of the scheduled time and never move. Every change is one a view can be told as an `after`:
the one capability, page, regions and order stay as they are all day (§6.3).
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from gateway.demo.flights import DATE, Flight

Status: TypeAlias = Literal["Scheduled", "Boarding", "Delayed", "Departed", "Cancelled"]

SESSION: Final = "departures"
REGION: Final = "board"
HOLD: Final = "flight.hold"
BOARDING_MIN: Final = 30  # minutes before the scheduled time; on this day none left more than 14 early
LATE_MIN: Final = 15  # minutes; the source's own bureau calls a departure late from here on
WARN_MIN: Final = 120  # minutes late without having left: a warning stands in `feedback`
WARNINGS: Final = 50  # `limits.feedback`; the day never has so many at once
DAY_MIN: Final = 1440  # minutes

FIELDS: Final = ("flight", "carrier", "airline", "tail", "origin", "dest", "scheduled", "status", "departed", "delay")
STATUSES: Final[tuple[Status, ...]] = ("Scheduled", "Boarding", "Delayed", "Departed", "Cancelled")
CLOSED: Final = frozenset({"Departed", "Cancelled"})
MIDNIGHT: Final = datetime.fromisoformat(DATE)

PAGE: Final = {"title": "Departures", "route": "/departures", "params": {"date": DATE}}
BOARD: Final = {
    "id": REGION,
    "title": "Board",
    "description": "Departures from JFK, LGA and EWR in the order of their scheduled time. Times are local. "
    "delay: minutes after the scheduled time, negative if before; until the flight left, how late it is so far.",
    "fields": list(FIELDS),
}
HOLD_CAPABILITY: Final = {
    "id": HOLD,
    "title": "Hold a flight",
    "description": "Keep a flight that has not left at its stand for some minutes more.",
    "appliesTo": "record",
    "region": REGION,
    "arguments": {
        "type": "object",
        "properties": {"minutes": {"type": "integer", "minimum": 1, "maximum": 120}},
        "required": ["minutes"],
        "additionalProperties": False,
    },
    "effect": "write",
}


def local_time(minute: int) -> str:
    """Minute of the day → `2013-11-27T05:15`; from 1440 on it is the next day."""
    return (MIDNIGHT + timedelta(minutes=minute)).isoformat(timespec="minutes")


def first_minute(flights: Sequence[Flight]) -> int:
    """The minute at which the first boarding begins: the day's start on the board."""
    return min(flight.scheduled for flight in flights) - BOARDING_MIN


def last_minute(flights: Sequence[Flight]) -> int:
    """The minute of the last departure or cancellation, maybe past midnight; nothing changes after it."""
    return max(flight.scheduled - BOARDING_MIN if flight.departed is None else flight.departed for flight in flights)


def status_at(flight: Flight, minute: int) -> tuple[Status, int | None]:
    """What the board shows of a flight: its status and its delay in minutes, None when there is nothing to tell."""
    late = minute - flight.scheduled
    if flight.departed is None:
        return ("Cancelled" if late >= -BOARDING_MIN else "Scheduled"), None
    if minute >= flight.departed:
        return "Departed", flight.departed - flight.scheduled
    if late >= LATE_MIN:
        return "Delayed", late // LATE_MIN * LATE_MIN
    return ("Boarding" if late >= -BOARDING_MIN else "Scheduled"), None


def progress(flight: Flight, minute: int) -> dict[str, Any]:
    """The fields that change as the day goes. None of them ever goes again before the day is over."""
    status, delay = status_at(flight, minute)
    fields: dict[str, Any] = {"status": status}
    if status == "Departed" and flight.departed is not None:
        fields["departed"] = local_time(flight.departed)
    if delay is not None:
        fields["delay"] = delay
    return fields


def record(flight: Flight, minute: int) -> dict[str, Any]:
    """The whole record; `tail` is absent where the source does not know it."""
    fields = {
        "flight": f"{flight.carrier} {flight.number}",
        "carrier": flight.carrier,
        "airline": flight.airline,
        "origin": flight.origin,
        "dest": flight.dest,
        "scheduled": local_time(flight.scheduled),
    }
    if flight.tail:
        fields["tail"] = flight.tail
    return {"id": flight.id, "region": REGION, "fields": fields | progress(flight, minute)}


def state(flights: Sequence[Flight], minute: int) -> dict[str, Any]:
    """The board's clock and how many flights have which status."""
    counts = Counter(status_at(flight, minute)[0] for flight in flights)
    return {"clock": local_time(minute)} | {status.lower(): counts[status] for status in STATUSES}


def feedback(flights: Sequence[Flight], minute: int) -> list[dict[str, Any]]:
    """A warning for each flight that is `WARN_MIN` late and has not left, at most `WARNINGS`, by scheduled time."""
    warnings = []
    for flight in flights:
        status, delay = status_at(flight, minute)
        if status == "Delayed" and delay is not None and delay >= WARN_MIN:
            message = f"{flight.carrier} {flight.number} to {flight.dest} is {delay} minutes late and has not left."
            warnings.append({"id": f"late-{flight.id}", "level": "warning", "message": message, "record": flight.id})
    return warnings[:WARNINGS]


def unavailable(flight: Flight, minute: int) -> dict[str, Any] | None:
    """Why a flight cannot be held now, if it cannot."""
    status = status_at(flight, minute)[0]
    return {"capability": HOLD, "record": flight.id, "reason": status} if status in CLOSED else None


def snapshot(flights: Sequence[Flight], minute: int) -> dict[str, Any]:
    """The whole board at a minute, as `publish` takes it (protocol §6); every flight of the day stands on it."""
    return {
        "page": PAGE,
        "regions": [BOARD],
        "records": [record(flight, minute) for flight in flights],
        "state": state(flights, minute),
        "feedback": feedback(flights, minute),
        "unavailable": [entry for flight in flights if (entry := unavailable(flight, minute))],
        "capabilities": [HOLD_CAPABILITY],
    }


def changes(flights: Sequence[Flight], minute_from: int, minute_to: int) -> dict[str, Any] | None:
    """What leads from one minute to a later one, as `patch` takes it (protocol §6.1); None if it is the same minute.

    Only members that differ are named: fields of records, `state`, the whole `feedback` when one entry differs, entries of
    `unavailable` that came. The clock is one of them, so every minute has a change.

    Raises:
        ValueError: `minute_to` is the earlier one; the day starts again with a new snapshot, never with a change.
    """
    if minute_to < minute_from:
        raise ValueError("a change leads to a later minute")
    upserts, closed = [], []
    for flight in flights:
        if status_at(flight, minute_from) == status_at(flight, minute_to):
            continue
        old, new = progress(flight, minute_from), progress(flight, minute_to)
        upserts.append({"id": flight.id, "fields": {name: new[name] for name in new if new[name] != old.get(name)}})
        entry = unavailable(flight, minute_to)
        if entry and entry != unavailable(flight, minute_from):
            closed.append(entry)
    old_state, new_state = state(flights, minute_from), state(flights, minute_to)
    moved = {name: value for name, value in new_state.items() if value != old_state[name]}
    warnings = feedback(flights, minute_to)
    change: dict[str, Any] = {}
    if moved:
        change["state"] = {"set": moved}
    if upserts:
        change["records"] = {"upsert": upserts}
    if warnings != feedback(flights, minute_from):
        change["feedback"] = warnings
    if closed:
        change["unavailable"] = {"set": closed}
    return change or None
