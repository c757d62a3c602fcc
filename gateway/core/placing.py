"""Records and their places while a change is being made: who stands where, and the scores that say so."""

from collections.abc import Iterable, Sequence

import msgspec

from gateway.core.errors import invalid
from gateway.core.model import SLICE, Record, Snapshot
from gateway.core.order import GAP, Order, Place, Steps, longest_rising, spread

RENUMBER = 32
"""Places on either side that share their gaps when one is used up; doubled until there is room."""


def scores_for(known: Sequence[int | None]) -> Steps[list[int]]:
    """Rising scores for a sequence of records; as many known ones as possible stay (None: a new record)."""
    places = [(n, score) for n, score in enumerate(known) if score is not None]
    stay = longest_rising([score for _, score in places])
    yield
    fixed: dict[int, int] = {places[i][0]: places[i][1] for i in stay}
    scores: list[int] = []
    low: int | None = None
    run = 0
    for n in range(len(known) + 1):
        if n < len(known) and n not in fixed:
            run += 1
            continue
        high = fixed.get(n)
        if run:
            between = spread(low, high, run)
            if between is None:
                return [GAP * i for i in range(len(known))]
            scores += between
            run = 0
        if high is not None:
            scores.append(high)
            low = high
        if n % SLICE == SLICE - 1:
            yield
    return scores


class Records:
    """The records and their order while a change is being applied."""

    def __init__(self, old: Snapshot) -> None:
        self.old = old
        self.work: dict[str, Record | None] = {}
        self.order = old.order
        self._appended: list[Place] = []
        self._last = old.order.last()

    def get(self, id: str) -> Record | None:
        return self.work[id] if id in self.work else self.old.records.get(id)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.get(id) is not None

    def remove(self, ids: Iterable[str]) -> Steps[None]:
        scores = []
        for n, id in enumerate(ids):
            record = self.get(id)
            assert record is not None
            scores.append(record.score)
            self.work[id] = None
            if n % SLICE == SLICE - 1:
                yield
        self.order = yield from self.order.edited(scores, ())

    def append(self, record: Record) -> None:
        self._last = 0 if self._last is None else self._last + GAP
        self.work[record.id] = msgspec.structs.replace(record, score=self._last)
        self._appended.append(Place(self._last, record.id, record.region))

    def settle(self) -> Steps[Order]:
        """Bring what was appended into the order."""
        if self._appended:
            self.order = yield from self.order.edited((), self._appended)
            self._appended = []
        return self.order

    def replace(self, record: Record, before: Record) -> Steps[None]:
        """A known record with new content, in its place."""
        self.work[record.id] = record = msgspec.structs.replace(record, score=before.score)
        if record.region != before.region:
            yield from self.settle()
            place = Place(record.score, record.id, record.region)
            self.order = yield from self.order.edited([record.score], [place])

    def place(self, record: Record, known: bool, anchor: str, behind: bool, at: str) -> Steps[None]:
        """Put a record right before or behind another one."""
        yield from self.settle()
        if known:
            yield from self.remove([record.id])
        target = self.get(anchor)
        if target is None:
            raise invalid(at, "the id of another record of the snapshot")
        score = self._between(target.score, behind)
        if score is None:
            yield from self._renumber(target.score)
            target = self.get(anchor)
            assert target is not None
            score = self._between(target.score, behind)
            assert score is not None, "renumbering makes room"
        self.work[record.id] = msgspec.structs.replace(record, score=score)
        self.order = yield from self.order.edited((), [Place(score, record.id, record.region)])
        self._last = self.order.last()

    def _between(self, score: int, behind: bool) -> int | None:
        low, high = (score, self.order.behind(score)) if behind else (self.order.before(score), score)
        room = spread(low, high, 1)
        return None if room is None else room[0]

    def _renumber(self, score: int) -> Steps[None]:
        reach = RENUMBER
        while True:
            places = self.order.around(score, 1 + reach // 512)
            middle = next(n for n, place in enumerate(places) if place.score == score)
            places = places[max(0, middle - reach) : middle + reach]
            low, high = self.order.before(places[0].score), self.order.behind(places[-1].score)
            scores = spread(low, high, len(places))
            if scores is not None and (low is None or high is None or scores[0] - low > 1):
                break
            reach *= 2
        yield from self._rescore(places, scores)

    def _rescore(self, places: Sequence[Place], scores: Sequence[int]) -> Steps[None]:
        moved = [(place, score) for place, score in zip(places, scores, strict=True) if place.score != score]
        for n, (place, score) in enumerate(moved):
            record = self.get(place.id)
            assert record is not None
            self.work[place.id] = msgspec.structs.replace(record, score=score)
            if n % SLICE == SLICE - 1:
                yield
        put = [Place(score, place.id, place.region) for place, score in moved]
        self.order = yield from self.order.edited([place.score for place, _ in moved], put)
        self._last = self.order.last()

    def arrange(self, ids: Sequence[str], at: str) -> Steps[None]:
        """The whole order anew: every record once."""
        yield from self.settle()
        records = [self.get(id) for id in ids]
        yield
        if len(ids) != self.order.size or len(set(ids)) != len(ids) or None in records:
            raise invalid(at, "every record of the snapshot once")
        places = [Place(record.score, record.id, record.region) for record in records if record is not None]
        yield
        scores = yield from scores_for([place.score for place in places])
        yield from self._rescore(places, scores)

    def change(self) -> Steps[tuple[dict[str, Record | None], dict[str, int]]]:
        """Records whose content changed, and scores of those that only moved."""
        records: dict[str, Record | None] = {}
        scores: dict[str, int] = {}
        for n, (id, record) in enumerate(self.work.items()):
            if n % SLICE == SLICE - 1:
                yield
            before = self.old.records.get(id)
            if record is None or before is None:
                if record is not before:
                    records[id] = record
            elif not record.same(before):
                records[id] = record
            elif record.score != before.score:
                scores[id] = record.score
        return records, scores
