"""The replica: fan-out, pace, push, watchers that are too slow. Time is passed in; there is no loop and no store."""

from itertools import pairwise
from typing import Any

import msgspec

from gateway.core import ingest
from gateway.core.change import difference, patched
from gateway.core.limits import Limits
from gateway.core.model import EMPTY, apply
from gateway.core.order import finish
from gateway.core.params import ChangeIn, SnapshotIn, Subscribe
from gateway.core.position import Position
from gateway.core.view import describe, view_of
from gateway.metrics import Metrics
from gateway.replica import Replica, Resume, Step
from tests.oracle.replica import without_publisher
from tests.service import TARGET, Follower, RecordingPeer, Told, board, flight, status


class Board:
    """A replica of one session that is changed by hand; `now` is its clock, seconds."""

    def __init__(self, count: int = 5, **limits: int) -> None:
        self.limits = Limits(**limits)
        self.replica = Replica("s", self.limits, TARGET, Metrics())
        content = finish(ingest.content(msgspec.convert(board(count), SnapshotIn), self.limits, ingest.Dropped()))
        snapshot = finish(apply(EMPTY, finish(difference(EMPTY, content)), Position("e", 1), 0))
        self.replica.start(snapshot, b"", b"")
        self.now = 100.0

    def watch(self, peer: RecordingPeer, *, push: bool = False, pace: float = 0.0, **window: Any) -> str:
        """The id of the view; the reply is in the peer's log."""
        view = view_of(Subscribe(session="s", **window), None, self.limits)
        projection = self.replica.watch(peer, view, push, pace, self.now)
        told: Told = msgspec.json.decode(describe(projection, view, "none"))
        place = {"view": view.id(), "epoch": "e", "revision": told["revision"]}
        peer.replied("subscribe", place | {"recovered": False, "describe": told})
        return view.id()

    def fresh(self, view: str) -> Told:
        live = self.replica.views[view]
        told: Told = msgspec.json.decode(describe(self.replica.project(live.view), live.view, "none"))
        return told

    def change(self, change: Told, cause: str = "", *, gap: bool = False) -> None:
        old = self.replica.current
        made = finish(patched(old, msgspec.convert(change, ChangeIn), self.limits, ingest.Dropped()))
        position = Position("e", old.position.revision + 1)
        snapshot = finish(apply(old, made, position, 1_000 * position.revision))
        self.replica.advance(Step(snapshot, (cause,), made.touched()), self.now, gap=gap)

    def later(self, seconds: float) -> None:
        """Time goes on; what is due in between is sent when it is due."""
        end = self.now + seconds
        while self.replica.next_due is not None and self.replica.next_due <= end:
            self.now = self.replica.next_due
            self.replica.due(self.now)
        self.now = end


def reasons(peer: RecordingPeer) -> list[list[str]]:
    return [[reason["kind"] for reason in told["reasons"]] for told in peer.told("invalidated")]


def spans(peer: RecordingPeer) -> list[tuple[int, int]]:
    return [(after["base"], after["revision"]) for after in peer.told("after")]


def modal(active: bool) -> Told:
    if active:
        return {"regions": {"upsert": [{"id": "ask", "title": "Sure?", "modal": True}]}}
    return {"regions": {"remove": ["ask"]}}


# Pace


def test_pace_merges_what_comes_in_its_time_into_one_after_without_a_cause() -> None:
    boards, peer, plain = Board(), RecordingPeer(), RecordingPeer()
    view = boards.watch(peer, pace=0.25)
    boards.watch(plain)
    for n in range(4):
        boards.change(status("F-1", f"{n}"), "data")
        boards.later(0.05)
    assert spans(peer) == [] and spans(plain) == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert all(after["cause"] == {"kind": "data"} for after in plain.told("after"))
    boards.later(0.06)
    assert spans(peer) == [(1, 5)] and "cause" not in peer.told("after")[0]
    boards.change(status("F-1", "alone"), "action")
    assert spans(peer) == [(1, 5)]
    boards.later(0.25)
    assert spans(peer) == [(1, 5), (5, 6)] and peer.told("after")[1]["cause"] == {"kind": "action"}
    boards.later(10.0)
    assert boards.replica.next_due is None and len(peer.frames) == 2
    boards.change(status("F-1", "after a pause"))
    assert spans(peer)[2] == (6, 7)  # nothing came for long: told at once
    assert without_publisher(Follower(peer, view).follow()) == without_publisher(boards.fresh(view))


def test_a_required_reason_is_told_at_once_and_drops_what_was_held_back() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer, pace=5.0)
    boards.change(status("F-1", "held back"))
    boards.change(status("F-2", "x"), "filter")
    assert reasons(peer) == [["filter"]] and peer.told()[0]["revision"] == 3
    boards.later(60.0)
    boards.change(status("F-1", "stale by now"))
    boards.later(60.0)
    assert len(peer.frames) == 1
    assert boards.watch(peer, pace=5.0) == view
    boards.change(status("F-1", "live again"))
    boards.later(5.0)
    assert spans(peer) == [(4, 5)]


