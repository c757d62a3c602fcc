"""The departures board as a client of a gateway: connects, replays the day, and comes back by itself."""

import random
from collections.abc import Awaitable, Callable

import anyio

from gateway.client import BackOff, ConnectionLost, connect
from gateway.core.errors import GatewayError
from gateway.demo.replay import START_MINUTE, replay


async def publish_departures(
    url: str,
    *,
    speed: float,
    told: Callable[[Exception, float], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    clock: Callable[[], float] = anyio.current_time,
    chance: Callable[[], float] = random.random,
) -> None:
    """Publish the board to the gateway at `url` until cancelled; after a break it goes on at the minute last accepted.

    Args:
        speed: seconds of the day per second.
        told: called with the error and the seconds until the next try.

    Raises:
        ConnectionLost: coming back would not help.
        GatewayError: a refusal that will last.
    """
    minute = START_MINUTE
    back_off = BackOff(chance, clock)

    def accepted(accepted_minute: int) -> None:
        nonlocal minute
        minute = accepted_minute
        back_off.succeeded()

    while True:
        try:
            async with connect(url, returns=False) as client:
                await replay(client, sleep=sleep, speed=speed, start_minute=minute, told=accepted)
        except (ConnectionLost, GatewayError) as error:
            if not may_pass(error):
                raise
            wait_s = back_off.wait_s(error.data.get("retryAfterMs", 0) / 1000 if isinstance(error, GatewayError) else 0)
            if told:
                told(error, wait_s)
            await sleep(wait_s)


def may_pass(error: ConnectionLost | GatewayError) -> bool:
    """Whether another try may succeed."""
    if isinstance(error, ConnectionLost):
        return not error.final
    return error.data.get("errorClass") == "transient"
