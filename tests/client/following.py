"""A checker of what a subscription hands out: each item leads on from the one before, or something said that it does not."""

from collections.abc import Callable

import anyio

from gateway.client import After, Described, Ended, Event, Invalidated, Position, Subscription
from tests.oracle.replica import apply_after, without_publisher

DEADLINE_S = 25.0  # what must come has come by then


class Follower:
    """Runs a subscription and holds every item against the law of §9 and the client's own promise.

    `count`: items by method. `gaps`: describes that replaced a replica without a required reason or an end before: none.
    """

    def __init__(self, view: Subscription) -> None:
        self.view = view
        self.at: Position | None = None
        self.count = {"described": 0, "after": 0, "invalidated": 0, "ended": 0, "goodbye": 0}
        self.reasons: list[str] = []
        self._may_describe = True
        self._replica: dict[str, object] = {}
        self._news = anyio.Event()

    async def run(self) -> None:
        """Take every item, for good."""
        async for event in self.view:
            self.take(event)
            self._news.set()

    def take(self, event: Event) -> None:
        """Judge one item."""
        self.count[event.method] += 1
        assert self.view.position == self.at, "the position moved before the item was taken"
        match event:
            case Described():
                assert self._may_describe, "a describe that nothing announced"
                assert self.at is None or event.position.epoch != self.at.epoch or event.position >= self.at, (
                    "a step back"
                )
                self._replica, self.at, self._may_describe = event.params, event.position, False
            case After():
                assert not self._may_describe, "an after of a view that is not live"
                assert event.base == self.at, "the positions do not chain"
                assert event.position > event.base, "an item twice, or a step back"
                self._replica, self.at = apply_after(self._replica, event.params), event.position
            case Invalidated():
                self.reasons += [reason.kind for reason in event.reasons]
                if event.required:
                    self.at, self._may_describe = None, True
                if event.publisher:
                    self._replica = self._replica | {"publisher": event.publisher}
            case Ended():
                self.at, self._replica, self._may_describe = None, {}, True
        now = self.view.now
        if not self._may_describe:
            # `==` is quick and takes 1 for true: what ends a test compares canonical forms.
            assert now is not None and without_publisher(now.raw) == without_publisher(self._replica)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once it holds; looked at with every item."""
        with anyio.fail_after(DEADLINE_S):
            while not holds():
                self._news = anyio.Event()
                await self._news.wait()

    async def until_at(self, position: Position) -> None:
        """Return once the view stands there."""
        await self.until(lambda: self.at == position)