def test_what_came_and_went_within_the_pace_is_told() -> None:
    boards, peer = Board(), RecordingPeer()
    boards.watch(peer, pace=5.0)
    boards.change(modal(True))
    boards.change(modal(False))
    assert reasons(peer) == [["modal"]]


def test_a_merged_after_that_moves_too_much_is_pagination_though_no_revision_did() -> None:
    boards, paced, plain = Board(count=60, after_moves=10), RecordingPeer(), RecordingPeer()
    boards.watch(paced, pace=1.0)
    boards.watch(plain)
    for n in range(3):
        boards.change({"records": {"upsert": [flight(100 + 10 * n + m) for m in range(8)]}})
    boards.later(1.0)
    assert len(spans(plain)) == 3 and reasons(plain) == []
    assert spans(paced) == [] and reasons(paced) == [["pagination"]]


def test_an_after_too_large_is_insufficient() -> None:
    boards, peer = Board(after_bytes=700), RecordingPeer()
    boards.watch(peer)
    boards.change(status("F-1", "short"))
    boards.change(status("F-1", "long" * 200))
    assert spans(peer) == [(1, 2)] and reasons(peer) == [["insufficient"]]


def test_a_new_pace_replaces_the_former_one_and_a_view_is_watched_once() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer, pace=5.0)
    assert boards.watch(peer) == view and boards.watch(peer) == view
    boards.change(status("F-1", "x"))
    assert spans(peer) == [(1, 2)]
    assert boards.replica.unwatch(peer, view) and not boards.replica.unwatch(peer, view)
    boards.change(status("F-1", "y"))
    assert len(peer.frames) == 1 and boards.replica.views == {} and peer.views == {}


# Push


def test_push_describes_right_behind_and_makes_the_view_live_again() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer, push=True)
    boards.later(1.0)
    boards.change(modal(True))
    assert peer.methods() == ["invalidated", "described"]
    assert without_publisher(peer.told("described")[0]) == without_publisher(boards.fresh(view))
    boards.change(status("F-1", "x"))
    assert spans(peer) == [(2, 3)]
    assert without_publisher(Follower(peer, view).follow()) == without_publisher(boards.fresh(view))


def test_push_comes_at_most_every_50_ms_newest_state_only() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer, push=True)
    boards.later(1.0)
    times: list[float] = []
    for n in range(100):
        before = len(peer.told("described"))
        boards.change(status("F-1", f"{n}"), "filter")
        boards.later(0.007)
        times += [boards.now] * (len(peer.told("described")) - before)
    boards.later(1.0)
    described = peer.told("described")
    assert 13 <= len(times) <= 15  # 0.7 s
    assert all(after - before >= 0.042 for before, after in pairwise(times))
    assert described[-1]["revision"] == 101
    revisions = [told["revision"] for told in described]
    assert revisions == sorted(set(revisions))
    assert without_publisher(Follower(peer, view).follow()) == without_publisher(boards.fresh(view))
    boards.change(status("F-1", "live"))
    assert spans(peer) == [(101, 102)]


def test_push_keeps_the_pace_where_that_is_longer() -> None:
    boards, peer = Board(), RecordingPeer()
    boards.watch(peer, push=True, pace=1.0)
    boards.later(0.5)
    boards.change(modal(True))
    assert peer.methods() == ["invalidated"]  # the reason at once
    boards.later(0.4)
    boards.change(status("F-1", "newest"))
    boards.later(0.2)
    assert peer.methods() == ["invalidated", "described"]
    assert peer.told("described")[0]["revision"] == 3


# Too slow


def test_a_peer_without_room_gets_nothing_more_and_then_one_behind() -> None:
    boards, slow, quick = Board(), RecordingPeer(), RecordingPeer()
    view = boards.watch(slow)
    boards.watch(slow, limit=2)
    boards.watch(quick)
    slow.room = False
    boards.change(status("F-1", "1"))
    slow.room = True  # room alone is not enough: the connection says when it has drained
    boards.change(status("F-1", "2"))
    boards.change(status("F-1", "3"), "sort")
    boards.change(modal(True))
    assert slow.frames == [] and spans(quick) == [(1, 2), (2, 3)]
    boards.replica.drained(slow, boards.now)
    boards.replica.drained(slow, boards.now)
    assert reasons(slow) == [["modal", "sort", "behind"]] * 2
    assert {told["revision"] for told in slow.told()} == {5}
    boards.change(status("F-1", "silence"))
    assert len(slow.frames) == 2
    assert boards.watch(slow) == view
    boards.change(status("F-1", "live"))
    assert spans(slow) == [(6, 7)]
    assert without_publisher(Follower(slow, view).follow()) == without_publisher(boards.fresh(view))


