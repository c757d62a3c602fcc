"""A token bucket; time is passed in."""

from math import ceil
from typing import Final

ROUNDING: Final = 1e-9
"""Of a token: who waited as long as was told is served, whatever the sums of floats say."""


class Bucket:
    """At most `per_second` on average, `burst` at once."""

    __slots__ = ("_at", "_tokens", "burst", "per_second")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self.per_second, self.burst = per_second, burst
        self._tokens, self._at = float(burst), now

    def take(self, now: float) -> int:
        """0 when one was taken, else the milliseconds until one can be."""
        self._tokens = min(self.burst, self._tokens + max(0.0, now - self._at) * self.per_second)
        self._at = now
        if self._tokens >= 1 - ROUNDING:
            self._tokens -= 1
            return 0
        return max(1, ceil((1 - self._tokens) / self.per_second * 1000))
