"""Joining a snapshot with what was buffered or kept around it, without a gap and without a repeat (design §3)."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from gateway.core.model import Change, Snapshot, apply
from gateway.core.order import Steps
from gateway.core.position import Position


class Gap(Exception):
    """A revision is missing, or it is of another epoch: nothing can be joined."""


class Positioned(Protocol):
    @property
    def position(self) -> Position: ...


P = TypeVar("P", bound=Positioned)


def merge(at: Position, buffered: Iterable[P]) -> list[P]:
    """What of `buffered` comes behind the position `at`, ascending.

    Use it between reading a snapshot at `at` and going live; apply the result in order.

    Args:
        buffered: items of one session in any order, repeated at will.

    Returns:
        Items of `at.epoch` with the revisions `at.revision + 1`, `+ 2`, … without gap or repeat.

    Raises:
        Gap: one is missing, or one is of another epoch.
    """
    behind = {item.position.revision: item for item in buffered if _is_behind(at, item.position)}
    merged = [behind[revision] for revision in sorted(behind)]
    if any(item.position.revision != at.revision + n for n, item in enumerate(merged, 1)):
        raise Gap
    return merged


def _is_behind(at: Position, position: Position) -> bool:
    if position.epoch != at.epoch:
        raise Gap
    return position.revision > at.revision


def walk_back(snapshot: Snapshot, undos: Sequence[Change]) -> Steps[list[Snapshot]]:
    """The snapshots before `snapshot`, oldest first, `snapshot` last.

    Args:
        undos: for each revision up to `snapshot`, ascending, the change that leads back from it.
    """
    snapshots = [snapshot]
    for undo in reversed(undos):
        epoch, revision = snapshots[-1].position
        back = yield from apply(snapshots[-1], undo, Position(epoch, revision - 1), snapshot.as_of)
        snapshots.append(back)
        yield
    return snapshots[::-1]
