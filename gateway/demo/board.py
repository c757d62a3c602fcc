"""The departures board as a pure function of the flights, a minute of the day and what the desk chose to see.

`snapshot` is the `snapshot` of a `publish` (protocol §6), `changes` the smallest `change` of a `patch` (§6.1) between two
moments with its `cause`. No clock, no I/O. The source says when a flight left and which never did, not when anybody knew;
these rules of the replay fill that in, and tell nothing before it happened:

- boarding begins `BOARDING_MIN` before the scheduled time; a flight that never left shows as cancelled from then on;
- from `LATE_MIN` after the scheduled time a flight that has not left is delayed, and `delay` grows in steps of that size;
- once it left, `departed` and `delay` are the facts;
- a flight that left stays on the board for `KEPT_MIN`, a cancelled one for as long after its scheduled time.

One page of `ROWS` flights of one airport is published, in the order of the scheduled time unless the desk sorted it
otherwise: the first records are the next departures. `recordsTotal` counts the other pages too.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from gateway.client.difference import difference
from gateway.demo.flights import DATE, Flight

Airport: TypeAlias = Literal["JFK", "LGA", "EWR"]
Sort: TypeAlias = Literal["scheduled", "delay", "dest"]
Status: TypeAlias = Literal["Scheduled", "Boarding", "Delayed", "Departed", "Cancelled"]

SESSION: Final = "departures"
AIRPORTS: Final[tuple[Airport, ...]] = ("JFK", "LGA", "EWR")
SORTS: Final[tuple[Sort, ...]] = ("scheduled", "delay", "dest")
BOARDING_MIN: Final = 30  # minutes before the scheduled time; on this day none left more than 14 early
LATE_MIN: Final = 15  # minutes; the source's own bureau calls a departure late from here on
WARN_MIN: Final = 120  # minutes late without having left: a warning stands in `feedback`
KEPT_MIN: Final = 5  # minutes a flight that left stays: long enough to be seen, and the next ones stay in front
NOTICE_MIN: Final = 120  # minutes after its scheduled time a cancellation stays in the notices
HANDOVER_MIN: Final = 5  # minutes before a shift begins in which nobody at the desk acts
ROWS: Final = 24  # flights of a page; all of them coming and going at once would be above `limits.afterMoves`

FIELDS: Final = ("flight", "carrier", "airline", "tail", "origin", "dest", "scheduled", "status", "departed", "delay")
STATUSES: Final[tuple[Status, ...]] = ("Scheduled", "Boarding", "Delayed", "Departed", "Cancelled")
CLOSED: Final = frozenset({"Departed", "Cancelled"})
SHIFTS: Final = ((0, "early"), (810, "late"), (1290, "night"))
"""From which minute on which shift works at the desk: 13:30 and 21:30 are the board's own plan, no facts of the source."""
MIDNIGHT: Final = datetime.fromisoformat(DATE)


class Controls(NamedTuple):
    """What the desk chose. `page` may be past the last one, which is shown then; `flight`: the id of the one opened."""

    airport: Airport = "JFK"
    carrier: str | None = None
    sort: Sort = "scheduled"
    page: int = 1
    flight: str | None = None


class Moment(NamedTuple):
    """All the board depends on: the minute of the day (from 1440 on the next one) and what the desk chose."""

    minute: int
    controls: Controls


class Shown(NamedTuple):
    """What of the flights is told at a moment. `listed`: how many stand on all `pages` together; `page` is one of them."""

    rows: tuple[Flight, ...]
    notices: tuple[Flight, ...]
    opened: Flight | None
    listed: int
    page: int
    pages: int


EXTERNAL: Final = frozenset({"tail"})  # from the registry of aircraft, not the airline's schedule
DECLARED: Final = [{"name": name, "source": "external"} if name in EXTERNAL else name for name in FIELDS]
REGIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "id": "airport",
        "title": "Airport",
        "description": "What the desk chose to see: the airport, and by hand a carrier, an order and a page.",
        "fields": ["airport", *({"name": name, "source": "user"} for name in ("carrier", "sort", "page"))],
    },
    {
        "id": "board",
        "title": "Board",
        "description": "One page of the airport's departures, in the order of their scheduled time unless sorted "
        "otherwise. Times are local. delay: minutes after the scheduled time, negative if before; until the flight "
        "left, how late it is so far.",
        "parent": "airport",
        "fields": DECLARED,
    },
    {
        "id": "notices",
        "title": "Notices",
        "description": "Flights of this airport that will not go.",
        "parent": "airport",
        "fields": ["flight", "dest", "scheduled", "notice"],
    },
    {
        "id": "flight",
        "title": "Flight",
        "description": "The one flight the desk has opened, above the board. boarding: when boarding begins.",
        "parent": "airport",
        "modal": True,
        "fields": [*DECLARED, "boarding"],
    },
)


