"""The persistent order against a plain list, and the scores that places are given."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gateway.core import order as orders
from gateway.core.order import BLOCK, GAP, Order, Place, finish, longest_rising, ordered, spread

REGIONS = ["r0", "r1", "r2"]


def place(score: int, region: int) -> Place:
    return Place(score, f"id{score}", REGIONS[region])


class OrderAgainstList(RuleBasedStateMachine):
    """Edits of an order, each also made on a sorted list; older orders stay as they were."""

    def __init__(self) -> None:
        super().__init__()
        self.order = Order()
        self.model: list[Place] = []
        self.older: list[tuple[Order, list[Place]]] = []

    def edit(self, drop: list[int], put: list[Place]) -> None:
        self.older = [*self.older[-3:], (self.order, self.model)]
        gone = set(drop)
        self.model = sorted([each for each in self.model if each.score not in gone] + put, key=lambda each: each.score)
        self.order = finish(self.order.edited(drop, put))

    @initialize(size=st.sampled_from([0, 1, 5, 700, 2000]), seed=st.randoms(use_true_random=False))
    def start(self, size: int, seed: object) -> None:
        self.model = [place(n * 10, n * n % 3) for n in range(size)]
        self.order = finish(ordered(self.model[::-1]))

    @rule(scores=st.sets(st.integers(-50, 25_000), max_size=40), region=st.integers(0, 2))
    def put(self, scores: set[int], region: int) -> None:
        taken = {each.score for each in self.model}
        self.edit([], [place(score, region) for score in scores - taken])

    @rule(start=st.integers(0, 10_000), count=st.integers(300, 1500))
    def put_many_at_one_place(self, start: int, count: int) -> None:
        taken = {each.score for each in self.model}
        self.edit([], [place(n, n % 3) for n in range(start, start + count) if n not in taken])

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        if self.model:
            chosen = data.draw(st.lists(st.sampled_from(self.model), max_size=30))
            self.edit(sorted({each.score for each in chosen}), [])

    @rule(low=st.floats(0, 1), high=st.floats(0, 1))
    def drop_a_stretch(self, low: float, high: float) -> None:
        first, last = sorted((int(low * len(self.model)), int(high * len(self.model))))
        self.edit([each.score for each in self.model[first:last]], [])

    @rule(data=st.data(), region=st.integers(0, 2))
    def replace_in_place(self, data: st.DataObject, region: int) -> None:
        if self.model:
            chosen = data.draw(st.sampled_from(self.model))
            self.edit([chosen.score], [Place(chosen.score, chosen.id, REGIONS[region])])

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        if self.model:
            chosen = data.draw(st.sampled_from(self.model))
            score = data.draw(st.integers(-100, 26_000))
            if all(each.score != score for each in self.model):
                self.edit([chosen.score], [msgspec.structs.replace(chosen, score=score)])

    @invariant()
    def is_the_list(self) -> None:
        assert list(self.order) == self.model
        assert self.order.size == len(self.model)
        assert self.order.last() == (self.model[-1].score if self.model else None)

    @invariant()
    def older_orders_stay(self) -> None:
        assert all(list(order) == model for order, model in self.older)

    @invariant()
    def is_cut_into_blocks_of_bounded_size(self) -> None:
        sizes = [len(block.places) for block in self.order._blocks]
        assert all(0 < size <= 2 * BLOCK for size in sizes)

    @rule(regions=st.sets(st.sampled_from([*REGIONS, "none"])), offset=st.integers(0, 2100), limit=st.integers(0, 300))
    def windows_are_slices(self, regions: set[str], offset: int, limit: int) -> None:
        inside = [each.id for each in self.model if each.region in regions]
        assert self.order.count(frozenset(regions)) == len(inside)
        assert self.order.window(frozenset(regions), offset, limit) == inside[offset : offset + limit]

    @rule(score=st.integers(-60, 25_100))
    def neighbours_are_found(self, score: int) -> None:
        below = [each.score for each in self.model if each.score < score]
        above = [each.score for each in self.model if each.score > score]
        assert self.order.before(score) == (below[-1] if below else None)
        assert self.order.behind(score) == (above[0] if above else None)
        names = {each.score: each.id for each in self.model}
        expected = (names[below[-1]] if below else None, names[above[0]] if above else None)
        assert self.order.neighbours(score) == expected

    @rule(data=st.data(), reach=st.integers(1, 3))
    def what_is_around_is_a_stretch(self, data: st.DataObject, reach: int) -> None:
        if self.model:
            chosen = data.draw(st.sampled_from(self.model))
            around = self.order.around(chosen.score, reach)
            first = self.model.index(around[0])
            assert chosen in around and around == self.model[first : first + len(around)]


TestOrder = OrderAgainstList.TestCase
TestOrder.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_removals_leave_no_row_of_tiny_blocks() -> None:
    order = finish(ordered([place(n, 0) for n in range(100 * BLOCK)]))
    for start in range(0, 100 * BLOCK, BLOCK):
        order = finish(order.edited(range(start, start + BLOCK - 1), []))
    assert order.size == 100
    assert len(order._blocks) < 3


def test_sums_are_kept_for_few_sets_of_regions_only() -> None:
    order = finish(ordered([place(n, n % 3) for n in range(10)]))
    for n in range(50):
        assert order.count(frozenset({"r0", f"none{n}"})) == 4
    assert len(order._sums) <= orders.SUMS_KEPT


@given(st.lists(st.integers(), unique=True, max_size=12))
def test_longest_rising_is_rising_and_as_long_as_any(values: list[int]) -> None:
    chain = longest_rising(values)
    assert chain == sorted(set(chain)) and [values[n] for n in chain] == sorted(values[n] for n in chain)
    best = [1] * len(values)
    for n, value in enumerate(values):
        best[n] = 1 + max((best[m] for m in range(n) if values[m] < value), default=0)
    assert len(chain) == max(best, default=0)


@given(st.one_of(st.none(), st.integers(-(2**50), 2**50)), st.integers(0, 2**22), st.booleans(), st.integers(1, 50))
def test_spread_gives_rising_scores_in_between_or_none(low: int | None, width: int, bounded: bool, count: int) -> None:
    high = (0 if low is None else low) + width if bounded else None
    scores = spread(low, high, count)
    if scores is None:
        assert low is not None and high is not None and high - low <= count
        return
    assert len(scores) == count and scores == sorted(set(scores))
    assert low is None or low < scores[0]
    assert high is None or scores[-1] < high


@pytest.mark.parametrize(("low", "high", "scores"), [(None, None, [0, GAP]), (0, None, [GAP, 2 * GAP]), (0, 3, [1, 2])])
def test_spread_at_the_ends(low: int | None, high: int | None, scores: list[int]) -> None:
    assert spread(low, high, 2) == scores
