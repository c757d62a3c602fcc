"""Joining what was buffered with what was read: no gap, no repeat, no step back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import model
from gateway.core.history import Gap, merge, walk_back
from gateway.core.model import Change
from gateway.core.order import finish
from gateway.core.position import Position
from tests.core.build import EPOCH, applied, board, change_of_patch, described, published


class Event(msgspec.Struct, frozen=True):
    position: Position


def events(*revisions: int, epoch: str = "e") -> list[Event]:
    return [Event(Position(epoch, revision)) for revision in revisions]


@given(st.lists(st.integers(1, 12), max_size=20), st.integers(0, 12))
def test_what_comes_behind_is_gapless_or_a_gap(revisions: list[int], at: int) -> None:
    behind = sorted({revision for revision in revisions if revision > at})
    if behind == list(range(at + 1, at + 1 + len(behind))):
        assert [e.position.revision for e in merge(Position("e", at), events(*revisions))] == behind
    else:
        with pytest.raises(Gap):
            merge(Position("e", at), events(*revisions))


def test_another_epoch_is_a_gap_wherever_it_stands() -> None:
    for other in (1, 5, 6):
        with pytest.raises(Gap):
            merge(Position("e", 5), events(6) + events(other, epoch="f"))


def test_nothing_buffered_is_nothing_to_join() -> None:
    assert merge(Position("e", 5), []) == []


def test_the_way_back_leads_through_every_snapshot() -> None:
    snapshots = [published(board(5))]
    undos: list[Change] = []
    for change in (
        {"records": {"upsert": [{"id": "F-1", "fields": {"dest": "x"}}]}},
        {"records": {"remove": ["F-2"], "order": ["F-4", "F-3", "F-1", "F-0"]}},
        {"records": {"upsert": [{"id": "X", "region": "board", "before": "F-4"}]}, "state": {"set": {"a": 1}}},
        {"page": {"title": "T"}, "regions": {"upsert": [{"id": "n", "title": "N"}]}},
    ):
        made = change_of_patch(snapshots[-1], change)
        undos.append(model.inverse(snapshots[-1], made))
        snapshots.append(applied(snapshots[-1], made))
    back = finish(walk_back(snapshots[-1], undos))
    assert [snapshot.position for snapshot in back] == [Position(EPOCH, n) for n in range(1, 6)]
    for found, was in zip(back, snapshots, strict=True):
        told, expected = described(found), described(was)
        assert told | {"asOf": ""} == expected | {"asOf": ""}