def local_time(minute: int) -> str:
    """Minute of the day → `2013-11-27T05:15`; from 1440 on it is the next day."""
    return (MIDNIGHT + timedelta(minutes=minute)).isoformat(timespec="minutes")


def clock_time(minute: int) -> str:
    """Minute of the day → `05:15`, as people say it."""
    return local_time(minute)[-5:]


def first_minute(flights: Sequence[Flight]) -> int:
    """The minute at which the first boarding begins: the day's start on the board."""
    return min(flight.scheduled for flight in flights) - BOARDING_MIN


def last_minute(flights: Sequence[Flight]) -> int:
    """The minute of the last departure or cancellation, maybe past midnight: the day's end on the board."""
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


def is_listed(flight: Flight, minute: int) -> bool:
    """Whether the flight still stands on the board; which minute it will go is told by nothing before."""
    gone = flight.scheduled if flight.departed is None else flight.departed
    return minute < gone + KEPT_MIN


def listed(flights: Sequence[Flight], minute: int, controls: Controls) -> list[Flight]:
    """All flights of the airport and carrier that stand on the board, every page of them, in order."""
    found = [
        flight
        for flight in flights
        if flight.origin == controls.airport
        and controls.carrier in (None, flight.carrier)
        and is_listed(flight, minute)
    ]
    return sorted(found, key=sort_key(controls.sort, minute))


def sort_key(sort: Sort, minute: int) -> Callable[[Flight], Any]:
    """The key of an order; the file's own, by scheduled time, settles ties. `delay`: the latest first."""
    if sort == "dest":
        return lambda flight: flight.dest
    if sort == "delay":
        return lambda flight: -(status_at(flight, minute)[1] or 0)
    return lambda flight: 0


