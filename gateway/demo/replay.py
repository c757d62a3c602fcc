"""The board's publisher: replays the day against a client, minute for minute.

It knows neither sockets nor clocks: the client and the sleep are handed in. It does not reconnect either: whatever is not
an answer about the session's position goes up to the caller, who connects again and calls `replay` from the minute
last told.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from gateway.core.errors import GatewayError
from gateway.demo.board import SESSION, changes, first_minute, last_minute, snapshot
from gateway.demo.flights import Flight, load_flights

SPEED_DEFAULT: Final = 60.0  # one simulated minute each real second
SPEED_MIN: Final = 1.0  # real time
SPEED_MAX: Final = 86_400.0  # the day in a second
START_MINUTE: Final = 325  # 05:25: the first flights are leaving, the first wave boards five minutes later
PATCHES_PER_SECOND: Final = 20  # above it minutes are merged: a watcher sees no more, the store works less
REPUBLISH: Final = frozenset({"conflict", "unknown_session"})
"""Somebody else wrote, the epoch changed, or the session is gone: the board says knowingly again how it stands."""


class Client(Protocol):
    """What the replay needs of a connection."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of one request of protocol §4; a refusal is a `GatewayError`."""
        ...


def pace(speed: float) -> tuple[int, float]:
    """Simulated seconds per real second → (simulated minutes per patch, real seconds between two patches).

    A step is the least number of minutes that keeps within `PATCHES_PER_SECOND`: one up to speed 1 200.

    Raises:
        ValueError: `speed` is no number between `SPEED_MIN` and `SPEED_MAX`.
    """
    if not SPEED_MIN <= speed <= SPEED_MAX:  # false for NaN too
        raise ValueError(f"speed must be between {SPEED_MIN:g} and {SPEED_MAX:g}")
    step = math.ceil(speed / 60 / PATCHES_PER_SECOND)
    return step, step * 60 / speed


async def publish_board(client: Client, flights: Sequence[Flight], minute: int, cause: str) -> dict[str, Any]:
    """Publishes the whole board over whatever is there; answers the position the next patch builds on."""
    params = {
        "session": SESSION,
        "snapshot": snapshot(flights, minute),
        "base": "any",
        "cause": {"kind": cause},
    }
    return position(await client.request("publish", params))


async def patch_board(
    client: Client, flights: Sequence[Flight], minute_from: int, minute_to: int, base: dict[str, Any]
) -> dict[str, Any]:
    """Publishes what changed since `minute_from`, which `base` is the position of; the whole board where that is no longer so."""
    change = changes(flights, minute_from, minute_to)
    if change is None:
        return base
    params = {"session": SESSION, "change": change, "base": base, "cause": {"kind": "data"}}
    try:
        return position(await client.request("patch", params))
    except GatewayError as error:
        if error.kind not in REPUBLISH:
            raise
        return await publish_board(client, flights, minute_to, "data")


def position(result: dict[str, Any]) -> dict[str, Any]:
    """The position in a result of `publish` or `patch`, in the form of a `base`."""
    return {"epoch": result["epoch"], "revision": result["revision"]}


async def replay(
    client: Client,
    *,
    sleep: Callable[[float], Awaitable[None]],
    speed: float = SPEED_DEFAULT,
    start_minute: int = START_MINUTE,
    told: Callable[[int], None] | None = None,
) -> None:
    """Publishes the board at `start_minute`, then a patch for each step, day after day; never returns by itself.

    After the last departure (28 minutes past midnight) the same day starts again at its first minute, with a `publish` whose
    cause is `navigation`: every view is told to describe anew. A `conflict` is answered by publishing the whole board
    over it.

    Args:
        sleep: waits that many real seconds. The time a request takes comes on top of it, so a slow store slows the day.
        speed: simulated seconds per real second, `SPEED_MIN` … `SPEED_MAX`; 60 is a simulated minute each real second.
        start_minute: minute of the day, 0 … the day's last minute.
        told: called with each minute whose state was accepted; `start_minute` of the call that goes on after an error.

    Raises:
        ValueError: `speed` or `start_minute` out of range; nothing was published.
        GatewayError: any refusal but `conflict` and `unknown_session`, `store_unavailable` among them.
        Exception: whatever the client raises for a lost connection.
    """
    step, wait = pace(speed)
    flights = load_flights()
    last = last_minute(flights)
    if not 0 <= start_minute <= last:
        raise ValueError(f"start_minute must be between 0 and {last}")
    minute = start_minute
    base = await publish_board(client, flights, minute, "data")
    while True:
        if told:
            told(minute)
        await sleep(wait)
        if minute == last:
            minute = first_minute(flights)
            base = await publish_board(client, flights, minute, "navigation")
        else:
            following = min(minute + step, last)
            base = await patch_board(client, flights, minute, following, base)
            minute = following
