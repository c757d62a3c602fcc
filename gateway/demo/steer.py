"""Steering the board by keys: what a key does to the desk's choice, and the keys of a terminal.

`pressed` is pure; the script of the day presses the same keys. `keyboard` is the only part that touches a terminal, and
only one that this process may read.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

import anyio

from gateway.demo.board import SORTS, Airport, Controls, Moment, listed, shown
from gateway.demo.flights import Flight

try:
    import termios
    import tty
except ImportError:  # no POSIX terminal: the board runs by its script alone
    termios = None  # type: ignore[assignment]

AIRPORT_KEYS: Final[dict[str, Airport]] = {"j": "JFK", "l": "LGA", "e": "EWR"}
QUIT: Final = "q"
SCRIPT: Final = "a"
KEYS: Final = frozenset(AIRPORT_KEYS) | frozenset("csnpo") | {QUIT, SCRIPT}
HELP: Final = (
    "j l e airport · c carrier · s sort · n p page · o open or close a flight · a leave it to the script · q quit"
)
READ_BYTES: Final = 64  # of keys taken at once: nobody types more in between


def pressed(key: str, flights: Sequence[Flight], moment: Moment) -> Controls:
    """What the desk has chosen after a key; another airport begins anew, a key that does nothing here changes nothing.

    Keys: `j` `l` `e` the airport · `c` the next carrier on the board, behind the last one all · `s` the next order · `n` `p`
    the next and the previous page · `o` opens the first flight on the page that has not left, or closes the opened one.
    """
    minute, controls = moment
    if key in AIRPORT_KEYS:
        return Controls(airport=AIRPORT_KEYS[key])
    if key == "c":
        return controls._replace(carrier=_next_carrier(flights, moment), page=1)
    if key == "s":
        return controls._replace(sort=SORTS[(SORTS.index(controls.sort) + 1) % len(SORTS)], page=1)
    told = shown(flights, moment)
    if key == "n":
        return controls._replace(page=min(told.page + 1, told.pages))
    if key == "p":
        return controls._replace(page=max(told.page - 1, 1))
    if key == "o" and controls.flight is not None:
        return controls._replace(flight=None)
    if key == "o":
        waiting = [flight.id for flight in told.rows if flight.departed is None or minute < flight.departed]
        return controls._replace(flight=waiting[0] if waiting else None)
    return controls


def _next_carrier(flights: Sequence[Flight], moment: Moment) -> str | None:
    minute, controls = moment
    carriers = sorted({flight.carrier for flight in listed(flights, minute, controls._replace(carrier=None))})
    return next((carrier for carrier in carriers if controls.carrier is None or carrier > controls.carrier), None)


class Keyboard:
    """The keys of a terminal in cbreak mode; made by `keyboard`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_open = True

    async def within(self, seconds: float) -> str:
        """The keys that come within `seconds`, as soon as one does; `""` when none came. Other characters are dropped."""
        with anyio.move_on_after(seconds):
            while self._is_open:
                await anyio.wait_readable(self._descriptor)
                if keys := self._read():
                    return keys
            await anyio.sleep_forever()
        return ""

    def _read(self) -> str:
        try:
            typed = os.read(self._descriptor, READ_BYTES)
        except OSError:  # the terminal hung up; end of file says the same elsewhere
            typed = b""
        self._is_open = bool(typed)
        return "".join(key for key in typed.decode("ascii", "ignore") if key in KEYS)


@contextmanager
def keyboard(stream: TextIO) -> Iterator[Keyboard | None]:
    """The keys typed on `stream`, while the block lasts; None where it is no terminal this process may read now.

    Keys come without waiting for a line's end and are not echoed; interrupts work as ever. What the terminal was set to is
    put back at the end.
    """
    if termios is None or not stream.isatty() or os.tcgetpgrp(stream.fileno()) != os.getpgrp():
        yield None
        return
    descriptor = stream.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSANOW)
    try:
        yield Keyboard(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
