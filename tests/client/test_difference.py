"""The difference of two snapshots against the oracle's `patch`, and that it is small."""

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client.difference import difference
from tests.oracle import session
from tests.oracle.alter import change
from tests.oracle.plain import Object, canonical
from tests.oracle.strategies import SEEDS, SMALL, operations, snapshots

REGION: Object = {"id": "g", "title": "G", "fields": ["a", "b"]}


def published(state: Object) -> Object:
    """A state as a publisher would publish it whole."""
    records = [{name: record[name] for name in ("id", "region", "fields")} for record in state["records"]]
    return deepcopy(state | {"records": records})


def board(*ids: str, **members: Any) -> Object:
    return {"regions": [REGION], "records": [{"id": id, "region": "g", "fields": {"a": id}} for id in ids]} | members


def holds(before: Object, after: Object) -> Object | None:
    """The difference, after the law was looked at."""
    kept = deepcopy((before, after))
    found = difference(before, after)
    assert (before, after) == kept, "an argument was changed"
    if found is not None:
        made = session.patch(session.publish(before), found)
        assert canonical(made) == canonical(session.publish(after))
    return found


@given(st.data())
def test_what_a_patch_made_is_found_again(data: st.DataObject) -> None:
    """Of a snapshot that any change made of another: the patch is found, and is no larger than the larger of both."""
    before = session.publish(data.draw(snapshots(SMALL)), SMALL)
    made = session.patch(before, change(Random(data.draw(SEEDS)), before, data.draw(operations()), SMALL), SMALL)
    found = holds(published(before), published(made))
    if "scope" in before and "scope" not in made:
        assert found is None
    else:
        assert found is not None
        sizes = [len(canonical(published(state))) for state in (before, made)]  # a `remove` names what only one holds
        assert len(canonical(found)) <= max(sizes) + 100


@given(snapshots(SMALL), snapshots(SMALL))
def test_of_any_two_snapshots_there_is_none_or_it_holds(before: Object, after: Object) -> None:
    holds(before, after)


@given(snapshots(SMALL), SEEDS)
def test_records_in_any_other_order(before: Object, seed: int) -> None:
    rng = Random(seed)
    records = list(before.get("records", []))
    for _ in range(rng.choice([1, 1, 3, len(records)]) if records else 0):
        records.insert(rng.randrange(len(records)), records.pop(rng.randrange(len(records))))
    assert holds(before, before | {"records": records}) is not None


@given(snapshots(SMALL))
def test_nothing_leads_to_the_same(snapshot: Object) -> None:
    assert difference(snapshot, deepcopy(snapshot)) == {}


@pytest.mark.parametrize(
    ("before", "after", "records"),
    [
        ("abc", "abxc", {"upsert": [{"id": "x", "region": "g", "fields": {"a": "x"}, "after": "b"}]}),
        ("abc", "abcx", {"upsert": [{"id": "x", "region": "g", "fields": {"a": "x"}}]}),
        ("abc", "xabc", {"upsert": [{"id": "x", "region": "g", "fields": {"a": "x"}, "before": "a"}]}),
        ("abc", "ac", {"remove": ["b"]}),
        ("abcdefgh", "habcdefg", {"upsert": [{"id": "h", "before": "a"}]}),
        ("abcdefgh", "bcdefgha", {"upsert": [{"id": "a", "after": "h"}]}),
        ("abcdefgh", "hgfedcba", {"order": list("hgfedcba")}),
        ("", "ab", {"upsert": [{"id": id, "region": "g", "fields": {"a": id}} for id in "ab"]}),
        ("ab", "", {"remove": ["a", "b"]}),
    ],
)
def test_places_are_told_where_the_order_alone_does_not(before: str, after: str, records: Object) -> None:
    assert holds(board(*before), board(*after)) == {"records": records}


