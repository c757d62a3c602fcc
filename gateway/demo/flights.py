"""The flights of the demo's day: facts read from the file that `make_flights.py` made. No rule of the board is here."""

import csv
from collections.abc import Iterable
from importlib.resources import files
from typing import Final, NamedTuple

DATE: Final = "2013-11-27"
FILE: Final = f"flights-{DATE}.csv"


class Flight(NamedTuple):
    """One flight as it was scheduled and as it went; times in local minutes since the day's midnight."""

    carrier: str
    number: str
    airline: str
    tail: str  # empty: unknown
    origin: str
    dest: str
    scheduled: int
    departed: int | None  # may be before `scheduled` or past midnight (above 1439); None: cancelled

    @property
    def id(self) -> str:
        """The record's id, `UA-1545`; on this day no carrier used a number twice."""
        return f"{self.carrier}-{self.number}"


def parse_flights(lines: Iterable[str]) -> tuple[Flight, ...]:
    """The flights of the file's text, in its order (ascending by scheduled time); lines that begin with `#` are comments.

    Raises:
        ValueError: two rows would have one id.
    """
    flights = []
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        hours, minutes = row["scheduled"].split(":")
        scheduled = int(hours) * 60 + int(minutes)
        departed = scheduled + int(row["delay"]) if row["delay"] else None
        names = (row["carrier"], row["flight"], row["airline"], row["tail"], row["origin"], row["dest"])
        flights.append(Flight(*names, scheduled, departed))
    if len({flight.id for flight in flights}) != len(flights):
        raise ValueError("two flights have one id")
    return tuple(flights)


def load_flights() -> tuple[Flight, ...]:
    """The 1 014 flights of the day, from the file in this package."""
    return parse_flights(files("gateway.demo").joinpath(FILE).read_text("utf-8").splitlines())
