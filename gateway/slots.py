"""So many at once, the others in the order they came; who finds a place free does not wait for the loop."""

from collections import deque

import anyio


class Slots:
    """`count` places. `take`, then `give` back, whatever happens between."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[anyio.Event] = deque()

    async def take(self) -> None:
        """Return with a place; nobody overtakes."""
        if self._free:  # then nobody waits: a place given back goes to the first who does
            self._free -= 1
            return
        turn = anyio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.give()
            else:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1
