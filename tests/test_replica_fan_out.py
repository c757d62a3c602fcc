"""The fan-out of one session: what is held back, merged, invalidated, pushed, and to whom; time is passed in."""

import json
from typing import Any

import msgspec

from gateway.core.limits import Limits
from gateway.core.model import Snapshot
from gateway.metrics import Metrics
from gateway.replica import Replica, Resume, Step
from tests.core.build import (
    LIMITS,
    TARGET,
    Json,
    applied,
    board,
    capability,
    change_of_patch,
    published,
    viewed,
)
from tests.service import RecordingPeer

PACE_S = 1.0
ONE = {"records": {"upsert": [{"id": "F-0", "fields": {"dest": "MCO"}}]}}
TWO = {"records": {"upsert": [{"id": "F-1", "fields": {"dest": "MCO"}}]}}


class Stage:
    """A replica, and the steps it went."""

    def __init__(self, first: Json, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.replica = Replica("s", limits, TARGET, Metrics())
        self.replica.start(published(first, limits), b"", b"")

    def watch(self, *, pace_s: float = 0, push: bool = False, **asked: Any) -> RecordingPeer:
        peer = RecordingPeer()
        self.replica.watch(peer, viewed(limits=self.limits, **asked), push, pace_s, 0.0)
        return peer

    def go(self, change: Json, now: float, cause: str = "") -> None:
        made = change_of_patch(self.replica.current, change, self.limits)
        self.replica.advance(Step(applied(self.replica.current, made), (cause,), made.touched()), now)


def told(peer: RecordingPeer) -> list[tuple[str, Any, Any]]:
    """Of each frame: the method, its position, and base or kinds of reasons."""
    return [
        (
            frame["method"],
            frame["params"]["revision"],
            frame["params"].get("base", [reason["kind"] for reason in frame["params"].get("reasons", [])]),
        )
        for frame in peer.frames
    ]


def test_without_pace_every_revision_is_told_at_once() -> None:
    stage = Stage(board())
    peer = stage.watch()
    stage.go(ONE, 0.0)
    stage.go({}, 0.0, "data")
    assert told(peer) == [("after", 2, 1), ("after", 3, 2)]
    assert peer.frames[1]["params"]["cause"] == {"kind": "data"}


def test_a_paced_view_is_told_one_merged_after_without_cause() -> None:
    stage = Stage(board())
    peer = stage.watch(pace_s=PACE_S)
    stage.go(ONE, 0.1, "data")
    stage.go(TWO, 0.2, "data")
    assert told(peer) == [] and stage.replica.next_due == PACE_S
    stage.replica.due(PACE_S)
    assert told(peer) == [("after", 3, 1)] and "cause" not in peer.frames[0]["params"]
    assert [record["id"] for record in peer.frames[0]["params"]["records"]] == ["F-0", "F-1"]
    stage.go(ONE, PACE_S + 0.1, "data")
    stage.replica.due(2 * PACE_S)
    assert told(peer)[1:] == [("after", 4, 3)] and peer.frames[1]["params"]["cause"] == {"kind": "data"}


def test_a_required_reason_is_told_at_once_and_drops_what_was_held_back() -> None:
    stage = Stage(board())
    peer = stage.watch(pace_s=PACE_S)
    stage.go(ONE, 0.1)
    stage.go({"page": {"route": "/"}}, 0.2)
    stage.replica.due(PACE_S)
    assert told(peer) == [("invalidated", 3, ["navigation"])]


def removing(first: int, count: int) -> Json:
    return {"records": {"remove": [f"F-{n}" for n in range(first, first + count)]}}


def test_moves_that_are_too_many_together_are_a_pagination() -> None:
    stage = Stage(board(100))
    paced, plain = stage.watch(pace_s=PACE_S), stage.watch(limit=8)
    stage.go(removing(0, 20), 0.1)
    stage.go(removing(20, 20), 0.2)
    stage.replica.due(PACE_S)
    assert told(paced) == [("invalidated", 3, ["pagination"])]
    assert told(plain) == [("after", 2, 1), ("after", 3, 2)]


def blocked(first: int, count: int) -> Json:
    return {
        "unavailable": {
            "set": [{"capability": f"c{n}", "record": "F-0", "reason": "r"} for n in range(first, first + count)]
        }
    }


def test_entries_that_are_broad_together_are_availability_even_past_the_steps_that_are_kept() -> None:
    for between in (0, 100):
        stage = Stage(board(3, capabilities=[capability(f"c{n}") for n in range(20)]))
        peer = stage.watch(pace_s=PACE_S)
        stage.go(blocked(0, 5), 0.1)
        for n in range(between):
            stage.go({"state": {"set": {"n": n}}}, 0.1)
        stage.go(blocked(5, 5), 0.2)
        stage.replica.due(PACE_S)
        assert told(peer) == [("invalidated", between + 3, ["availability"])]


def test_what_came_and_went_in_between_is_merged_to_nothing() -> None:
    stage = Stage(board(3, capabilities=[capability(f"c{n}") for n in range(20)]))
    peer = stage.watch(pace_s=PACE_S)
    stage.go(blocked(0, 5), 0.1)
    stage.go({"unavailable": {"unset": [{"capability": f"c{n}", "record": "F-0"} for n in range(5)]}}, 0.1)
    stage.go(blocked(5, 5), 0.2)
    stage.replica.due(PACE_S)
    assert told(peer) == [("after", 4, 1)]


def steps(first: Snapshot, changes: list[Json], causes: list[str]) -> list[Step]:
    made = [Step(first, (), frozenset())]
    for change, cause in zip(changes, causes, strict=True):
        difference = change_of_patch(made[-1].snapshot, change)
        made.append(Step(applied(made[-1].snapshot, difference), (cause,), difference.touched()))
    return made


def resumed(first: Snapshot, changes: list[Json], causes: list[str]) -> tuple[set[str], Any]:
    """Reasons and the merged `after` of a client that stands at the first of these steps."""
    since, *behind = steps(first, changes, causes)
    resume = Resume(since, viewed(), LIMITS, TARGET)
    for step in behind:
        resume.take(step)
    kinds, after = resume.outcome()
    return kinds, None if after is None else json.loads(after)


def test_a_resume_is_told_what_came_in_between_and_what_it_is_together() -> None:
    first = published(board(100, page={"route": "/a"}))
    there_and_back = [{"page": {"route": "/b"}}, {"page": {"route": "/a"}}]
    assert resumed(first, there_and_back, ["", "sort"]) == ({"navigation", "sort"}, None)
    assert resumed(first, [removing(0, 20), removing(20, 20)], ["", ""]) == ({"pagination"}, None)
    assert resumed(first, [], []) == (set(), None)
    kinds, merged = resumed(first, [ONE, TWO], ["data", "data"])
    assert not kinds and (merged["base"], merged["revision"]) == (1, 3) and "cause" not in merged
    kinds, one = resumed(first, [ONE], ["data"])
    assert not kinds and one["cause"] == {"kind": "data"}


def test_the_publisher_is_told_at_the_position_the_view_was_told() -> None:
    stage = Stage(board())
    paced, plain = stage.watch(pace_s=PACE_S), stage.watch()
    stage.go(ONE, 0.1)
    stage.replica.tell_publisher("unknown")
    stage.replica.tell_publisher("unknown")
    stage.replica.due(PACE_S)
    assert told(paced) == [("invalidated", 1, ["publisher"]), ("after", 2, 1)]
    assert told(plain) == [("after", 2, 1), ("invalidated", 2, ["publisher"])]
    assert plain.frames[1]["params"]["reasons"] == [{"kind": "publisher", "required": False, "publisher": "unknown"}]


def test_who_could_not_be_told_the_publisher_is_behind() -> None:
    stage = Stage(board())
    peer = stage.watch()
    peer.room = False
    stage.replica.tell_publisher("unknown")
    peer.room = True
    stage.go(ONE, 0.1)
    stage.replica.drained(peer, 0.2)
    assert told(peer) == [("invalidated", 2, ["behind"])]


def test_reasons_are_told_once_per_kind_until_the_view_is_described_again() -> None:
    stage = Stage(board())
    peer = stage.watch()
    for cause in ("sort", "sort", "filter", "sort", "data"):
        stage.go({}, 0.1, cause)
    assert told(peer) == [("invalidated", 2, ["sort"]), ("invalidated", 4, ["filter"])]
    stage.replica.watch(peer, viewed(), False, 0.0, 0.2)
    stage.go({}, 0.3, "sort")
    assert told(peer)[2:] == [("invalidated", 7, ["sort"])]


def test_push_describes_right_behind_and_makes_the_view_live() -> None:
    stage = Stage(board())
    peer = stage.watch(push=True)
    stage.go({}, 1.0, "sort")
    stage.go({}, 1.01, "sort")
    stage.go(ONE, 1.02)
    assert told(peer) == [("invalidated", 2, ["sort"]), ("described", 2, []), ("invalidated", 3, ["sort"])]
    due = stage.replica.next_due
    assert due == 1.0 + stage.limits.push_min_ms / 1000
    stage.replica.due(due)
    stage.go(TWO, 2.0)
    assert told(peer)[3:] == [("described", 4, []), ("after", 5, 4)]


def test_a_peer_that_is_behind_hears_it_once_with_all_it_missed() -> None:
    stage = Stage(board())
    peer = stage.watch()
    peer.room = False
    stage.go(ONE, 0.1)
    stage.go({}, 0.2, "sort")
    stage.go(TWO, 0.3)
    peer.room = True
    stage.replica.drained(peer, 0.4)
    stage.replica.drained(peer, 0.5)
    assert told(peer) == [("invalidated", 4, ["sort", "behind"])]


def test_an_after_that_would_be_too_large_is_told_beside_the_other_reasons() -> None:
    stage = Stage(board(), msgspec.structs.replace(LIMITS, after_bytes=200))
    peer = stage.watch()
    since = stage.replica.steps[-1]
    stage.go({"page": {"route": "/" + "x" * 300, "title": "T" * 300}}, 0.0)
    assert told(peer) == [("invalidated", 2, ["navigation", "insufficient"])]
    resume = Resume(since, viewed(limits=stage.limits), stage.limits, TARGET)
    resume.take(stage.replica.steps[-1])
    assert resume.outcome() == ({"navigation", "insufficient"}, None)