def test_a_stale_view_is_told_new_kinds_once_each() -> None:
    boards, peer = Board(), RecordingPeer()
    boards.watch(peer)
    for cause in ("filter", "filter", "sort", "filter", "", "sort"):
        boards.change(status("F-1", f"{boards.replica.position.revision}"), cause)
    boards.change(modal(True), "filter")
    assert reasons(peer) == [["filter"], ["sort"], ["modal"]]
    boards.watch(peer)
    boards.change(status("F-1", "x"), "filter")
    assert reasons(peer)[3:] == [["filter"]]


def test_a_reason_that_found_no_room_is_told_with_behind_and_those_told_before_are_not() -> None:
    boards, peer = Board(), RecordingPeer()
    boards.watch(peer)
    boards.change(status("F-1", "1"), "filter")
    peer.room = False
    boards.change(status("F-1", "2"), "filter")
    boards.change(status("F-1", "3"), "sort")
    peer.room = True
    boards.replica.drained(peer, boards.now)
    assert reasons(peer) == [["filter"], ["sort", "behind"]]


def test_a_pushed_view_that_was_behind_is_described_when_there_is_room() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer, push=True)
    boards.later(1.0)
    peer.room = False
    boards.change(status("F-1", "1"))
    boards.later(10.0)
    boards.replica.drained(peer, boards.now)  # still none: behind it stays
    boards.later(10.0)
    assert peer.frames == []
    peer.room = True
    boards.replica.drained(peer, boards.now)
    boards.later(0.05)
    assert peer.methods() == ["invalidated", "described"] and reasons(peer) == [["behind"]]
    boards.change(status("F-1", "2"))
    assert without_publisher(Follower(peer, view).follow()) == without_publisher(boards.fresh(view))


def test_a_gap_is_told_and_nothing_before_it_is_remembered() -> None:
    boards, peer = Board(), RecordingPeer()
    boards.watch(peer)
    boards.change(status("F-1", "1"))
    boards.change(status("F-1", "2"), gap=True)
    assert reasons(peer) == [["gap"]]
    assert boards.replica.since(Position("e", 1)) is None and boards.replica.since(Position("e", 3)) is not None
    assert boards.replica.since(Position("other", 3)) is None


def test_the_publishers_state_is_told_to_live_views_and_a_full_peer_is_behind() -> None:
    boards, live, stale, full = Board(), RecordingPeer(), RecordingPeer(), RecordingPeer()
    boards.watch(stale)
    boards.change(status("F-1", "1"), "filter")
    boards.watch(live)
    boards.watch(full)
    full.room = False
    boards.replica.tell_publisher("unknown")
    boards.replica.tell_publisher("unknown")
    full.room = True
    boards.replica.drained(full, boards.now)
    assert live.told() == [
        {
            "session": "s",
            "view": next(iter(live.views)),
            "epoch": "e",
            "revision": 2,
            "reasons": [{"kind": "publisher", "required": False, "publisher": "unknown"}],
        }
    ]
    assert reasons(stale) == [["filter"]] and reasons(full) == [["behind"]]
    boards.change(status("F-1", "2"))
    assert spans(live) == [(2, 3)]  # live it was all the time


# Shared frames


def test_watchers_at_different_positions_get_afters_that_differ_in_base_alone() -> None:
    boards, paced, plain = Board(), RecordingPeer(), RecordingPeer()
    boards.watch(paced, pace=0.05)
    boards.watch(plain)
    for n in range(3):
        boards.change(status("F-1", f"{n}"))
        boards.later(0.02)
    assert spans(paced) == [(1, 4)] and spans(plain) == [(1, 2), (2, 3), (3, 4)]
    one, other = paced.told("after")[0], plain.told("after")[2]
    assert one.keys() == other.keys() and one["records"][0]["fields"] == other["records"][0]["fields"]


# Resume


def test_a_resume_is_what_a_live_watcher_was_told() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer, pace=5.0)
    live = boards.replica.views[view].view
    for n in range(3):
        boards.change(status(f"F-{n}", "x"))
    boards.later(5.0)
    steps = boards.replica.since(Position("e", 1))
    assert steps is not None
    resume = Resume(steps[0], live, boards.limits, TARGET)
    assert resume.outcome() == (set(), None)
    for step in steps[1:]:
        resume.take(step)
    kinds, after = resume.outcome()
    assert kinds == set() and after is not None
    assert msgspec.json.decode(after) == peer.told("after")[0]


def test_a_resume_tells_a_modal_that_opened_and_closed_in_between() -> None:
    boards, peer = Board(), RecordingPeer()
    view = boards.watch(peer)
    boards.change(modal(True))
    boards.change(modal(False))
    steps = boards.replica.since(Position("e", 1))
    assert steps is not None
    resume = Resume(steps[0], boards.replica.views[view].view, boards.limits, TARGET)
    for step in steps[1:]:
        resume.take(step)
    assert resume.outcome() == ({"modal"}, None)