def test_one_field_is_one_field() -> None:
    before, after = board(*"abc"), board(*"abc")
    after["records"][1]["fields"] = {"a": "b", "b": None}
    assert holds(before, after) == {"records": {"upsert": [{"id": "b", "fields": {"b": None}}]}}
    assert holds(after, before) == {"records": {"upsert": [{"id": "b", "unset": ["b"]}]}}


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (None, 0), ("", None), ([1], [True]), ({}, [])])
def test_values_that_python_takes_for_one(one: Any, other: Any) -> None:
    before, after = board(state={"x": one}), board(state={"x": other})
    assert holds(before, after) == {"state": {"set": {"x": other}}}


def test_a_record_that_changes_region_brings_all_its_fields() -> None:
    """The old region may not have declared, or have cut, what the new one keeps."""
    other = {"id": "h", "title": "H", "fields": ["z", {"name": "a", "maxChars": 9}]}
    regions = [{"id": "g", "title": "G", "fields": [{"name": "a", "maxChars": 2}]}, other]
    records = [{"id": "1", "region": "g", "fields": {"a": "abcd", "z": 1}}]
    before = {"regions": regions, "records": records}
    after = {"regions": regions, "records": [records[0] | {"region": "h"}]}
    assert holds(before, after) == {
        "records": {"upsert": [{"id": "1", "region": "h", "fields": {"a": "abcd", "z": 1}}]}
    }


def test_what_goes_with_a_record_is_not_told_again() -> None:
    capability = {"id": "c", "title": "", "description": "", "appliesTo": "record", "effect": "read"}
    entry = {"capability": "c", "record": "a", "reason": "x"}
    feedback = {"id": "f", "level": "error", "message": "m", "record": "a"}
    before = board(*"ab", capabilities=[capability], unavailable=[entry], feedback=[feedback])
    after = board("b", capabilities=[capability])
    assert holds(before, after) == {"records": {"remove": ["a"]}}
    assert holds(after, before) == {
        "records": {"upsert": [{"id": "a", "region": "g", "fields": {"a": "a"}, "before": "b"}]},
        "unavailable": {"set": [entry]},
        "feedback": [feedback],
    }


def test_members_that_come_and_go() -> None:
    assert holds({"page": {"title": "T"}, "recordsTotal": 9}, {}) == {"page": {"unset": True}, "recordsTotal": None}
    assert holds({}, {"page": {}, "recordsTotal": 0, "scope": {}}) == {"page": {}, "recordsTotal": 0, "scope": {}}
    closed = REGION | {"active": False, "title": "Closed"}
    assert holds(board(), board(regions=[closed])) == {
        "regions": {"upsert": [{"id": "g", "title": "Closed", "active": False}]}
    }
    assert holds(board(regions=[closed]), board(regions=[REGION | {"title": "Closed"}])) == {
        "regions": {"upsert": [{"id": "g", "active": True}]}
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(board(), board(regions=[REGION | {"fields": ["a"]}]), id="fields of a region"),
        pytest.param(
            board(regions=[REGION, {"id": "h", "title": ""}]),
            board(regions=[{"id": "h", "title": ""}, REGION]),
            id="order of regions",
        ),
        pytest.param(board(), board(regions=[{"id": "h", "title": ""}, REGION]), id="a region in front"),
        pytest.param({"scope": {}}, {}, id="a scope that went"),
        pytest.param({}, {"nobody knows this": 1}, id="an unknown member"),
        pytest.param(board("a"), board("a", "a"), id="a doubled id"),
        pytest.param(
            board("a"), board(records=[{"id": "a", "region": "g", "x": 1}]), id="an unknown member of a record"
        ),
        pytest.param(board("a"), board(records=7), id="no list"),
        pytest.param(board("a"), board(records=[{"region": "g"}]), id="no id"),
        pytest.param(board("a"), board(regions=[{"id": "g", "fields": ["a", "b"]}]), id="no title"),
        pytest.param({"recordsTotal": 1}, {"recordsTotal": None}, id="null is no number"),
        pytest.param({"page": {}}, {"page": {"unset": True}}, id="no page"),
    ],
)
def test_what_only_a_publish_says(before: Object, after: Object) -> None:
    assert difference(before, after) is None