def shown(flights: Sequence[Flight], moment: Moment) -> Shown:
    """What is told at a moment; a page past the last one is the last one."""
    minute, controls = moment
    found = listed(flights, minute, controls)
    pages = max(1, -(-len(found) // ROWS))
    page = min(controls.page, pages)
    notices = [
        flight
        for flight in flights
        if flight.departed is None
        and flight.origin == controls.airport
        and -BOARDING_MIN <= minute - flight.scheduled < NOTICE_MIN
    ]
    opened = None
    if controls.flight is not None:
        opened = next((flight for flight in flights if flight.id == controls.flight), None)
    return Shown(tuple(found[(page - 1) * ROWS : page * ROWS]), tuple(notices), opened, len(found), page, pages)


def shift_at(minute: int) -> str:
    """Who works at the desk."""
    return [name for start, name in SHIFTS if start <= minute][-1]


def handover_at(minute: int) -> int | None:
    """The minute the next shift begins, if the desk is being handed over now."""
    return next((start for start, _ in SHIFTS if 0 < start - minute <= HANDOVER_MIN), None)


def progress(flight: Flight, minute: int) -> dict[str, Any]:
    """The fields that change as the day goes. None of them ever goes again before the day is over."""
    status, delay = status_at(flight, minute)
    fields: dict[str, Any] = {"status": status}
    if status == "Departed" and flight.departed is not None:
        fields["departed"] = local_time(flight.departed)
    if delay is not None:
        fields["delay"] = delay
    return fields


def fields_at(flight: Flight, minute: int) -> dict[str, Any]:
    """All fields of a flight; `tail` is absent where the source does not know it."""
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
    return fields | progress(flight, minute)


def records(told: Shown, moment: Moment) -> list[dict[str, Any]]:
    """The opened flight, the page's flights, the notices, what the desk chose: in this order."""
    minute, controls = moment
    result: list[dict[str, Any]] = []
    if told.opened:
        boarding = {"boarding": local_time(told.opened.scheduled - BOARDING_MIN)}
        result.append(
            {"id": f"open:{told.opened.id}", "region": "flight", "fields": fields_at(told.opened, minute) | boarding}
        )
    result += [{"id": flight.id, "region": "board", "fields": fields_at(flight, minute)} for flight in told.rows]
    for flight in told.notices:
        fields = {
            "flight": f"{flight.carrier} {flight.number}",
            "dest": flight.dest,
            "scheduled": local_time(flight.scheduled),
            "notice": "Cancelled",
        }
        result.append({"id": f"notice:{flight.id}", "region": "notices", "fields": fields})
    chosen = {"airport": controls.airport, "carrier": controls.carrier, "sort": controls.sort, "page": told.page}
    return [*result, {"id": "desk", "region": "airport", "fields": chosen}]


def state(flights: Sequence[Flight], told: Shown, moment: Moment) -> dict[str, Any]:
    """The board's clock, what the desk chose, and how many flights of the airport have which status all day."""
    minute, controls = moment
    counts = Counter(status_at(flight, minute)[0] for flight in flights if flight.origin == controls.airport)
    return {
        "clock": local_time(minute),
        "shift": shift_at(minute),
        "airport": controls.airport,
        "carrier": controls.carrier,
        "sort": controls.sort,
        "page": told.page,
        "pages": told.pages,
        "open": told.opened.id if told.opened else None,
    } | {status.lower(): counts[status] for status in STATUSES}


def feedback(told: Shown, moment: Moment) -> list[dict[str, Any]]:
    """The handover, an empty board, and a warning for each flight of the page that is `WARN_MIN` late and has not left."""
    minute, controls = moment
    entries: list[dict[str, Any]] = []
    if (start := handover_at(minute)) is not None:
        message = f"The desk is handed over to the {shift_at(start)} shift until {clock_time(start)}."
        entries.append({"id": "handover", "level": "status", "message": message, "region": "airport"})
    if not told.rows:
        of = f" of {controls.carrier}" if controls.carrier else ""
        message = f"No flight{of} is left on the board of {controls.airport} today."
        entries.append({"id": "empty", "level": "notice", "message": message, "region": "board"})
    for flight in told.rows:
        status, delay = status_at(flight, minute)
        if status == "Delayed" and delay is not None and delay >= WARN_MIN:
            message = f"{flight.carrier} {flight.number} to {flight.dest} is {delay} minutes late and has not left."
            entries.append({"id": f"late-{flight.id}", "level": "warning", "message": message, "record": flight.id})
    return entries


def unavailable(told: Shown, moment: Moment) -> list[dict[str, Any]]:
    """What the desk cannot do now, and why: for the whole session, and for each flight of the page."""
    minute = moment.minute
    whole: dict[str, str] = {}
    if (start := handover_at(minute)) is not None:
        whole = dict.fromkeys(("flight.hold", "flight.notify", "flight.cancel"), f"Handover until {clock_time(start)}")
    if told.opened:
        whole["flight.open"] = "Another flight is open"
    else:
        whole["flight.close"] = "No flight is open"
    if told.pages == 1:
        whole["board.page"] = "All flights are on this page"
    entries = [{"capability": capability, "reason": reason} for capability, reason in whole.items()]
    for flight in told.rows:
        status = status_at(flight, minute)[0]
        if status in CLOSED:
            entries += [
                {"capability": capability, "record": flight.id, "reason": status}
                for capability in ("flight.hold", "flight.cancel")
            ]
        if status not in ("Delayed", "Cancelled"):
            reason = "Departed" if status == "Departed" else "On time so far"
            entries.append({"capability": "flight.notify", "record": flight.id, "reason": reason})
    return entries


def page(controls: Controls) -> dict[str, Any]:
    """The page of an airport: another airport is navigation, all else the desk chooses is not."""
    return {
        "title": f"Departures from {controls.airport}",
        "route": f"/departures/{controls.airport}",
        "params": {"airport": controls.airport, "date": DATE},
    }


def snapshot(flights: Sequence[Flight], moment: Moment) -> dict[str, Any]:
    """The whole board at a moment, as `publish` takes it (protocol §6)."""
    told = shown(flights, moment)
    stand = records(told, moment)
    return {
        "page": page(moment.controls),
        "regions": [
            region | {"active": told.opened is not None} if region["id"] == "flight" else region for region in REGIONS
        ],
        "records": stand,
        "state": state(flights, told, moment),
        "feedback": feedback(told, moment),
        "unavailable": unavailable(told, moment),
        "capabilities": list(CAPABILITIES),
        "recordsTotal": len(stand) - len(told.rows) + told.listed,
        "scope": {"shift": shift_at(moment.minute)},
    }


def cause(before: Moment, after: Moment, is_paged: bool) -> str:
    """The kind of the change's cause (protocol §6): the first that applies in the order of §6.3, else `data`.

    Args:
        is_paged: another page is shown, which happens without the desk too.
    """
    old, new = before.controls, after.controls
    if old.airport != new.airport:
        return "navigation"
    if old.flight != new.flight:
        return "modal"
    if old.carrier != new.carrier:
        return "filter"
    if old.sort != new.sort:
        return "sort"
    if is_paged:
        return "pagination"
    if shift_at(before.minute) != shift_at(after.minute):
        return "scope"
    if handover_at(before.minute) != handover_at(after.minute):
        return "availability"
    return "data"


def changes(flights: Sequence[Flight], before: Moment, after: Moment) -> tuple[dict[str, Any], str] | None:
    """What leads from one moment to another, as `patch` takes it (protocol §6.1), and its cause; None: nothing.

    Only what differs is named: members, fields of records, records that came, went or moved. The clock is one of them, so
    every minute has a change.
    """
    old, new = snapshot(flights, before), snapshot(flights, after)
    change = difference(old, new)
    assert change is not None, "regions keep their fields all day"
    return (change, cause(before, after, old["state"]["page"] != new["state"]["page"])) if change else None


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description} | more


def _takes(**properties: dict[str, Any]) -> dict[str, Any]:
    """A schema of arguments that must all be given."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


CAPABILITIES: Final[tuple[dict[str, Any], ...]] = (
    {
        "id": "board.airport",
        "title": "Go to an airport",
        "description": "Show the departures of another airport: its whole board, from the first page.",
        "appliesTo": "session",
        "arguments": _takes(airport={"enum": list(AIRPORTS)}),
        "effect": "write",
        "idempotent": True,
    },
    {
        "id": "board.filter",
        "title": "Filter by carrier",
        "description": "Show one carrier's flights only, or with null those of all.",
        "appliesTo": "session",
        "arguments": _takes(carrier={"type": ["string", "null"], "pattern": "^[0-9A-Z]{2}$"}),
        "effect": "write",
        "idempotent": True,
    },
    {
        "id": "board.page",
        "title": "Turn to a page",
        "description": f"Show another page of the board; a page has {ROWS} flights.",
        "appliesTo": "session",
        "arguments": _takes(page={"type": "integer", "minimum": 1}),
        "effect": "write",
        "idempotent": True,
    },
    {
        "id": "board.sort",
        "title": "Sort the board",
        "description": "By scheduled time, by delay with the latest first, or by destination.",
        "appliesTo": "session",
        "arguments": _takes(by={"enum": list(SORTS)}),
        "effect": "write",
        "idempotent": True,
    },
    {
        "id": "flight.cancel",
        "title": "Cancel a flight",
        "description": "The flight will not go. This cannot be taken back.",
        "appliesTo": "record",
        "region": "board",
        "arguments": _takes(reason=_text("Told to the passengers.", minLength=1, maxLength=200)),
        "effect": "destructive",
        "confirm": True,
    },
    {
        "id": "flight.close",
        "title": "Close the flight",
        "description": "Go back from the opened flight to the board.",
        "appliesTo": "record",
        "region": "flight",
        "effect": "write",
        "idempotent": True,
    },
    {
        "id": "flight.hold",
        "title": "Hold a flight",
        "description": "Keep a flight that has not left at its stand for some minutes more.",
        "appliesTo": "record",
        "region": "board",
        "arguments": _takes(minutes={"type": "integer", "minimum": 1, "maximum": 120}),
        "effect": "write",
    },
    {
        "id": "flight.notify",
        "title": "Tell the passengers",
        "description": "Tell the passengers of a delayed or cancelled flight how it stands.",
        "appliesTo": "record",
        "region": "board",
        "arguments": _takes(message=_text("What they are told.", minLength=1, maxLength=500)),
        "effect": "write",
    },
    {
        "id": "flight.open",
        "title": "Open a flight",
        "description": "Show all that is known of one flight above the board.",
        "appliesTo": "record",
        "region": "board",
        "effect": "write",
        "idempotent": True,
    },
)
"""What the desk can do. Nobody serves them yet, so that invoking one is refused by the gateway."""
