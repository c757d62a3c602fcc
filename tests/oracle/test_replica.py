"""The replica of §9: an `after` made from two describes leads from one to the other, and what does not fit is refused."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.limits import Limits

from .describe import describe
from .plain import Json, Object, same
from .reasons import required_reasons
from .replica import REMOVABLE, TOTALS, WHOLE, Unfit, apply_after, canonical, without_publisher
from .session import patch, publish
from .strategies import SMALL, change_for, scopes_for, snapshots, views_for

MANY = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow]
)


def set_unset(old: Object, new: Object) -> tuple[Object, list[str]]:
    return {n: v for n, v in new.items() if n not in old or not same(old[n], v)}, [n for n in old if n not in new]


def simple_after(old: Object, new: Object) -> Object:
    """An `after` from one describe to another that tells all ids of a list as moved when its order changed at all."""
    before, now = old["context"], new["context"]
    after: Object = {name: new[name] for name in ("session", "view", "epoch", "revision", "asOf")}
    after["base"] = old["revision"]
    for name in WHOLE + REMOVABLE:
        if name in now and not (name in before and same(before[name], now[name])):
            after[name] = now[name]
        if name in REMOVABLE and name in before and name not in now:
            after[name] = None
    put, unset = set_unset(before["state"], now["state"])
    if put or unset:
        after["state"] = {"set": put, "unset": unset}

    removed, added = moves(before["recordIds"], now["recordIds"])
    if removed or added:
        after["recordIds"] = {"removed": removed, "added": [{"id": identity, "at": at} for at, identity in added]}
    left, entered = moves([r["id"] for r in before["records"]], [r["id"] for r in now["records"]])
    known = {record["id"]: record for record in before["records"] if record["id"] not in left}
    told: list[Json] = [now["records"][at] | {"entered": True, "at": at} for at, _ in entered]
    stayed = [(known[record["id"]], record) for record in now["records"] if record["id"] in known]
    told += [changed_record(was, record) for was, record in stayed if not same(was, record)]
    if left:
        after["left"] = left
    if told:
        after["records"] = told

    capabilities = {capability["id"]: capability for capability in old["capabilities"]}
    put, unset = set_unset(capabilities, {capability["id"]: capability for capability in new["capabilities"]})
    if put:
        after["capabilities"] = list(put.values())
    if unset:
        after["withdrawn"] = unset
    totals = {name: now[name] for name in TOTALS if now[name] != before[name]}
    if old["capabilitiesTotal"] != new["capabilitiesTotal"]:
        totals["capabilitiesTotal"] = new["capabilitiesTotal"]
    if totals:
        after["totals"] = totals
    return after


def moves(old: list[str], new: list[str]) -> tuple[list[str], list[tuple[int, str]]]:
    stays = [identity for identity in old if identity in new]
    if stays != [identity for identity in new if identity in old]:
        stays = []
    return [x for x in old if x not in stays], [(at, x) for at, x in enumerate(new) if x not in stays]


def changed_record(old: Object, new: Object) -> Object:
    put, unset = set_unset(old["fields"], new["fields"])
    told: Object = {"id": new["id"]} | ({"fields": put} if put else {}) | ({"unset": unset} if unset else {})
    if old["region"] != new["region"]:
        told["region"] = new["region"]
    if old.get("truncated") != new.get("truncated"):
        told["truncated"] = new.get("truncated")
    return told


@MANY
@given(st.data(), st.sampled_from([SMALL, Limits()]))
def test_an_after_leads_from_one_describe_to_the_next(data: st.DataObject, limits: Limits) -> None:
    state = publish(data.draw(snapshots(limits)), limits)
    view, scope = data.draw(views_for(state, limits)), data.draw(scopes_for(state))

    def told(state: Object, revision: int) -> Object:
        return describe(
            state,
            session="s",
            view_id="v",
            view=view,
            scope=scope,
            epoch="e",
            revision=revision,
            as_of=f"t{revision}",
            target={"db_path_source": "argv"},
            limits=limits,
            publisher="none",
        )

    replica = told(state, 1)
    for revision in range(2, data.draw(st.integers(2, 5)) + 1):
        after = patch(state, data.draw(change_for(state, limits)), limits)
        fresh = told(after, revision)
        if required_reasons(state, after, None, view, scope, limits):
            replica = fresh
        else:
            was = canonical(replica)
            moved = apply_after(replica, simple_after(replica, fresh))
            assert canonical(replica) == was, "the describe given was changed"
            replica = moved
        assert canonical(replica) == canonical(fresh)
        state = after


OLD: Any = {
    "session": "s",
    "view": "v",
    "capabilities": [{"id": "a"}, {"id": "c"}],
    "capabilitiesTotal": 2,
    "epoch": "e",
    "context": {
        "page": {"title": "T"},
        "state": {"x": 1, "y": 2},
        "records": [
            {"id": "1", "region": "g", "fields": {"a": 1, "b": 2}, "truncated": ["a"]},
            {"id": "2", "region": "g", "fields": {}},
            {"id": "3", "region": "g", "fields": {}},
        ],
        "recordIds": ["1", "2", "3", "4"],
        "recordIdsTotal": 4,
        "recordIdsWindow": {"offset": 0, "returned": 4, "total": 5},
    },
    "revision": 7,
    "asOf": "t7",
    "publisher": "online",
}
STEP = {"session": "s", "view": "v", "epoch": "e", "base": 7, "revision": 9, "asOf": "t9"}


def test_an_after_by_hand() -> None:
    after = STEP | {
        "page": {"title": "U"},
        "left": ["3", "2"],
        "records": [
            {"id": "5", "region": "h", "fields": {"z": 1}, "entered": True, "at": 2},
            {"id": "1", "fields": {"b": 3, "c": 4}, "unset": ["a"], "truncated": None},
            {"id": "3", "region": "g", "fields": {}, "entered": True, "at": 0},
        ],
        "recordIds": {"removed": ["3"], "added": [{"id": "5", "at": 4}, {"id": "3", "at": 0}]},
        "recordIdsWindow": None,
        "state": {"set": {"a": None}, "unset": ["x"]},
        "capabilities": [{"id": "b"}, {"id": "a", "title": "new"}],
        "withdrawn": ["c"],
        "totals": {"recordIdsTotal": 5},
    }
    new = apply_after(OLD, after)
    assert without_publisher(new) == {
        "session": "s",
        "view": "v",
        "epoch": "e",
        "revision": 9,
        "asOf": "t9",
        "capabilitiesTotal": 2,
        "capabilities": [{"id": "a", "title": "new"}, {"id": "b"}],
        "context": {
            "page": {"title": "U"},
            "state": {"a": None, "y": 2},
            "records": [
                {"id": "3", "region": "g", "fields": {}},
                {"id": "1", "region": "g", "fields": {"b": 3, "c": 4}},
                {"id": "5", "region": "h", "fields": {"z": 1}},
            ],
            "recordIds": ["3", "1", "2", "4", "5"],
            "recordIdsTotal": 5,
        },
    }
    assert new["publisher"] == "online"


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": 6},
        {"epoch": "f"},
        {"revision": 7},
        {"publisher": "gone"},
        {"left": ["9"]},
        {"records": [{"id": "9", "fields": {}}]},
        {"records": [{"id": "1", "region": "g", "fields": {}, "entered": True, "at": 0}]},
        {"records": [{"id": "9", "region": "g", "fields": {}, "entered": True, "at": 4}]},
        {"recordIds": {"removed": ["9"]}},
        {"state": {"set": {}, "unset": ["never"]}},
        {"withdrawn": ["b"]},
        {"totals": {"records": 1}},
        {"truncated": None},
    ],
)
def test_an_after_that_does_not_fit(wrong: Object) -> None:
    with pytest.raises(Unfit):
        apply_after(OLD, STEP | wrong)
