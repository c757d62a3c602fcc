"""The publisher's order of a session's records, as a persistent sequence sorted by score.

A record's place is an integer score; ascending scores are the order. Old and new order share every block no edit
touched, so an edit of one record copies one block and one row of pointers, whatever the size. Each block counts its
records by region: a window over the records of some regions is found without walking the records before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work in slices: each `yield` is a place where the ring may give way to the loop."""

GAP: Final = 2**20
"""Distance of neighbouring scores when places are given out freely: room for 20 halvings."""
BLOCK: Final = 256
"""Records a block is cut to; it is split above twice that."""
SORTED: Final = 4_096
"""Places put to their blocks between two places where sliced work may give way."""
SUMS_KEPT: Final = 8
"""Prefix sums kept per order, one for each set of regions asked for; above that all are dropped."""


class Place(msgspec.Struct, frozen=True, gc=False):
    """One record of the order. Not tracked by the garbage collector, which would walk 100 000 of them at a time."""

    score: int
    id: str
    region: str


_score = attrgetter("score")


class _Block:
    __slots__ = ("counts", "places")

    def __init__(self, places: tuple[Place, ...]) -> None:
        self.places = places
        counts: dict[str, int] = {}
        for place in places:
            counts[place.region] = counts.get(place.region, 0) + 1
        self.counts = counts


def finish(steps: Steps[T]) -> T:
    """Run sliced work at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


class Order:
    """Immutable; `edited` gives a new one."""

    __slots__ = ("_blocks", "_lasts", "_sums", "size")

    def __init__(self, blocks: Sequence[_Block] = ()) -> None:
        self._blocks = tuple(blocks)
        self._lasts = [block.places[-1].score for block in self._blocks]
        self._sums: dict[frozenset[str], list[int]] = {}
        self.size = sum(len(block.places) for block in self._blocks)

    def edited(self, drop: Iterable[int], put: Iterable[Place]) -> Steps["Order"]:
        """The order without the places at the scores `drop`, then with the places `put` (unused scores)."""
        edits: dict[int, tuple[set[int], list[Place]]] = {}
        last = len(self._blocks) - 1
        for n, score in enumerate(drop):
            edits.setdefault(min(bisect_left(self._lasts, score), last), (set(), []))[0].add(score)
            if n % SORTED == SORTED - 1:
                yield
        for n, place in enumerate(put):
            edits.setdefault(max(0, min(bisect_left(self._lasts, place.score), last)), (set(), []))[1].append(place)
            if n % SORTED == SORTED - 1:
                yield
        yield
        blocks: list[_Block] = []
        done = 0
        for index in sorted(edits):
            blocks += self._blocks[done:index]
            done = index + 1
            gone, come = edits[index]
            old = self._blocks[index].places if self._blocks else ()
            places = sorted([place for place in old if place.score not in gone] + come, key=_score)
            if (
                blocks and len(blocks[-1].places) + len(places) <= BLOCK
            ):  # or removals would leave ever more tiny blocks
                places = [*blocks.pop().places, *places]
            blocks += _blocks(places)
            yield
        blocks += self._blocks[done:]
        return Order(blocks)

    def count(self, regions: frozenset[str]) -> int:
        """How many records lie in `regions`."""
        sums = self._prefix(regions)
        return sums[-1] if sums else 0

    def window(self, regions: frozenset[str], offset: int, limit: int) -> list[str]:
        """Ids of at most `limit` records of `regions`, from the `offset`th of them on."""
        sums = self._prefix(regions)
        ids: list[str] = []
        index = bisect_right(sums, offset)
        skip = offset - (sums[index - 1] if index else 0)
        while index < len(self._blocks) and len(ids) < limit:
            if sums[index] > (sums[index - 1] if index else 0):
                inside = [place.id for place in self._blocks[index].places if place.region in regions]
                ids += inside[skip : skip + limit - len(ids)]
                skip = 0
            index += 1
        return ids

    def before(self, score: int) -> int | None:
        """The greatest score below `score`."""
        index = bisect_left(self._lasts, score)
        if index < len(self._blocks):
            places = self._blocks[index].places
            inside = bisect_left(places, score, key=_score)
            if inside:
                return places[inside - 1].score
        return self._lasts[index - 1] if index else None

    def behind(self, score: int) -> int | None:
        """The smallest score above `score`."""
        index = bisect_right(self._lasts, score)
        if index == len(self._blocks):
            return None
        places = self._blocks[index].places
        return places[bisect_right(places, score, key=_score)].score

    def neighbours(self, score: int) -> tuple[str | None, str | None]:
        """Ids of the records right before and right behind the one at `score`."""
        low, high = self.before(score), self.behind(score)
        return None if low is None else self._at(low).id, None if high is None else self._at(high).id

    def _at(self, score: int) -> Place:
        places = self._blocks[bisect_left(self._lasts, score)].places
        return places[bisect_left(places, score, key=_score)]

    def around(self, score: int, reach: int) -> list[Place]:
        """The places of the `2 * reach` blocks around `score`, ascending."""
        index = bisect_left(self._lasts, score)
        blocks = self._blocks[max(0, index - reach) : index + reach]
        return [place for block in blocks for place in block.places]

    def last(self) -> int | None:
        """The greatest score."""
        return self._lasts[-1] if self._lasts else None

    def __iter__(self) -> Iterator[Place]:
        for block in self._blocks:
            yield from block.places

    def _prefix(self, regions: frozenset[str]) -> list[int]:
        """Up to and with each block, how many of its records lie in `regions`."""
        sums = self._sums.get(regions)
        if sums is None:
            if len(self._sums) >= SUMS_KEPT:
                self._sums.clear()
            if len(regions) == 1:
                (only,) = regions
                sums = list(accumulate(block.counts.get(only, 0) for block in self._blocks))
            else:
                sums = list(
                    accumulate(sum(n for r, n in block.counts.items() if r in regions) for block in self._blocks)
                )
            self._sums[regions] = sums
        return sums


def _blocks(places: Sequence[Place]) -> list[_Block]:
    if not places:
        return []
    if len(places) <= 2 * BLOCK:
        return [_Block(tuple(places))]
    return [_Block(tuple(places[i : i + BLOCK])) for i in range(0, len(places), BLOCK)]


def ordered(places: list[Place]) -> Steps[Order]:
    """An order of places in any sequence; sorts in place."""
    places.sort(key=_score)
    yield
    blocks: list[_Block] = []
    for start in range(0, len(places), BLOCK):
        blocks.append(_Block(tuple(places[start : start + BLOCK])))
        if start % (16 * BLOCK) == 0:
            yield
    return Order(blocks)


def longest_rising(values: Sequence[int]) -> list[int]:
    """Indices of a longest strictly rising subsequence of distinct `values`."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, value in enumerate(values):
        at = bisect_left(tails, value)
        previous.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[at] = value
            ends[at] = index
    chain: list[int] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(index)
        index = previous[index]
    return chain[::-1]


def spread(low: int | None, high: int | None, count: int) -> list[int] | None:
    """`count` rising scores strictly between `low` and `high` (None: no bound); None where there is no room."""
    if low is None and high is None:
        low = -GAP
    if high is None:
        assert low is not None
        return [low + GAP * (i + 1) for i in range(count)]
    if low is None:
        return [high - GAP * (count - i) for i in range(count)]
    step = (high - low) // (count + 1)
    if step < 1:
        return None
    return [low + step * (i + 1) for i in range(count)]
