"""The smallest change between two snapshots: records that move, and what goes by itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo.difference import difference
from tests.core import build
from tests.demo.naive import applied, canonical

REGIONS = [{"id": "board", "title": "Board", "fields": ["n"]}]
HOLD = build.capability("hold")


def board(*ids: str, **more: Any) -> dict[str, Any]:
    records = [{"id": id, "region": "board", "fields": {"n": 1}} for id in ids]
    whole = {"page": {"title": "T"}, "regions": REGIONS, "records": records, "state": {}, "feedback": []}
    return whole | {"unavailable": [], "capabilities": [HOLD], "recordsTotal": 9, "scope": {}} | more


ORDERS = st.lists(st.sampled_from("abcdefghij"), unique=True)


@given(ORDERS, ORDERS)
def test_records_come_go_and_move_as_few_as_possible(old: list[str], new: list[str]) -> None:
    """Judged by the naive reading and by the core; a record that stays in its place is not named."""
    change = difference(board(*old), board(*new))
    assert canonical(applied(board(*old), change)) == canonical(board(*new))
    before = build.published(board(*old))
    assert build.ids(build.changed(before, change) if change else before) == new
    moved = {upsert["id"] for upsert in change.get("records", {}).get("upsert", [])} & set(old)
    assert len(moved) == len(set(old) & set(new)) - longest([id for id in old if id in new], new)


def longest(old: list[str], new: list[str]) -> int:
    """Length of the longest common subsequence, from its definition."""
    best = {(0, 0): 0}
    for i in range(len(old) + 1):
        for j in range(len(new) + 1):
            same = i and j and old[i - 1] == new[j - 1]
            best[i, j] = max(
                best.get((i - 1, j), 0), best.get((i, j - 1), 0), best.get((i - 1, j - 1), 0) + 1 if same else 0
            )
    return best[len(old), len(new)]


def test_with_a_record_go_its_entries() -> None:
    entry = {"capability": "hold", "record": "a", "reason": "Departed"}
    told = {"id": "f", "level": "notice", "message": "m", "record": "a"}
    old = board("a", "b", unavailable=[entry], feedback=[told])
    assert difference(old, board("b")) == {"records": {"remove": ["a"]}}
    assert difference(old, board("a", "b")) == {
        "feedback": [],
        "unavailable": {"unset": [{"capability": "hold", "record": "a"}]},
    }
    assert difference(board("a", "b"), old) == {"feedback": [told], "unavailable": {"set": [entry]}}


def test_members_are_set_and_unset_and_one_is_not_true() -> None:
    old, new = board(state={"a": 1, "b": 1, "c": None}), board(state={"a": True, "c": None, "d": 0})
    assert difference(old, new) == {"state": {"set": {"a": True, "d": 0}, "unset": ["b"]}}


def test_whole_members_are_named_where_they_differ() -> None:
    whole = {"page": {"title": "U"}, "recordsTotal": 8, "scope": {"shift": "late"}}
    assert difference(board(), board(**whole)) == whole
    regions = [REGIONS[0] | {"title": "Gates"}]
    assert difference(board(), board(regions=regions)) == {"regions": {"upsert": [{"id": "board", "title": "Gates"}]}}


@pytest.mark.parametrize(
    "more",
    [
        {"capabilities": []},
        {"regions": []},
        {"regions": [REGIONS[0] | {"fields": ["m"]}]},
        {"regions": [REGIONS[0] | {"active": False}]},
        {"regions": [REGIONS[0] | {"id": "other"}]},
    ],
    ids=["capabilities", "a region less", "fields", "a member more", "another region"],
)
def test_what_the_board_never_changes_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"same all day|longer|shorter"):
        difference(board(), board(**more))
