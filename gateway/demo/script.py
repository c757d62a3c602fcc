"""The script of the day: what somebody at the desk does when nobody steers the board by hand. Pure.

It is a list of keys with their minutes, the same keys as on a terminal (`steer.pressed`): round after round, another
airport, its second page, an order and back, a carrier, a flight opened and closed. Few minutes have a key, so that most
changes of the day are `after`s.
"""

from collections.abc import Sequence
from typing import Final

from gateway.demo.board import AIRPORTS, Airport, Controls, Moment
from gateway.demo.flights import Flight
from gateway.demo.steer import AIRPORT_KEYS, SCRIPT, pressed

Step = tuple[int, str]
"""A minute of the day and the keys pressed in it."""

ROUND_MIN: Final = 80  # minutes of one round: seven of them have a key
BEGIN_MINUTE: Final = 300  # 05:00: the first round's airport; the round of 13:00 meets the handover at 13:25
QUIET_UNTIL: Final = 330  # before it the board is as it begins: whoever starts it sees the next departures
END_MINUTE: Final = 1470
CARRIERS: Final = 5  # how far the filter is turned on in one round; the next begins anew


def script(start: Airport = "JFK") -> tuple[Step, ...]:
    """The day's steps, ascending; the rounds go through the airports from `start` on."""
    key_of = {airport: key for key, airport in AIRPORT_KEYS.items()}
    first = AIRPORTS.index(start)
    steps: list[Step] = []
    for n, begin in enumerate(range(BEGIN_MINUTE, END_MINUTE, ROUND_MIN)):
        away, back = ("s", "ss") if n % 2 else ("ss", "s")  # in turn by delay and by destination
        steps += [
            (begin, key_of[AIRPORTS[(first + n) % len(AIRPORTS)]]),
            (begin + 12, "n"),
            (begin + 16, away),
            (begin + 28, back),
            (begin + 42, "c" * (1 + n % CARRIERS)),
            (begin + 54, "o"),
            (begin + 60, "o"),
        ]
    return tuple(step for step in steps if step[0] >= QUIET_UNTIL)


class Desk:
    """Who chooses what the board shows: the script, until a key is pressed; then whoever presses them.

    `controls` of earlier minutes are not asked for: time goes on, until `begin_day`.
    """

    def __init__(self, flights: Sequence[Flight], start: Airport = "JFK") -> None:
        self.is_steered = False
        self._flights = flights
        self._start = start
        self._script = script(start)
        self._controls = Controls(airport=start)
        self._minute = -1

    def begin_day(self) -> None:
        """The day starts again; what was chosen by hand stays chosen."""
        self._minute = -1
        if not self.is_steered:
            self._controls = Controls(airport=self._start)

    def controls_at(self, minute: int) -> Controls:
        """What is chosen at a minute, all steps up to it taken."""
        if not self.is_steered:
            for at, keys in self._script:
                if self._minute < at <= minute:
                    self._press(keys, at)
        self._minute = max(self._minute, minute)
        return self._controls

    def press(self, keys: str, minute: int) -> Controls:
        """Keys pressed by hand: from now on the script rests, until the key `SCRIPT` lets it go on from what is chosen."""
        self.controls_at(minute)
        for key in keys:
            self.is_steered = key != SCRIPT
            self._press(key, minute)
        return self._controls

    def _press(self, keys: str, minute: int) -> None:
        for key in keys:
            self._controls = pressed(key, self._flights, Moment(minute, self._controls))
