"""The whole day through the real core: what a watcher with the default view is told of it."""

from collections import Counter
from itertools import pairwise

import pytest

from gateway.core import observe
from gateway.core.limits import Limits
from gateway.demo import board
from gateway.demo.board import Moment
from gateway.demo.flights import load_flights
from gateway.demo.script import Desk
from tests.core import build

FLIGHTS = load_flights()
PUBLISHED = {"navigation", "modal", "filter", "sort", "pagination", "scope", "availability"}
"""Every kind of §6.3 a publisher causes but `insufficient`: no honest board changes 64 KiB of one view in a minute."""


@pytest.mark.parametrize("start", board.AIRPORTS)
def test_most_changes_are_afters_and_every_kind_of_event_comes(start: board.Airport) -> None:
    desk = Desk(FLIGHTS, start)
    first, last = board.first_minute(FLIGHTS), board.last_minute(FLIGHTS)
    moments = [Moment(minute, desk.controls_at(minute)) for minute in range(first, last + 1)]
    seen = build.viewed()
    snapshot = build.published(board.snapshot(FLIGHTS, moments[0]))
    projection = build.projected(snapshot, seen)
    kinds: Counter[str] = Counter()
    afters, largest = 0, 0
    for before, after in pairwise(moments):
        changed = board.changes(FLIGHTS, before, after)
        assert changed is not None
        change, cause = changed
        core_change = build.change_of_patch(snapshot, change)
        snapshot = build.applied(snapshot, core_change)
        next_projection = build.projected(snapshot, seen, last=projection)
        reasons = observe.reasons(projection, next_projection, cause, set(core_change.records), build.LIMITS)
        assert bool(reasons) == (cause != "data"), (before, cause, reasons)
        kinds.update(reasons)
        if not reasons:
            told = observe.after_params(projection, next_projection, seen, cause, build.LIMITS)
            assert told is not None
            afters, largest = afters + 1, max(largest, len(told))
        projection = next_projection
    assert kinds.keys() == PUBLISHED
    assert afters >= 0.9 * (len(moments) - 1)
    assert largest < Limits().after_bytes // 16
    assert build.described(snapshot) == build.described(build.published(board.snapshot(FLIGHTS, moments[-1]))) | {
        name: build.described(snapshot)[name] for name in ("revision", "asOf")
    }
