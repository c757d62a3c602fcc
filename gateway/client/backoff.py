"""When to come back: full jitter, so that the watchers of a gateway that went do not return as one herd."""

from collections.abc import Callable
from typing import Final

BACK_OFF_MIN_S: Final = 0.5
BACK_OFF_MAX_S: Final = 20.0
STABLE_S: Final = 10.0  # what held so long begins its back-off anew
ASKED_MAX_S: Final = 300.0  # of the wait, and of the jitter, that a `goodbye` or a refusal may ask for


class BackOff:
    """Full jitter: the n-th wait is anything up to 500 ms · 2ⁿ, at most 20 s."""

    def __init__(self, chance: Callable[[], float], clock: Callable[[], float]) -> None:
        self._chance = chance
        self._clock = clock
        self._failures = 0
        self._well_since: float | None = None

    def succeeded(self) -> None:
        """It works; once it has for `STABLE_S` the waits begin anew."""
        if self._well_since is None:
            self._well_since = self._clock()

    def wait_s(self, at_least_s: float = 0.0, jitter_s: float = 0.0) -> float:
        """Seconds to wait after a failure: what the peer asked for, and on top of it up to its jitter or ours.

        Ours comes on top, not instead: a thousand clients that were told the same time must not return at that time.
        """
        if self._well_since is not None and self._clock() - self._well_since >= STABLE_S:
            self._failures = 0
        self._well_since = None
        ceiling = min(BACK_OFF_MAX_S, BACK_OFF_MIN_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return min(at_least_s, ASKED_MAX_S) + self._chance() * max(ceiling, min(jitter_s, ASKED_MAX_S))
