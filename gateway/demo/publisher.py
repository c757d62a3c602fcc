"""The departures board as a client of a gateway: connects, replays the day, and comes back by itself."""

import random
from collections.abc import Awaitable, Callable

import anyio

from gateway.client import BackOff, ConnectionLost, connect
from gateway.core.errors import GatewayError
from gateway.demo.board import Airport
from gateway.demo.flights import load_flights
from gateway.demo.replay import START_MINUTE, Keys, Quit, replay
from gateway.demo.script import Desk


async def publish_departures(
    url: str,
    *,
    speed: float,
    airport: Airport = "JFK",
    keys: Keys | None = None,
    told: Callable[[Exception, float], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    clock: Callable[[], float] = anyio.current_time,
    chance: Callable[[], float] = random.random,
) -> None:
    """Publish the board to the gateway at `url` until cancelled; after a break it goes on at the minute last accepted.

    What the desk chose is kept over a break. Returns when the key `q` is pressed, else never.

    Args:
        speed: seconds of the day per second.
        airport: the one the day begins with; the script goes on to the others.
        keys: those of a terminal (`steer.keyboard`); None: the script alone chooses.
        told: called with the error and the seconds until the next try.

    Raises:
        ConnectionLost: coming back would not help.
        GatewayError: a refusal that will last.
    """
    minute = START_MINUTE
    back_off = BackOff(chance, clock)
    desk = Desk(load_flights(), airport)

    def accepted(accepted_minute: int) -> None:
        nonlocal minute
        minute = accepted_minute
        back_off.succeeded()

    while True:
        try:
            async with connect(url, returns=False) as client:
                await replay(
                    client,
                    sleep=sleep,
                    speed=speed,
                    start_minute=minute,
                    told=accepted,
                    desk=desk,
                    keys=keys,
                    clock=clock,
                )
        except Quit:
            return
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
