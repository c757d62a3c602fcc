"""The oracle's reasons against protocol §6.3, worked out by hand."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.limits import Limits

from .plain import Object
from .reasons import ORDER, required_reasons, smallest_moves
from .session import patch, publish

BASE: Object = {
    "page": {"title": "T", "route": "/", "params": {"a": 1}},
    "regions": [
        {"id": "g", "title": "G", "fields": ["a"]},
        {"id": "dialog", "title": "D", "modal": True, "active": False},
        {"id": "above", "title": "A", "active": False},
        {"id": "inner", "title": "I", "modal": True, "parent": "above"},
    ],
    "records": [{"id": f"r{number}", "region": "g"} for number in range(60)] + [{"id": "off", "region": "dialog"}],
    "capabilities": [
        {"id": f"c{number:02}", "title": "", "description": "", "appliesTo": "record", "effect": "read"}
        for number in range(8)
    ],
    "scope": {"tenant": "t"},
}


def reasons(change: Object, scope: set[str] | None = None, view: Object | None = None, **more: Any) -> list[str]:
    before = publish(more.pop("base", BASE))
    limits = Limits(**more.pop("limits", {}))
    return required_reasons(before, patch(before, change), more.pop("cause", None), view or {}, scope, limits)


def test_causes() -> None:
    for kind in ORDER:
        assert reasons({}, cause={"kind": kind}) == [kind]
    assert reasons({}, cause={"kind": "action", "invocation": "i"}) == reasons({}, cause={"kind": "data"}) == []
    assert reasons({"scope": {}, "page": {"unset": True}}, cause={"kind": "sort"}) == ["navigation", "sort", "scope"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ({"title": "U", "route": "/", "params": {"a": 1.0}}, []),
        ({"route": "/", "params": {"a": 1}}, []),
        ({"title": "T", "route": "/x", "params": {"a": 1}}, ["navigation"]),
        ({"title": "T", "route": "/", "params": {"a": True}}, ["navigation"]),
        ({"title": "T", "route": "/"}, ["navigation"]),
        ({"unset": True}, ["navigation"]),
    ],
)
def test_navigation(page: Object, expected: list[str]) -> None:
    assert reasons({"page": page}) == expected


def test_a_page_that_comes_is_navigation() -> None:
    assert reasons({"page": {"title": "T"}}, base={}) == ["navigation"]
    assert reasons({"page": {"unset": True}}, base={}) == []


@pytest.mark.parametrize(
    ("part", "scope", "expected"),
    [
        ({"id": "dialog", "active": True}, None, ["modal"]),
        ({"id": "dialog", "active": True}, {"g"}, []),
        ({"id": "dialog", "active": True}, {"dialog"}, ["modal"]),
        ({"id": "above", "active": True}, {"inner"}, ["modal"]),
        ({"id": "dialog", "title": "E"}, None, []),
        ({"id": "dialog", "modal": False}, None, []),
        ({"id": "g", "modal": True}, None, ["modal"]),
    ],
)
def test_modal(part: Object, scope: set[str] | None, expected: list[str]) -> None:
    assert reasons({"regions": {"upsert": [part]}}, scope) == expected


def test_scope() -> None:
    assert reasons({"scope": {"tenant": "u"}}, {"g"}) == ["scope"]
    assert reasons({"scope": {"tenant": "t"}}) == []
    assert reasons({"scope": {}}, base={}) == ["scope"]


def test_pagination() -> None:
    removed = [f"r{number}" for number in range(33)]
    assert reasons({"records": {"remove": removed}}) == ["pagination"]
    assert reasons({"records": {"remove": removed[:32]}}) == []
    assert reasons({"records": {"remove": removed}}, {"dialog"}) == []
    assert reasons({"records": {"remove": removed}}, limits={"after_moves": 33}) == []
    order = [f"r{number}" for number in range(60)] + ["off"]
    rotated = order[16:] + order[:16]
    assert reasons({"records": {"order": rotated}}) == []
    assert reasons({"records": {"order": order[17:] + order[:17]}}) == ["pagination"]
    # 20 ids are told of 60: one that goes before the window moves it on by one, seen as one removed and one added.
    told = {"record_ids": 20, "after_moves": 1}
    assert reasons({"records": {"remove": ["r0"]}}, view={"offset": 30, "limit": 1}, limits=told) == ["pagination"]
    assert reasons({"records": {"remove": ["r59"]}}, view={"offset": 30, "limit": 1}, limits=told) == []


def capabilities(count: int) -> Object:
    return BASE | {"capabilities": [BASE["capabilities"][0] | {"id": f"c{number:02}"} for number in range(count)]}


def gone(first: int, last: int, **entry: Any) -> Object:
    return {"unavailable": {"set": [{"capability": f"c{n:02}", "reason": "", **entry} for n in range(first, last)]}}


def test_availability_wants_eight_and_more_than_a_quarter() -> None:
    assert reasons(gone(0, 8)) == ["availability"]
    assert reasons(gone(0, 7)) == []
    assert reasons(gone(0, 8), base=capabilities(31)) == ["availability"]
    assert reasons(gone(0, 8), base=capabilities(32)) == []
    assert reasons({"capabilities": {"remove": [f"c{number:02}" for number in range(8)]}}) == ["availability"]
    added = {"capabilities": {"upsert": capabilities(16)["capabilities"][8:]}}
    assert reasons(added) == ["availability"]
    assert reasons({"capabilities": {"upsert": capabilities(8)["capabilities"]}}) == []


def test_availability_counts_capabilities_and_pairs() -> None:
    several = [{"capability": "c00", "record": f"r{number}", "reason": ""} for number in range(20)]
    assert reasons({"unavailable": {"set": several}}) == []
    assert reasons(gone(0, 8, record="r59")) == ["availability"], "outside the window, and seen"
    assert reasons(gone(0, 8, record="off")) == [], "a record of an inactive region"
    assert reasons(gone(0, 8, record="r0"), {"dialog"}) == []
    again = [{"capability": f"c{number:02}", "reason": "old"} for number in range(8)]
    assert reasons(gone(0, 8), base=BASE | {"unavailable": again}) == [], "a new reason for the same pair"
    unset = {"unavailable": {"unset": [{"capability": entry["capability"]} for entry in again]}}
    assert reasons(unset, base=BASE | {"unavailable": again}) == ["availability"]


@given(st.permutations(range(7)), st.sets(st.integers(0, 6)), st.sets(st.integers(0, 6)))
def test_smallest_moves_are_what_trying_all_subsets_finds(order: list[int], old: set[int], new: set[int]) -> None:
    before = [str(number) for number in range(7) if number in old]
    after = [str(number) for number in order if number in new]
    both = set(before) & set(after)
    staying = max(
        size
        for size in range(len(both) + 1)
        for kept in combinations(sorted(both), size)
        if [x for x in before if x in kept] == [x for x in after if x in kept]
    )
    assert smallest_moves(before, after) == (len(before) - staying) + (len(after) - staying)
