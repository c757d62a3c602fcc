"""The board's publisher: replays the day against a client, minute for minute.

It knows neither sockets nor clocks: the client, the sleep and the keys are handed in. It does not reconnect either:
whatever is not an answer about the session's position goes up to the caller, who connects again and calls `replay` from
the minute last told.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import anyio

from gateway.core.errors import GatewayError
from gateway.demo.board import SESSION, Moment, changes, first_minute, last_minute, snapshot
from gateway.demo.flights import Flight, load_flights
from gateway.demo.script import Desk
from gateway.demo.steer import QUIT

SPEED_DEFAULT: Final = 60.0  # one simulated minute each real second
SPEED_MIN: Final = 1.0  # real time
SPEED_MAX: Final = 86_400.0  # the day in a second
START_MINUTE: Final = 325  # 05:25: the first flights are leaving, the first wave boards five minutes later
PATCHES_PER_SECOND: Final = 20  # above it minutes are merged: a watcher sees no more, the store works less
REPUBLISH: Final = frozenset({"conflict", "unknown_session"})
"""Somebody else wrote, the epoch changed, or the session is gone: the board says knowingly again how it stands."""


class Quit(Exception):
    """The key that ends the board was pressed."""


class Client(Protocol):
    """What the replay needs of a connection."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of one request of protocol §4; a refusal is a `GatewayError`."""
        ...


class Keys(Protocol):
    """Where keys come from: `steer.Keyboard`."""

    async def within(self, seconds: float) -> str:
        """The keys that come within that many real seconds, as soon as one does; `""` when none came."""
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


async def publish_board(client: Client, flights: Sequence[Flight], moment: Moment, cause: str) -> dict[str, Any]:
    """Publishes the whole board over whatever is there; answers the position the next patch builds on."""
    params = {
        "session": SESSION,
        "snapshot": snapshot(flights, moment),
        "base": "any",
        "cause": {"kind": cause},
    }
    return position(await client.request("publish", params))


async def patch_board(
    client: Client, flights: Sequence[Flight], before: Moment, after: Moment, base: dict[str, Any]
) -> dict[str, Any]:
    """Publishes what changed since `before`, which `base` is the position of; the whole board where that is no longer so."""
    changed = changes(flights, before, after)
    if changed is None:
        return base
    change, cause = changed
    params = {"session": SESSION, "change": change, "base": base, "cause": {"kind": cause}}
    try:
        return position(await client.request("patch", params))
    except GatewayError as error:
        if error.kind not in REPUBLISH:
            raise
        return await publish_board(client, flights, after, cause)


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
    desk: Desk | None = None,
    keys: Keys | None = None,
    clock: Callable[[], float] = anyio.current_time,
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
        desk: who chooses what is shown; the script by default. Handed in, it keeps what was chosen over calls.
        keys: waited for instead of `sleep`; what they choose is published at once, within the minute.
        clock: real seconds, for what is left of a minute after a key.

    Raises:
        Quit: the key `q` came.
        ValueError: `speed` or `start_minute` out of range; nothing was published.
        GatewayError: any refusal but `conflict` and `unknown_session`, `store_unavailable` among them.
        Exception: whatever the client raises for a lost connection.
    """
    step, wait = pace(speed)
    flights = load_flights()
    last = last_minute(flights)
    if not 0 <= start_minute <= last:
        raise ValueError(f"start_minute must be between 0 and {last}")
    desk = desk or Desk(flights)
    at = Moment(start_minute, desk.controls_at(start_minute))
    base = await publish_board(client, flights, at, "data")
    while True:
        if told:
            told(at.minute)
        if keys is None:
            await sleep(wait)
        else:
            end = clock() + wait
            while pressed := await keys.within(max(0.0, end - clock())):
                if QUIT in pressed:
                    raise Quit
                chosen = Moment(at.minute, desk.press(pressed, at.minute))
                base = await patch_board(client, flights, at, chosen, base)
                at = chosen
        if at.minute == last:
            desk.begin_day()
            first = first_minute(flights)
            at = Moment(first, desk.controls_at(first))
            base = await publish_board(client, flights, at, "navigation")
        else:
            minute = min(at.minute + step, last)
            after = Moment(minute, desk.controls_at(minute))
            base = await patch_board(client, flights, at, after, base)
            at = after
