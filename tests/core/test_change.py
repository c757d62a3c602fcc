"""What a message changes: each edge case of protocol §6.1, each refusal with its kind and path, and nothing half done."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.errors import GatewayError
from gateway.core.ingest import Dropped
from gateway.core.limits import Limits
from gateway.core.model import EMPTY, Snapshot
from tests.core.build import (
    Json,
    applied,
    capability,
    change_of_patch,
    change_of_publish,
    changed,
    described,
    ids,
    published,
    refusal,
    viewed,
)

REGIONS: list[Json] = [
    {"id": "board", "title": "Board", "fields": ["dest", {"name": "note", "maxChars": 4}]},
    {"id": "gates", "title": "Gates", "parent": "board", "fields": ["gate", "note"]},
    {"id": "empty", "title": "Empty"},
]
RECORDS: list[Json] = [
    {"id": "a", "region": "board", "fields": {"dest": "IAH", "note": "abcdef"}},
    {"id": "b", "region": "board", "fields": {"dest": "MCO"}},
    {"id": "c", "region": "gates", "fields": {"gate": 4}},
]
FULL: Json = {
    "page": {"title": "Departures", "route": "/departures"},
    "regions": REGIONS,
    "records": RECORDS,
    "state": {"filter": "all", "sort": None},
    "capabilities": [capability("hold"), capability("list", appliesTo="session", effect="read")],
    "unavailable": [
        {"capability": "hold", "record": "a", "reason": "Departed"},
        {"capability": "hold", "record": "b", "reason": "Late"},
        {"capability": "list", "reason": "Off"},
    ],
    "feedback": [
        {"id": "of-a", "level": "error", "message": "m", "record": "a"},
        {"id": "of-hold", "level": "notice", "message": "m", "capability": "hold"},
        {"id": "of-gates", "level": "notice", "message": "m", "region": "gates"},
        {"id": "of-all", "level": "status", "message": "m"},
    ],
    "recordsTotal": 7,
    "scope": {"tenant": "t1"},
}


def upsert(*records: Json, **more: Any) -> Json:
    return {"records": {"upsert": list(records)} | more}


def fields_of(snapshot: Snapshot, id: str) -> Any:
    return next(r["fields"] for r in described(snapshot)["context"]["records"] if r["id"] == id)


X = {"id": "x", "region": "board"}

REFUSED: list[tuple[str, Json, str, str]] = [
    ("an id twice in upsert", upsert(X, X), "invalid_params", "/change/records/upsert/1"),
    (
        "an id in upsert and remove",
        upsert({"id": "a"}, remove=["a"]),
        "invalid_params",
        "/change/records/remove/0",
    ),
    ("an id twice in remove", {"records": {"remove": ["a", "a"]}}, "invalid_params", "/change/records/remove/1"),
    ("an unknown id in remove", {"records": {"remove": ["a", "z"]}}, "invalid_params", "/change/records/remove/1"),
    ("before an unknown id", upsert(X | {"before": "z"}), "invalid_params", "/change/records/upsert/0/before"),
    ("after an unknown id", upsert(X | {"after": "z"}), "invalid_params", "/change/records/upsert/0/after"),
    ("before itself", upsert({"id": "a", "before": "a"}), "invalid_params", "/change/records/upsert/0/before"),
    ("a new one after itself", upsert(X | {"after": "x"}), "invalid_params", "/change/records/upsert/0/after"),
    (
        "after an id that is removed",
        upsert(X | {"after": "b"}, remove=["b"]),
        "invalid_params",
        "/change/records/upsert/0/after",
    ),
    (
        "after an id that comes later in the list",
        upsert({"id": "y", "region": "board", "after": "x"}, X),
        "invalid_params",
        "/change/records/upsert/0/after",
    ),
    (
        "before and after",
        upsert(X | {"before": "a", "after": "b"}),
        "invalid_params",
        "/change/records/upsert/0/before",
    ),
    ("a new one without region", upsert({"id": "x"}), "invalid_params", "/change/records/upsert/0/region"),
    ("an unknown region", upsert({"id": "x", "region": "z"}), "invalid_params", "/change/records/upsert/0/region"),
    ("to an unknown region", upsert({"id": "a", "region": "z"}), "invalid_params", "/change/records/upsert/0/region"),
    (
        "a field set and unset",
        upsert({"id": "a", "fields": {"d/st": 1}, "unset": ["d/st"]}),
        "invalid_params",
        "/change/records/upsert/0/fields/d~1st",
    ),
    (
        "a field unset twice",
        upsert({"id": "a", "unset": ["dest", "note", "dest"]}),
        "invalid_params",
        "/change/records/upsert/0/unset/2",
    ),
    (
        "a placeholder",
        upsert({"id": "a", "fields": {"dest": [{"$placeholder": 1}]}}),
        "invalid_params",
        "/change/records/upsert/0/fields/dest",
    ),
    ("an order that misses one", {"records": {"order": ["a", "b"]}}, "invalid_params", "/change/records/order"),
    ("an order with one twice", {"records": {"order": ["a", "b", "b"]}}, "invalid_params", "/change/records/order"),
    ("an order with a stranger", {"records": {"order": ["a", "b", "z"]}}, "invalid_params", "/change/records/order"),
    (
        "an order with one too much",
        {"records": {"order": ["a", "b", "c", "z"]}},
        "invalid_params",
        "/change/records/order",
    ),
    (
        "an order without the new one",
        upsert(X, order=["a", "b", "c"]),
        "invalid_params",
        "/change/records/order",
    ),
    (
        "an order with a removed one",
        {"records": {"remove": ["c"], "order": ["a", "b", "c"]}},
        "invalid_params",
        "/change/records/order",
    ),
    ("a number as id", upsert({"id": 7, "region": "board"}), "invalid_params", "/change/records/upsert/0/id"),
    (
        "a region twice",
        {"regions": {"upsert": [{"id": "n", "title": "N"}, {"id": "n", "title": "N"}]}},
        "invalid_params",
        "/change/regions/upsert/1",
    ),
    (
        "a region in upsert and remove",
        {"regions": {"upsert": [{"id": "empty", "title": "E"}], "remove": ["empty"]}},
        "invalid_params",
        "/change/regions/remove/0",
    ),
    ("an unknown region removed", {"regions": {"remove": ["z"]}}, "invalid_params", "/change/regions/remove/0"),
    ("a region with children", {"regions": {"remove": ["board"]}}, "invalid_params", "/change/regions/remove/0"),
    (
        "a region with records",
        {"regions": {"remove": ["gates"]}, "feedback": []},
        "invalid_params",
        "/change/regions/remove/0",
    ),
    (
        "a region with feedback",
        {"regions": {"remove": ["empty", "gates"]}, "records": {"remove": ["c"]}},
        "invalid_params",
        "/change/regions/remove/1",
    ),
    (
        "fields of a known region",
        {"regions": {"upsert": [{"id": "board", "fields": ["dest"]}]}},
        "invalid_params",
        "/change/regions/upsert/0/fields",
    ),
    (
        "a new region without title",
        {"regions": {"upsert": [{"id": "n"}]}},
        "invalid_params",
        "/change/regions/upsert/0/title",
    ),
    (
        "a parent that is not there",
        {"regions": {"upsert": [{"id": "n", "title": "N"}, {"id": "empty", "parent": "z"}]}},
        "invalid_params",
        "/change/regions/upsert/1/parent",
    ),
    (
        "a parent that is itself",
        {"regions": {"upsert": [{"id": "empty", "parent": "empty"}]}},
        "invalid_params",
        "/change/regions/upsert/0/parent",
    ),
    (
        "a parent in a circle",
        {"regions": {"upsert": [{"id": "n", "title": "N"}, {"id": "board", "parent": "gates"}]}},
        "invalid_params",
        "/change/regions/upsert/1/parent",
    ),
    (
        "a new region with a field twice",
        {"regions": {"upsert": [{"id": "n", "title": "N", "fields": ["f", {"name": "f"}]}]}},
        "invalid_params",
        "/change/regions/upsert/0/fields/1",
    ),
    (
        "a capability twice",
        {"capabilities": {"upsert": [capability("n"), capability("n")]}},
        "invalid_params",
        "/change/capabilities/upsert/1",
    ),
    (
        "a capability in upsert and remove",
        {"capabilities": {"upsert": [capability("hold")], "remove": ["hold"]}},
        "invalid_params",
        "/change/capabilities/remove/0",
    ),
    ("an unknown capability", {"capabilities": {"remove": ["z"]}}, "invalid_params", "/change/capabilities/remove/0"),
    (
        "arguments that are no object schema",
        {"capabilities": {"upsert": [capability("n", arguments={"type": "array"})]}},
        "invalid_params",
        "/change/capabilities/upsert/0/arguments/type",
    ),
    (
        "feedback of an unknown record",
        {"feedback": [{"id": "f", "level": "error", "message": "m", "record": "z"}]},
        "invalid_params",
        "/change/feedback/0/record",
    ),
    (
        "feedback of a removed record",
        {
            "records": {"remove": ["a"]},
            "feedback": [{"id": "f", "level": "error", "message": "m", "record": "a"}],
        },
        "invalid_params",
        "/change/feedback/0/record",
    ),
    (
        "feedback of an unknown region",
        {"feedback": [{"id": "f", "level": "error", "message": "m", "region": "z"}]},
        "invalid_params",
        "/change/feedback/0/region",
    ),
    (
        "feedback of an unknown capability",
        {"feedback": [{"id": "f", "level": "error", "message": "m", "capability": "z"}]},
        "invalid_params",
        "/change/feedback/0/capability",
    ),
    (
        "feedback twice",
        {"feedback": [{"id": "f", "level": "error", "message": "m"}] * 2},
        "invalid_params",
        "/change/feedback/1/id",
    ),
    (
        "a pair set twice",
        {"unavailable": {"set": [{"capability": "hold", "record": "c", "reason": "r"}] * 2}},
        "invalid_params",
        "/change/unavailable/set/1",
    ),
    (
        "a pair without record set twice",
        {"unavailable": {"set": [{"capability": "hold", "reason": "r"}] * 2}},
        "invalid_params",
        "/change/unavailable/set/1",
    ),
    (
        "a pair set and unset",
        {"unavailable": {"set": [{"capability": "list", "reason": "r"}], "unset": [{"capability": "list"}]}},
        "invalid_params",
        "/change/unavailable/unset/0",
    ),
    (
        "a pair unset twice",
        {"unavailable": {"unset": [{"capability": "z", "record": "z"}] * 2}},
        "invalid_params",
        "/change/unavailable/unset/1",
    ),
    (
        "unavailable of an unknown capability",
        {"unavailable": {"set": [{"capability": "z", "reason": "r"}]}},
        "invalid_params",
        "/change/unavailable/set/0/capability",
    ),
    (
        "unavailable of a removed record",
        {
            "records": {"remove": ["a"]},
            "unavailable": {"set": [{"capability": "hold", "record": "a", "reason": "r"}]},
        },
        "invalid_params",
        "/change/unavailable/set/0/record",
    ),
    (
        "a state member set and unset",
        {"state": {"set": {"a": 1}, "unset": ["a"]}},
        "invalid_params",
        "/change/state/set/a",
    ),
    ("a state member unset twice", {"state": {"unset": ["a", "a"]}}, "invalid_params", "/change/state/unset/1"),
    ("a page unset with a title", {"page": {"unset": True, "title": "T"}}, "invalid_params", "/change/page/title"),
    ("a page that is not unset", {"page": {"unset": False}}, "invalid_params", "/change/page/unset"),
    ("a scope of null", {"scope": None}, "invalid_params", "/change/scope"),
    ("a page of null", {"page": None}, "invalid_params", "/change/page"),
    ("records of the whole snapshot", {"records": [X]}, "invalid_params", "/change/records"),
    ("an unknown member", {"surface": {}}, "invalid_params", "/change/surface"),
    ("too long a title", {"page": {"title": "x" * 1025}}, "limit_exceeded", "/change/page/title"),
    (
        "too long a title of a region",
        {"regions": {"upsert": [{"id": "board", "title": "x" * 1025}]}},
        "limit_exceeded",
        "/change/regions/upsert/0/title",
    ),
    ("too large a state", {"state": {"set": {"a": "x" * 16_384}}}, "limit_exceeded", "/change/state"),
    (
        "too large a field",
        upsert({"id": "a", "fields": {"dest": ["x" * 4000] * 5}}),
        "limit_exceeded",
        "/change/records/upsert/0/fields/dest",
    ),
    (
        "too many regions",
        {"regions": {"upsert": [{"id": f"n{n}", "title": "N"} for n in range(98)]}},
        "limit_exceeded",
        "/change/regions/upsert",
    ),
    (
        "too many capabilities",
        {"capabilities": {"upsert": [capability(f"n{n}") for n in range(199)]}},
        "limit_exceeded",
        "/change/capabilities/upsert",
    ),
    (
        "capabilities that are too large together",
        {"capabilities": {"upsert": [capability(f"n{n}", description="x" * 1024) for n in range(60)]}},
        "limit_exceeded",
        "/change/capabilities/upsert",
    ),
    (
        "too much feedback",
        {"feedback": [{"id": f"f{n}", "level": "error", "message": "m"} for n in range(51)]},
        "limit_exceeded",
        "/change/feedback",
    ),
    (
        "too long a message",
        {"feedback": [{"id": "f", "level": "error", "message": "x" * 1025}]},
        "limit_exceeded",
        "/change/feedback/0/message",
    ),
    (
        "too long a reason",
        {"unavailable": {"set": [{"capability": "list", "reason": "x" * 1025}]}},
        "limit_exceeded",
        "/change/unavailable/set/0/reason",
    ),
    ("too many texts of scope", {"scope": {str(n): "t" for n in range(17)}}, "limit_exceeded", "/change/scope"),
]


@pytest.mark.parametrize(("change", "kind", "path"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_change_is_refused_whole(change: Json, kind: str, path: str) -> None:
    before = published(FULL)
    told = described(before)
    with pytest.raises(GatewayError) as caught:
        change_of_patch(before, {"state": {"set": {"filter": "new"}}} | change)
    assert refusal(caught.value) == (kind, path)
    assert described(before) == told


def test_one_record_too_many_is_refused_and_one_in_its_place_is_not() -> None:
    limits = Limits(records=3)
    before = published(FULL, limits)
    with pytest.raises(GatewayError) as caught:
        change_of_patch(before, upsert(X), limits)
    data = caught.value.wire()["data"]
    assert refusal(caught.value) == ("limit_exceeded", "/change/records/upsert")
    assert (data["limit"], data["maximum"], data["given"]) == ("records", 3, 4)
    assert ids(changed(before, upsert(X, remove=["a"]), limits)) == ["b", "c", "x"]


def test_entries_of_unavailable_are_bounded_as_the_result_has_them() -> None:
    limits = Limits(records=3)
    before = published(FULL, limits)
    more = {"unavailable": {"set": [{"capability": "hold", "record": "c", "reason": "r"}]}}
    with pytest.raises(GatewayError) as caught:
        change_of_patch(before, more, limits)
    assert refusal(caught.value) == ("limit_exceeded", "/change/unavailable/set")
    instead = {"unavailable": more["unavailable"] | {"unset": [{"capability": "list"}]}}
    assert described(changed(before, instead, limits))["context"]["unavailableTotal"] == 3
    assert changed(before, more | {"records": {"remove": ["a"]}}, limits).records["c"].unavailable == {"hold": "r"}


PLACED: list[tuple[str, Json, list[str]]] = [
    ("appended", upsert(X), ["a", "b", "c", "x"]),
    ("before", upsert(X | {"before": "a"}), ["x", "a", "b", "c"]),
    ("after", upsert(X | {"after": "a"}), ["a", "x", "b", "c"]),
    ("after the last", upsert(X | {"after": "c"}), ["a", "b", "c", "x"]),
    ("a known one before", upsert({"id": "c", "before": "a"}), ["c", "a", "b"]),
    ("a known one after", upsert({"id": "a", "after": "b"}), ["b", "a", "c"]),
    ("a known one where it is", upsert({"id": "b", "after": "a"}), ["a", "b", "c"]),
    ("a known one without place", upsert({"id": "a", "fields": {"dest": 1}}), ["a", "b", "c"]),
    (
        "after one of the same list",
        upsert(X, {"id": "y", "region": "board", "before": "x"}, {"id": "w", "region": "board"}),
        ["a", "b", "c", "y", "x", "w"],
    ),
    ("removed, then appended", upsert(X, remove=["c"]), ["a", "b", "x"]),
    ("all removed, then appended", upsert(X, remove=["a", "b", "c"]), ["x"]),
    ("upserts first, order last", upsert(X | {"before": "a"}, order=["c", "x", "b", "a"]), ["c", "x", "b", "a"]),
    ("the same order", {"records": {"order": ["a", "b", "c"]}}, ["a", "b", "c"]),
    ("another region in place", upsert({"id": "a", "region": "gates"}), ["a", "b", "c"]),
]


@pytest.mark.parametrize(("change", "order"), [row[1:] for row in PLACED], ids=[row[0] for row in PLACED])
def test_where_records_stand(change: Json, order: list[str]) -> None:
    assert ids(changed(published(FULL), change)) == order


UNCHANGED: list[Json] = [
    {},
    upsert({"id": "a", "fields": {"dest": "IAH"}}),
    upsert({"id": "a", "unset": ["gate", "nobody declared this"]}),
    upsert(remove=[]),
    upsert({"id": "b", "after": "a"}),
    upsert({"id": "a", "before": "b"}),
    upsert({"id": "a", "region": "board", "fields": {"note": "abcdxyz"}}),
    {"records": {"order": ["a", "b", "c"]}},
    {"regions": {"upsert": [{"id": "board", "active": True, "title": "Board"}]}},
    {"regions": {"upsert": [{"id": "board", "parent": None}]}},
    {"capabilities": {"upsert": [capability("hold", confirm=False, idempotent=False, region=None)]}},
    {"state": {"set": {"sort": None}, "unset": ["not there"]}},
    {"page": FULL["page"]},
    {"feedback": FULL["feedback"]},
    {"unavailable": {"unset": [{"capability": "z"}, {"capability": "hold", "record": "z"}, {"capability": "hold"}]}},
    {"unavailable": {"set": FULL["unavailable"]}},
    {"recordsTotal": 7},
    {"scope": {"tenant": "t1"}},
]


@pytest.mark.parametrize("change", UNCHANGED)
def test_what_leaves_the_snapshot_as_it_was_changes_nothing(change: Json) -> None:
    assert change_of_patch(published(FULL), change).empty()


def test_the_same_snapshot_again_changes_nothing() -> None:
    assert change_of_publish(published(FULL), FULL).empty()
    assert change_of_publish(EMPTY, {}).empty()


def test_the_order_of_regions_and_feedback_counts_and_that_of_capabilities_does_not() -> None:
    before = published(FULL)
    reordered = published(FULL | {name: FULL[name][::-1] for name in ("regions", "feedback")}, old=before)
    context = described(reordered)["context"]
    assert [region["id"] for region in context["regions"]] == ["empty", "gates", "board"]
    assert [entry["id"] for entry in context["feedback"]] == ["of-all", "of-gates", "of-hold", "of-a"]
    assert change_of_publish(before, FULL | {"capabilities": FULL["capabilities"][::-1]}).empty()
    assert change_of_publish(before, FULL | {"unavailable": FULL["unavailable"][::-1]}).empty()


def test_absent_null_and_empty_are_different_things() -> None:
    before = published(FULL)
    assert "page" not in described(changed(before, {"page": {"unset": True}}))["context"]
    assert described(changed(before, {"page": {}}))["context"]["page"] == {}
    assert described(changed(before, {"state": {"set": {"filter": None}}}))["context"]["state"]["filter"] is None
    assert described(changed(before, {"recordsTotal": None}))["context"]["recordsTotal"] == 3
    assert described(changed(before, {"recordsTotal": 0}))["context"]["recordsTotal"] == 3
    emptied = changed(before, {"scope": {}})
    assert (
        emptied.scope == {} and not change_of_publish(emptied, {k: v for k, v in FULL.items() if k != "scope"}).empty()
    )
    assert fields_of(changed(before, upsert({"id": "a", "fields": {"dest": None}})), "a") == {
        "dest": None,
        "note": "abcd",
    }
    assert fields_of(changed(before, upsert({"id": "a", "unset": ["dest"]})), "a") == {"note": "abcd"}


def test_fields_merge_and_truncated_follows_them() -> None:
    before = published(FULL)
    assert before.records["a"].truncated == ("note",)
    assert changed(before, upsert({"id": "a", "fields": {"dest": "x"}})).records["a"].truncated == ("note",)
    assert changed(before, upsert({"id": "a", "fields": {"note": "abcd"}})).records["a"].truncated == ()
    assert changed(before, upsert({"id": "a", "unset": ["note"]})).records["a"].truncated == ()


def test_a_record_that_changes_region_passes_its_fields() -> None:
    before = published(FULL)
    dropped = Dropped()
    change = change_of_patch(
        before, upsert({"id": "a", "region": "gates", "fields": {"gate": 5, "x": 1}}), dropped=dropped
    )
    after = applied(before, change)
    assert fields_of(after, "a") == {"gate": 5, "note": "abcd"}
    assert after.records["a"].truncated == ("note",)
    assert after.records["a"].unavailable == {"hold": "Departed"}
    assert dropped.told() == {
        "dropped": [
            {"region": "gates", "name": "dest", "why": "undeclared"},
            {"region": "gates", "name": "x", "why": "undeclared"},
        ],
        "droppedTotal": 2,
    }


def test_with_a_record_go_its_entries() -> None:
    context = described(changed(published(FULL), {"records": {"remove": ["a"]}}))["context"]
    assert [entry["id"] for entry in context["feedback"]] == ["of-hold", "of-gates", "of-all"]
    assert [(e["capability"], e.get("record")) for e in context["unavailable"]] == [("hold", "b"), ("list", None)]
    assert context["unavailableTotal"] == 2


def test_with_a_capability_go_its_entries_and_an_upsert_keeps_them() -> None:
    before = published(FULL)
    context = described(changed(before, {"capabilities": {"remove": ["hold"]}}))["context"]
    assert [entry["id"] for entry in context["feedback"]] == ["of-a", "of-gates", "of-all"]
    assert context["unavailable"] == [{"capability": "list", "reason": "Off"}] and context["unavailableTotal"] == 1
    context = described(changed(before, {"capabilities": {"remove": ["list"]}}))["context"]
    assert [entry["capability"] for entry in context["unavailable"]] == ["hold", "hold"]
    assert context["unavailableTotal"] == 2
    for id, left in (("list", 2), ("hold", 1)):
        gone = changed(before, {"capabilities": {"remove": [id]}})
        assert (
            described(changed(gone, {"capabilities": {"upsert": [capability(id)]}}))["context"]["unavailableTotal"]
            == left
        )
    context = described(changed(before, {"capabilities": {"upsert": [capability("hold", title="New")]}}))["context"]
    assert len(context["feedback"]) == 4 and context["unavailableTotal"] == 3


def test_entries_of_a_removed_capability_go_from_a_record_changed_with_it() -> None:
    change = upsert({"id": "a", "fields": {"dest": "x"}, "after": "b"}) | {"capabilities": {"remove": ["hold"]}}
    after = changed(published(FULL), change)
    assert after.records["a"].unavailable == {} and not after.blocked


def test_a_region_goes_with_its_child_and_its_last_record() -> None:
    change = {
        "regions": {"remove": ["board", "gates"]},
        "records": {"remove": ["a", "b", "c"]},
        "feedback": [],
    }
    assert [region["id"] for region in described(changed(published(FULL), change))["context"]["regions"]] == ["empty"]


def test_a_region_whose_records_move_out_can_be_removed() -> None:
    change = upsert({"id": "c", "region": "empty"}) | {"regions": {"remove": ["gates"]}, "feedback": []}
    assert described(changed(published(FULL), change))["context"]["records"][2] == {
        "id": "c",
        "region": "empty",
        "fields": {},
    }


def test_a_capability_may_name_a_region_that_is_not_there() -> None:
    after = changed(published(FULL), {"capabilities": {"upsert": [capability("n", region="not yet")]}})
    assert described(after)["capabilitiesTotal"] == 3
    assert described(after, viewed(("board",)))["capabilitiesTotal"] == 2


@pytest.mark.parametrize("id", ["__proto__", "constructor", "1", "01", "a/b", "Ä", "{x}", "toString"])
def test_an_id_is_an_id_like_any_other(id: str) -> None:
    region = {"id": id, "title": "T", "fields": [id]}
    first = published({"regions": [region], "records": [], "state": {id: 1}, "page": {"params": {id: True}}})
    change = upsert({"id": id, "region": id, "fields": {id: {id: [id]}}}) | {
        "capabilities": {"upsert": [capability(id)]},
        "unavailable": {"set": [{"capability": id, "record": id, "reason": id}]},
        "feedback": [{"id": id, "level": "error", "message": id, "record": id, "region": id, "capability": id}],
    }
    told = described(changed(first, change))
    context = told["context"]
    assert context["records"] == [{"id": id, "region": id, "fields": {id: {id: [id]}}}]
    assert context["recordIds"] == [id] and context["state"] == {id: 1} and context["page"]["params"] == {id: True}
    assert context["unavailable"] == [{"capability": id, "record": id, "reason": id}]
    assert told["capabilities"][0]["id"] == id and context["feedback"][0]["record"] == id
    assert ids(changed(changed(first, change), {"records": {"remove": [id]}})) == []


HOSTILE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
        st.sampled_from(["a", "b", "c", "board", "gates", "hold", "list", "of-a", "z", "x" * 201, "x" * 5000]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=8,
)
CHANGES = [row[1] for row in REFUSED] + [row[1] for row in PLACED] + UNCHANGED
KINDS = {"invalid_params", "limit_exceeded", "parse_error"}


def places_in(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to every value inside."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at] + [place for key, item in inner for place in places_in(item, (*at, key))]


def replaced(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    """The same value with another one at a place inside."""
    if not at:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replaced(value[at[0]], at[1:], by)
    return copy


@given(st.data())
def test_a_mutated_message_is_taken_or_refused_and_nothing_is_half_done(data: st.DataObject) -> None:
    before = published(FULL)
    told = described(before)
    whole = data.draw(st.booleans())
    message: Any = FULL if whole else data.draw(st.sampled_from(CHANGES)) | data.draw(st.sampled_from(CHANGES))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places_in(message)))
        other = data.draw(st.sampled_from(places_in(message)))
        spare: Any = message
        for key in other:
            spare = spare[key]
        message = replaced(message, place, data.draw(st.one_of(HOSTILE, st.just(spare))))
    try:
        change = change_of_publish(before, message) if whole else change_of_patch(before, message)
    except GatewayError as error:
        assert error.kind in KINDS
        assert error.kind == "parse_error" or refusal(error)[1] is not None
        assert described(before) == told
        return
    after = applied(before, change)
    assert described(before) == told
    assert sorted(ids(after)) == sorted(after.records)
    described(after)
    described(after, viewed(("gates",), limit=1, offset=1))
