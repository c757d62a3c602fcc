"""Runs the core's sliced work without holding the loop."""

import asyncio
from typing import Final

from anyio.lowlevel import checkpoint

from gateway.core.order import Steps, T

SLICE_S: Final = 0.02
"""Seconds of work between two turns of the loop: far below what a ping or another peer would notice."""


async def sliced(steps: Steps[T]) -> T:
    """Run `steps` to their end, giving way to the loop every `SLICE_S` seconds."""
    clock = asyncio.get_running_loop().time
    start = clock()
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if clock() - start > SLICE_S:
            await checkpoint()
            start = clock()
