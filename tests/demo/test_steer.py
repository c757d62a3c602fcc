"""Keys and what they do; the keys of a real (pseudo) terminal."""

import os
import pty
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo.board import AIRPORTS, Controls, Moment, shown, status_at
from gateway.demo.flights import load_flights
from gateway.demo.steer import HELP, KEYS, Keyboard, keyboard, pressed

FLIGHTS = load_flights()


def press(keys: str, controls: Controls = Controls(), minute: int = 600) -> Controls:  # noqa: B008
    for key in keys:
        controls = pressed(key, FLIGHTS, Moment(minute, controls))
    return controls


def test_each_key_does_what_it_says() -> None:
    assert [press(key).airport for key in "jle"] == list(AIRPORTS)
    assert press("cns") == Controls(carrier=press("c").carrier, sort="delay")
    assert [press("s" * n).sort for n in range(4)] == ["scheduled", "delay", "dest", "scheduled"]
    assert [press("n" * n).page for n in range(3)] == [1, 2, 3] and press("nnp").page == 2
    assert press("p").page == 1 and press("n" * 99).page == shown(FLIGHTS, Moment(600, Controls())).pages
    assert press("sncol") == Controls("LGA")
    assert press("x", Controls("EWR", page=2)) == Controls("EWR", page=2)


def test_carriers_are_gone_through_and_then_all() -> None:
    carriers = [press("c" * n).carrier for n in range(1, 20)]
    end = carriers.index(None)
    here = {f.carrier for f in shown(FLIGHTS, Moment(600, Controls())).rows}
    assert carriers[:end] == sorted(set(carriers[:end]), key=str) and here <= set(carriers[:end])
    assert carriers[end + 1] == carriers[0]


def test_a_flight_is_opened_and_closed() -> None:
    opened = press("o")
    [flight] = [flight for flight in FLIGHTS if flight.id == opened.flight]
    rows = shown(FLIGHTS, Moment(600, Controls())).rows
    assert flight in rows and status_at(flight, 600)[0] != "Departed"
    assert all(status_at(row, 600)[0] == "Departed" for row in rows[: rows.index(flight)])
    assert press("oo") == Controls()
    assert press("o", Controls(carrier="HA", airport="LGA")).flight is None


@given(st.text(sorted(KEYS), max_size=12), st.integers(0, 1500))
def test_any_keys_leave_a_page_that_is_there(keys: str, minute: int) -> None:
    controls = press(keys, minute=minute)
    assert controls.page == shown(FLIGHTS, Moment(minute, controls)).page


def test_help_names_every_key() -> None:
    assert {word for word in HELP.split() if len(word) == 1 and word.isalpha()} - {"a"} == KEYS - {"a"}
    assert "· a " in HELP


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, TextIO]]:
    """A pseudo terminal: where its user types, and the stream a program reads. Ours counts as its foreground program."""
    outer, inner = pty.openpty()
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    with os.fdopen(inner, "r") as stream:
        try:
            yield outer, stream
        finally:
            os.close(outer)


async def test_keys_of_a_terminal_come_at_once_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as (user, stream):
        before = termios.tcgetattr(stream)
        with keyboard(stream) as keys, anyio.fail_after(5):
            assert keys is not None
            assert not termios.tcgetattr(stream)[3] & (termios.ICANON | termios.ECHO)
            assert termios.tcgetattr(stream)[3] & termios.ISIG
            os.write(user, b"l")
            assert await keys.within(60) == "l"
            os.write(user, b"Z?\x1b[A\xff")
            assert await keys.within(0.01) == ""
            os.write(user, b"?sn")
            assert await keys.within(60) == "sn"
        assert termios.tcgetattr(stream) == before


async def test_the_terminal_is_put_back_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as (_, stream):
        before = termios.tcgetattr(stream)
        with pytest.raises(KeyError), keyboard(stream):
            raise KeyError
        assert termios.tcgetattr(stream) == before


async def test_a_key_is_waited_for_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as (user, stream), keyboard(stream) as keys, anyio.fail_after(5):
        assert keys is not None
        came: list[str] = []

        async def wait(keyboard: Keyboard) -> None:
            came.append(await keyboard.within(60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, keys)
            await anyio.wait_all_tasks_blocked()
            assert came == []
            os.write(user, b"q")
        assert came == ["q"]


async def test_a_terminal_that_hung_up_has_no_more_keys() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    keys = Keyboard(reading)
    assert [await keys.within(0.01) for _ in range(2)] == ["", ""]
    os.close(reading)


def test_what_is_no_terminal_of_ours_gives_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing, keyboard(nothing) as keys:
        assert keys is None
    with terminal(monkeypatch) as (_, stream):
        monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp() + 1)
        with keyboard(stream) as keys:
            assert keys is None
            assert termios.tcgetattr(stream)[3] & termios.ICANON
