"""The script that made the file of flights, on an archive of a few rows."""

import zipfile
from pathlib import Path

import pytest

from gateway.demo.make_flights import COLUMNS, HEADER, csv_of_day, main, minute_of_day

SOURCE = "year,month,day,dep_time,sched_dep_time,dep_delay,carrier,flight,tailnum,origin,dest"
LATE = "2013,11,27,28,1930,298,EV,5769,N833AS,LGA,IAD"
EARLY = "2013,11,27,514,515,-1,UA,1096,N66803,EWR,IAH"
CANCELLED = "2013,11,27,NA,515,NA,UA,99,NA,EWR,ROC"
OTHER_DAY = "2013,11,28,514,515,-1,UA,1096,N66803,EWR,IAH"


def archive(folder: Path, *rows: str) -> Path:
    (folder / "airlines.csv").write_text('carrier,name\nUA,United Air Lines Inc.\nEV,"Express, Jet"\n', "utf-8")
    path = folder / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("flights.csv", "\n".join((SOURCE, *rows)) + "\n")
    return path


def test_rows_are_ordered_and_na_is_empty(tmp_path: Path) -> None:
    text = csv_of_day(archive(tmp_path, LATE, OTHER_DAY, EARLY, CANCELLED))
    assert text == HEADER + ",".join(COLUMNS) + (
        "\nUA,99,United Air Lines Inc.,,EWR,ROC,05:15,"
        "\nUA,1096,United Air Lines Inc.,N66803,EWR,IAH,05:15,-1"
        '\nEV,5769,"Express, Jet",N833AS,LGA,IAD,19:30,298\n'
    )


@pytest.mark.parametrize("row", [EARLY.replace(",-1,", ",-2,"), CANCELLED.replace("515,NA", "515,3")])
def test_facts_that_disagree_are_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(ValueError, match="UA-"):
        csv_of_day(archive(tmp_path, row))


@pytest.mark.parametrize(("clock", "minute"), [("1", 1), ("517", 317), ("2359", 1439), ("2400", 1440)])
def test_minute_of_day(clock: str, minute: int) -> None:
    assert minute_of_day(clock) == minute


def test_main_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    path = archive(tmp_path, EARLY)
    outputs = [tmp_path / "one.csv", tmp_path / "two.csv"]
    assert [main([str(path), str(output)]) for output in outputs] == [0, 0]
    assert outputs[0].read_bytes() == outputs[1].read_bytes() == csv_of_day(path).encode()


def test_main_without_a_source_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
