"""What an `after` tells, member for member (protocol §9), and when there is none (§6.3, §7)."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import observe, view
from gateway.core.limits import Limits
from gateway.core.model import Snapshot, differing
from gateway.core.order import finish
from gateway.core.view import View
from tests.core.build import (
    LIMITS,
    Json,
    applied,
    board,
    capability,
    change_of_patch,
    changed,
    projected,
    published,
    viewed,
)
from tests.oracle import session as oracle_session
from tests.oracle import strategies
from tests.oracle.plain import canonical
from tests.oracle.replica import apply_after, without_publisher


def reasons(
    before: Snapshot, after: Snapshot, seen: View | None = None, cause: str = "", limits: Limits = LIMITS
) -> list[str]:
    """Required reasons of a step."""
    seen = seen or viewed(limits=limits)
    touched = finish(differing(before, after))
    one, other = projected(before, seen, limits), projected(after, seen, limits)
    return observe.ranked(observe.reasons(one, other, cause, touched, limits))


def after_of(
    before: Snapshot, after: Snapshot, seen: View | None = None, cause: str = "", limits: Limits = LIMITS
) -> Json | None:
    """The params of `after`, checked to lead from one describe to the other; None: insufficient."""
    seen = seen or viewed(limits=limits)
    one, other = projected(before, seen, limits), projected(after, seen, limits)
    params = observe.after_params(one, other, seen, cause, limits)
    if params is None:
        return None
    told: Json = json.loads(params)
    base, due = json.loads(view.describe(one, seen, "none")), json.loads(view.describe(other, seen, "none"))
    # The replica of the oracle knows no stub: there, nothing but the position can be told.
    led = apply_after(base, told) if "records" in base["context"] else base | {n: told[n] for n in ("revision", "asOf")}
    assert canonical(without_publisher(led)) == canonical(without_publisher(due))
    return told


HEAD = ["session", "view", "epoch", "base", "revision", "asOf"]
FIRST: Json = {
    "page": {"title": "A", "route": "/"},
    "regions": [
        {"id": "board", "title": "B", "fields": ["x", "y", {"name": "note", "maxChars": 3}]},
        {"id": "o", "title": "O"},
    ],
    "records": [{"id": str(n), "region": "board", "fields": {"x": n, "y": "y"}} for n in range(5)],
    "state": {"a": 1, "b": [2]},
    "capabilities": [capability("c"), capability("d")],
    "unavailable": [{"capability": "c", "record": "0", "reason": "r"}, {"capability": "d", "reason": "r"}],
    "feedback": [{"id": "f", "level": "notice", "message": "m"}],
    "recordsTotal": 10,
    "scope": {"tenant": "t"},
}


def up(id: str, **members: Any) -> Json:
    return {"records": {"upsert": [{"id": id} | members]}}


MEMBERS: list[tuple[str, Json, Json]] = [
    ("nothing", {}, {}),
    ("a title", {"page": {"title": "B", "route": "/"}}, {"page": {"title": "B", "route": "/"}}),
    ("a field", up("1", fields={"x": 9}), {"records": [{"id": "1", "fields": {"x": 9}}]}),
    (
        "a field to null, one unset",
        up("1", fields={"x": None}, unset=["y"]),
        {"records": [{"id": "1", "fields": {"x": None}, "unset": ["y"]}]},
    ),
    (
        "a text that is cut",
        up("1", fields={"note": "abcd"}),
        {"records": [{"id": "1", "fields": {"note": "abc"}, "truncated": ["note"]}]},
    ),
    (
        "a region",
        up("1", region="o", unset=["x", "y"]),
        {"records": [{"id": "1", "region": "o", "unset": ["x", "y"]}]},
    ),
    (
        "one that enters in the middle of the window",
        up("n", region="board", before="1"),
        {
            "records": [{"id": "n", "entered": True, "at": 1, "region": "board", "fields": {}}],
            "left": ["2"],
            "recordIds": {"removed": [], "added": [{"id": "n", "at": 1}]},
            "recordWindow": {"offset": 0, "limit": 3, "returned": 3, "total": 6, "next": 3},
            "agent_surface": ...,
            "totals": {"recordIdsTotal": 6},
        },
    ),
    (
        "one behind the window",
        up("n", region="board"),
        {
            "recordIds": {"removed": [], "added": [{"id": "n", "at": 5}]},
            "recordWindow": {"offset": 0, "limit": 3, "returned": 3, "total": 6, "next": 3},
            "agent_surface": ...,
            "totals": {"recordIdsTotal": 6},
        },
    ),
    ("a field of one behind the window", up("4", fields={"x": 9}), {}),
    (
        "one that moves into the window",
        up("4", before="0"),
        {
            "records": [{"id": "4", "entered": True, "at": 0, "region": "board", "fields": {"x": 4, "y": "y"}}],
            "left": ["2"],
            "recordIds": {"removed": ["4"], "added": [{"id": "4", "at": 0}]},
        },
    ),
    (
        "a state member",
        {"state": {"set": {"a": None, "c": {}}, "unset": ["b"]}},
        {"state": {"set": {"a": None, "c": {}}, "unset": ["b"]}},
    ),
    ("a state member that is set to what it is", {"state": {"set": {"a": 1.0}}}, {}),
    ("feedback", {"feedback": []}, {"feedback": [], "totals": {"feedbackTotal": 0}}),
    (
        "unavailable",
        {"unavailable": {"set": [{"capability": "d", "record": "4", "reason": "r"}], "unset": [{"capability": "d"}]}},
        {"unavailable": [{"capability": "c", "record": "0", "reason": "r"}]},
    ),
    (
        "unavailable behind the window",
        {"unavailable": {"set": [{"capability": "d", "record": "4", "reason": "r"}]}},
        {"totals": {"unavailableTotal": 3}},
    ),
    (
        "regions",
        {"regions": {"remove": ["o"]}},
        {"regions": ..., "totals": {"regionsTotal": 1}},
    ),
    (
        "capabilities",
        {"capabilities": {"upsert": [capability("d", title="New"), capability("e")], "remove": ["c"]}},
        {
            "unavailable": [{"capability": "d", "reason": "r"}],
            "capabilities": ...,
            "withdrawn": ["c"],
            "totals": {"unavailableTotal": 1},
        },
    ),
    ("a declared total", {"recordsTotal": 11}, {"totals": {"recordsTotal": 11}}),
    ("a declared total that says nothing", {"recordsTotal": 4}, {"totals": {"recordsTotal": 5}}),
]


@pytest.mark.parametrize(("change", "told"), [row[1:] for row in MEMBERS], ids=[row[0] for row in MEMBERS])
def test_an_after_tells_what_changed_and_nothing_else(change: Json, told: Json) -> None:
    before = published(FIRST)
    after = changed(before, change)
    found = after_of(before, after, viewed(limit=3))
    assert found is not None and reasons(before, after, viewed(limit=3)) == []
    assert list(found)[:6] == HEAD and (found["base"], found["revision"]) == (1, 2)
    rest = {name: value for name, value in found.items() if name not in HEAD}
    assert list(rest) == list(told)
    assert {name: value for name, value in rest.items() if told[name] is not ...} == {
        name: value for name, value in told.items() if value is not ...
    }


def test_missing_follows_ids_that_come_and_go() -> None:
    before = published(FIRST)
    after = changed(before, {"records": {"upsert": [{"id": "new", "region": "board"}], "remove": ["1"]}})
    found = after_of(before, after, viewed(record=["new", "1", "3"]))
    assert found is not None
    assert found["missing"] == ["1"] and found["left"] == ["1"]
    assert found["records"] == [{"id": "new", "entered": True, "at": 0, "region": "board", "fields": {}}]
    assert "recordWindow" not in found


def test_a_truncated_that_went_and_a_window_of_ids_that_went_are_null() -> None:
    limits = Limits(record_ids=4)
    before = published(FIRST)
    cut = changed(before, up("1", fields={"note": "abcd"}))
    found = after_of(cut, changed(cut, up("1", fields={"note": "abc"})))
    assert found is not None and found["records"] == [{"id": "1", "truncated": None}]
    found = after_of(before, changed(before, {"records": {"remove": ["4"]}}), viewed(limits=limits), limits=limits)
    assert found is not None and found["recordIdsWindow"] is None


def test_a_cause_is_told_where_it_was_declared() -> None:
    before = published(FIRST)
    found = after_of(before, changed(before, {}), cause="data")
    assert found is not None and found["cause"] == {"kind": "data"} and list(found) == [*HEAD, "cause"]


MANY: Json = {
    "regions": [{"id": "board", "title": "B"}],
    "records": [{"id": str(n), "region": "board"} for n in range(60)],
    "capabilities": [capability(f"c{n:02}") for n in range(40)],
}


def moved(count: int) -> Json:
    """The last `count` records to the front: each is removed and added."""
    ids = [str(n) for n in range(60)]
    return {"records": {"order": ids[60 - count :] + ids[: 60 - count]}}


def blocked(count: int, **more: Any) -> Json:
    return {"unavailable": {"set": [{"capability": f"c{n:02}", "reason": "r"} | more for n in range(count)]}}


REASONS: list[tuple[str, Json, str]] = [
    ("a route", {"page": {"route": "/b"}}, "navigation"),
    ("params", {"page": {"route": "/", "params": {}}}, "navigation"),
    ("a page that went", {"page": {"unset": True}}, "navigation"),
    ("a title alone", {"page": {"title": "B", "route": "/"}}, ""),
    ("a modal region that comes", {"regions": {"upsert": [{"id": "m", "title": "M", "modal": True}]}}, "modal"),
    (
        "a modal region that is not active",
        {"regions": {"upsert": [{"id": "m", "title": "M", "modal": True, "active": False}]}},
        "",
    ),
    ("a region that is not modal", {"regions": {"upsert": [{"id": "m", "title": "M"}]}}, ""),
    ("scope", {"scope": {"tenant": "u"}}, "scope"),
    ("32 moves", moved(16), ""),
    ("34 moves", moved(17), "pagination"),
    ("33 additions", {"records": {"upsert": [{"id": f"n{n}", "region": "board"} for n in range(33)]}}, "pagination"),
    ("32 removals", {"records": {"remove": [str(n) for n in range(32)]}}, ""),
    ("10 of 40 capabilities blocked", blocked(10), ""),
    ("11 of 40 capabilities blocked", blocked(11), "availability"),
    ("11 of 40 for a record", blocked(11, record="59"), "availability"),
    ("10 of 40 withdrawn", {"capabilities": {"remove": [f"c{n:02}" for n in range(10)]}}, ""),
    ("11 of 40 withdrawn", {"capabilities": {"remove": [f"c{n:02}" for n in range(11)]}}, "availability"),
    ("13 beside 40 added", {"capabilities": {"upsert": [capability(f"n{n}") for n in range(13)]}}, ""),
    ("14 beside 40 added", {"capabilities": {"upsert": [capability(f"n{n}") for n in range(14)]}}, "availability"),
    (
        "40 of 40 with new titles",
        {"capabilities": {"upsert": [capability(f"c{n:02}", title="N") for n in range(40)]}},
        "",
    ),
    (
        "5 blocked, 6 withdrawn",
        blocked(5) | {"capabilities": {"remove": [f"c{n:02}" for n in range(20, 26)]}},
        "availability",
    ),
    ("a field", {"state": {"set": {"a": 1}}}, ""),
    (
        "all at once",
        {
            "page": {"unset": True},
            "scope": {},
            "regions": {"upsert": [{"id": "m", "title": "M", "modal": True}]},
            **moved(17),
            **blocked(11),
        },
        "navigation modal pagination scope availability",
    ),
]


@pytest.mark.parametrize(("change", "kinds"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS])
def test_required_reasons(change: Json, kinds: str) -> None:
    before = published(MANY | {"page": {"title": "A", "route": "/"}, "scope": {"tenant": "t"}})
    after = changed(before, change)
    assert reasons(before, after) == kinds.split()
    there_and_back = reasons(after, before)
    assert there_and_back == kinds.split()


def test_a_page_that_comes_is_a_navigation() -> None:
    assert reasons(published(MANY), published(MANY | {"page": {}})) == ["navigation"]


def test_entries_of_records_that_cannot_be_seen_are_no_availability() -> None:
    first = MANY | {"regions": [*MANY["regions"], {"id": "shut", "title": "S", "active": False}]}
    before = changed(published(first), {"records": {"upsert": [{"id": "s", "region": "shut"}]}})
    after = changed(before, blocked(20, record="s"))
    assert reasons(before, after) == []
    assert reasons(after, changed(after, {"regions": {"upsert": [{"id": "shut", "active": True}]}})) == ["availability"]
    assert reasons(before, changed(before, blocked(20, record="3")), viewed(("shut",))) == []


def test_seven_capabilities_are_never_broad() -> None:
    before = published(MANY | {"capabilities": MANY["capabilities"][:7]})
    assert reasons(before, changed(before, blocked(7))) == []
    before = published(MANY | {"capabilities": MANY["capabilities"][:8]})
    assert reasons(before, changed(before, blocked(8))) == ["availability"]


@pytest.mark.parametrize("cause", ["navigation", "modal", "filter", "sort", "pagination", "scope", "availability"])
def test_a_required_cause_is_a_reason_whatever_changed(cause: str) -> None:
    before = published(FIRST)
    assert reasons(before, changed(before, {}), cause=cause) == [cause]
    assert [kind for kind in ("action", "data", "") if reasons(before, changed(before, {}), cause=kind)] == []


def test_steps_that_are_nothing_each_can_be_a_reason_together() -> None:
    first = published(MANY)
    second = changed(first, {"records": {"remove": [str(n) for n in range(20)]}})
    third = changed(second, {"records": {"remove": [str(n) for n in range(20, 40)]}})
    assert reasons(first, second) == reasons(second, third) == []
    assert reasons(first, third) == ["pagination"]
    second = changed(first, blocked(6))
    third = changed(second, blocked(12))
    assert reasons(first, second) == reasons(second, third) == []
    assert reasons(first, third) == ["availability"]


def test_an_after_larger_than_after_bytes_is_insufficient() -> None:
    before = published(board(3))
    after = changed(before, {"state": {"set": {"a": "x" * 500}}})
    told = observe.after_params(projected(before), projected(after), viewed(), "", LIMITS)
    assert told is not None
    exact = Limits(after_bytes=len(told))
    assert after_of(before, after, viewed(limits=exact), limits=exact) is not None
    short = Limits(after_bytes=len(told) - 1)
    assert after_of(before, after, viewed(limits=short), limits=short) is None


CUT = Limits(response_bytes=2500)


def wide(count: int, **more: Any) -> Json:
    made = board(count, **more)
    for record in made["records"]:
        record["fields"]["dest"] = "x" * 150
    return made


@pytest.mark.parametrize("full", [False, True], ids=["shortened", "cut"])
def test_a_view_that_was_shortened_is_told_its_position_or_insufficient(full: bool) -> None:
    feedback = [{"id": f"f{n}", "level": "notice", "message": "m" * 200} for n in range(12 if full else 0)]
    seen = viewed(limits=CUT, limit=20)
    before = published(wide(20, feedback=feedback, capabilities=[capability("c")]), CUT)
    assert projected(before, seen, CUT).shortened and (projected(before, seen, CUT).cut is not None) is full
    unseen = after_of(before, changed(before, up("F-19", fields={"dest": "y" * 150})), seen, limits=CUT)
    assert unseen is not None and list(unseen) == HEAD
    assert after_of(before, changed(before, up("F-0", fields={"dest": "y" * 150})), seen, limits=CUT) is None
    assert after_of(before, changed(before, {"records": {"remove": ["F-19"]}}), seen, limits=CUT) is None
    assert after_of(before, changed(before, {"capabilities": {"remove": ["c"]}}), seen, limits=CUT) is None


def test_a_view_that_becomes_or_ceases_to_be_shortened_is_insufficient() -> None:
    seen = viewed(limits=CUT, limit=20)
    few, many = published(wide(3), CUT), published(wide(20), CUT)
    for before, after in ((few, many), (many, few)):
        assert after_of(before, after, seen, limits=CUT) is None


def test_a_capability_behind_an_emptied_list_is_counted() -> None:
    limits = Limits(response_bytes=1800)
    capabilities = [capability(f"c{n}", description="d" * 300) for n in range(5)]
    seen = viewed(limits=limits)
    before = published(board(3, capabilities=capabilities), limits)
    after = changed(before, {"capabilities": {"remove": ["c0"]}})
    one, other = projected(before, seen, limits), projected(after, seen, limits)
    assert one.pieces() == other.pieces() and one.pieces()[0] == b"[]"
    assert after_of(before, after, seen, limits=limits) is None


@given(st.data(), st.integers(900, 6000), st.integers(200, 3000))
def test_whatever_the_bounds_an_after_leads_on_or_there_is_a_reason(
    data: st.DataObject, response_bytes: int, after_bytes: int
) -> None:
    limits = msgspec.structs.replace(strategies.SMALL, response_bytes=response_bytes, after_bytes=after_bytes)
    first = data.draw(strategies.snapshots(limits, st.integers(0, 40)))
    state = oracle_session.publish(first, limits)
    snapshot = published(first, limits)
    asked = data.draw(strategies.views_for(state, limits))
    seen = viewed(limits=limits, **asked)
    for _ in range(3):
        change = data.draw(strategies.change_for(state, limits))
        state = oracle_session.patch(state, change, limits)
        new = applied(snapshot, change_of_patch(snapshot, change, limits))
        one, other = projected(snapshot, seen, limits), projected(new, seen, limits)
        if reasons(snapshot, new, seen, limits=limits):
            snapshot = new
            continue
        told = after_of(snapshot, new, seen, limits=limits)
        if one.shortened or other.shortened:
            same = one.pieces() == other.pieces() and one.totals() == other.totals()
            assert (told is not None) is same
        elif told is None:
            roomy = msgspec.structs.replace(limits, after_bytes=2**24)
            whole = observe.after_params(one, other, seen, "", roomy)
            assert whole is not None and len(whole) > after_bytes
        snapshot = new


def test_reasons_and_the_publisher_as_told() -> None:
    seen, projection = viewed(), projected(published(board(1)))
    kinds = ["gap", "navigation", "behind"]
    told = json.loads(observe.invalidated_params(seen, projection, kinds))
    assert list(told) == ["session", "view", "epoch", "revision", "reasons"]
    assert told["reasons"] == [{"kind": kind, "required": True} for kind in ("navigation", "behind", "gap")]
    told = json.loads(observe.invalidated_params(seen, projection, (), "unknown"))
    assert told["reasons"] == [{"kind": "publisher", "required": False, "publisher": "unknown"}]
