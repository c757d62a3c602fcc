"""The oracle's publish and patch against protocol §6 and §6.1, worked out by hand."""

from typing import Any

import pytest

from gateway.core.limits import Limits

from .plain import Object, canonical, normal, text
from .session import EMPTY, Refused, dropped_by_patch, dropped_by_publish, patch, publish, unchanged

BASE: Object = {
    "page": {"title": "T", "route": "/"},
    "regions": [
        {"id": "g", "title": "G", "fields": ["a", {"name": "short", "maxChars": 3}]},
        {"id": "h", "title": "H", "parent": "g", "fields": ["a"]},
        {"id": "empty", "title": "E"},
    ],
    "records": [
        {"id": "1", "region": "g", "fields": {"a": 1, "short": "abcd"}},
        {"id": "2", "region": "g"},
        {"id": "3", "region": "h"},
    ],
    "capabilities": [
        {"id": "c", "title": "", "description": "", "appliesTo": "record", "effect": "destructive"},
        {"id": "d", "title": "", "description": "", "appliesTo": "session", "effect": "write"},
    ],
    "unavailable": [{"capability": "c", "record": "1", "reason": "x"}, {"capability": "d", "reason": "y"}],
    "feedback": [
        {"id": "f", "level": "error", "message": "", "record": "1"},
        {"id": "e", "level": "error", "message": "", "capability": "d"},
    ],
    "state": {"k": 1, "l": None},
    "recordsTotal": 9,
    "scope": {"tenant": "t"},
}


def ids(state: Object, part: str = "records") -> list[str]:
    return [entry["id"] for entry in state[part]]


def record(state: Object, identity: str) -> Any:
    return next(entry for entry in state["records"] if entry["id"] == identity)


def test_nothing_published_is_the_empty_state() -> None:
    assert canonical(publish({})) == canonical(EMPTY)


def test_defaults() -> None:
    state = publish(BASE)
    assert state["regions"][0] == {
        "id": "g",
        "title": "G",
        "description": "",
        "parent": None,
        "active": True,
        "modal": False,
        "fields": [
            {"name": "a", "expose": "plain", "source": "application", "maxChars": 4096},
            {"name": "short", "expose": "plain", "source": "application", "maxChars": 3},
        ],
    }
    assert record(state, "2") == {"id": "2", "region": "g", "fields": {}}
    capability = state["capabilities"][0]
    assert (capability["confirm"], capability["idempotent"], capability["region"]) == (True, False, None)
    assert capability["arguments"] == {"type": "object", "additionalProperties": False}
    assert state["capabilities"][1]["confirm"] is False
    assert state["feedback"][0]["source"] == "application"
    given = [part | {"active": True, "parent": part.get("parent")} for part in BASE["regions"]]
    assert unchanged(state, publish(BASE | {"regions": given}))


def test_numbers() -> None:
    given = [80.0, 1e2, -0.0, 0.5, 2.0**53, 2**53, -(2.0**53) + 1, 1e300, True, {"a": [1.0]}]
    assert text(normal(given)) == (
        "[80,100,0,0.5,9007199254740992.0,9007199254740992,-9007199254740991,1e+300,true,{" + '"a":[1]}]'
    )
    assert unchanged(publish({"state": {"x": 80.0}}), publish({"state": {"x": 80}}))
    assert not unchanged(publish({"state": {"x": 1}}), publish({"state": {"x": True}}))
    assert not unchanged(publish({"state": {"x": None}}), publish({"state": {}}))
    assert not unchanged(publish({}), publish({"page": {}}))


def test_texts_are_cut_at_any_depth_and_told() -> None:
    def kept(value: Any, max_chars: int) -> Any:
        regions = [{"id": "g", "title": "", "fields": ["b", {"name": "a", "maxChars": max_chars}]}]
        state = publish({"regions": regions, "records": [{"id": "r", "region": "g", "fields": {"a": value, "b": "x"}}]})
        return state["records"][0]["fields"]["a"], state["records"][0].get("truncated")

    assert kept("abc", 3) == ("abc", None)
    assert kept("e\u0301x", 2) == ("e\u0301", ["a"])
    assert kept("\U0001f6eb\U0001f6ec", 1) == ("\U0001f6eb", ["a"])
    assert kept([{"long name": ["abcd"]}, "ab"], 3) == ([{"long name": ["abc"]}, "ab"], ["a"])
    assert kept(12345, 3) == (12345, None)


def test_undeclared_fields_are_dropped_and_told() -> None:
    regions = [{"id": "g", "title": "", "fields": ["a"]}, {"id": "b", "title": ""}]
    records = [
        {"id": "1", "region": "g", "fields": {"z": 1, "__proto__": 1, "a": 1}},
        {"id": "2", "region": "g", "fields": {"z": 2}},
        {"id": "3", "region": "b", "fields": {"z": 2}},
    ]
    snapshot = {"regions": regions, "records": records}
    assert dropped_by_publish(snapshot) == {
        "dropped": [
            {"region": "b", "name": "z", "why": "undeclared"},
            {"region": "g", "name": "__proto__", "why": "undeclared"},
            {"region": "g", "name": "z", "why": "undeclared"},
        ],
        "droppedTotal": 3,
    }
    assert publish(snapshot)["records"][0]["fields"] == {"a": 1}
    assert dropped_by_publish(BASE) == {}
    many = {"id": "1", "region": "b", "fields": {f"{n:03}": 0 for n in range(70)}}
    told = dropped_by_publish({"regions": regions, "records": [many]})
    assert (len(told["dropped"]), told["dropped"][-1]["name"], told["droppedTotal"]) == (64, "063", 70)


BAD_SNAPSHOTS: dict[str, Object] = {
    "record doubled": {"records": [*BASE["records"], {"id": "1", "region": "g"}]},
    "record of an unknown region": {"records": [{"id": "9", "region": "?"}]},
    "region doubled": {"regions": [*BASE["regions"], {"id": "g", "title": ""}]},
    "unknown parent": {"regions": [*BASE["regions"], {"id": "x", "title": "", "parent": "?"}]},
    "own parent": {"regions": [*BASE["regions"], {"id": "x", "title": "", "parent": "x"}]},
    "circle": {
        "regions": [*BASE["regions"], {"id": "x", "title": "", "parent": "y"}, {"id": "y", "title": "", "parent": "x"}]
    },
    "feedback of nothing": {"feedback": [{"id": "f", "level": "error", "message": "", "region": "?"}]},
    "unavailable of no capability": {"unavailable": [{"capability": "?", "reason": ""}]},
    "unavailable of no record": {"unavailable": [{"capability": "c", "record": "?", "reason": ""}]},
    "pair doubled": {"unavailable": [{"capability": "d", "reason": ""}, {"capability": "d", "reason": "z"}]},
    "number as id": {"records": [{"id": 1, "region": "g"}]},
    "empty id": {"records": [{"id": "", "region": "g"}]},
    "201 characters": {"records": [{"id": "x" * 201, "region": "g"}]},
    "control character": {"records": [{"id": "a\x7f", "region": "g"}]},
    "field name with a dot": {"regions": [*BASE["regions"], {"id": "x", "title": "", "fields": ["a.b"]}]},
    "field declared twice": {"regions": [*BASE["regions"], {"id": "x", "title": "", "fields": ["a", {"name": "a"}]}]},
    "unknown member": {"record": []},
    "null for an array": {"records": None},
    "param null": {"page": {"params": {"a": None}}},
    "placeholder": {"records": [{"id": "1", "region": "g", "fields": {"a": [{"$placeholder": 1}]}}]},
}


@pytest.mark.parametrize("name", BAD_SNAPSHOTS)
def test_snapshots_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        publish(BASE | BAD_SNAPSHOTS[name])
    assert refused.value.kind == "invalid_params"


def test_limits_refused() -> None:
    for limits in (
        Limits(records=2),
        Limits(regions=2),
        Limits(capabilities=1),
        Limits(feedback=1),
        Limits(state_bytes=9),
    ):
        with pytest.raises(Refused) as refused:
            publish(BASE, limits)
        assert refused.value.kind == "limit_exceeded"


def upsert(*entries: Object, **more: Any) -> Object:
    return {"records": {"upsert": [*entries], **more}}


BAD_CHANGES: dict[str, Object] = {
    "unknown id in remove": {"records": {"remove": ["?"]}},
    "twice in remove": {"records": {"remove": ["2", "2"]}},
    "twice in upsert": upsert({"id": "2"}, {"id": "2"}),
    "in both": upsert({"id": "2"}, remove=["2"]),
    "new without region": upsert({"id": "9"}),
    "unknown before": upsert({"id": "2", "before": "?"}),
    "unknown after": upsert({"id": "2", "after": "?"}),
    "before and after": upsert({"id": "2", "before": "1", "after": "3"}),
    "beside itself": upsert({"id": "2", "before": "2"}),
    "beside one that goes": upsert({"id": "2", "before": "3"}, remove=["3"]),
    "beside one that comes later": upsert({"id": "x", "region": "g", "before": "y"}, {"id": "y", "region": "g"}),
    "order too short": {"records": {"order": ["1", "2"]}},
    "order with a doubled id": {"records": {"order": ["1", "2", "3", "3"]}},
    "order with an unknown id": {"records": {"order": ["1", "2", "?"]}},
    "region with records": {"regions": {"remove": ["h"]}},
    "region with children": {"regions": {"remove": ["g"]}, "records": {"remove": ["1", "2"]}},
    "fields of a known region": {"regions": {"upsert": [{"id": "g", "fields": ["a"]}]}},
    "new region without title": {"regions": {"upsert": [{"id": "x"}]}},
    "circle": {"regions": {"upsert": [{"id": "g", "parent": "h"}]}},
    "unknown region": {"regions": {"remove": ["?"]}},
    "unknown capability": {"capabilities": {"remove": ["?"]}},
    "unavailable of what goes": {
        "capabilities": {"remove": ["d"]},
        "unavailable": {"set": [{"capability": "d", "reason": ""}]},
    },
    "feedback of what goes": {
        "records": {"remove": ["2"]},
        "feedback": [{"id": "n", "level": "error", "message": "", "record": "2"}],
    },
    "page null": {"page": None},
    "unset false": {"page": {"unset": False}},
    "unknown member": {"order": []},
}


@pytest.mark.parametrize("name", BAD_CHANGES)
def test_changes_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        patch(publish(BASE), BAD_CHANGES[name])
    assert refused.value.kind == "invalid_params"


@pytest.mark.parametrize(
    ("change", "order"),
    [
        (upsert({"id": "9", "region": "g"}), "1239"),
        (upsert({"id": "9", "region": "g", "before": "1"}), "9123"),
        (upsert({"id": "9", "region": "g", "after": "1"}), "1923"),
        (upsert({"id": "1", "after": "3"}), "231"),
        (upsert({"id": "3", "before": "1"}), "312"),
        (upsert({"id": "1", "before": "2"}), "123"),
        (upsert({"id": "8", "region": "g", "before": "1"}, {"id": "9", "region": "g", "before": "8"}), "98123"),
        (upsert({"id": "9", "region": "g"}, remove=["2"], order=["9", "3", "1"]), "931"),
        ({"records": {"order": ["2", "3", "1"]}}, "231"),
    ],
)
def test_places(change: Object, order: str) -> None:
    assert "".join(ids(patch(publish(BASE), change))) == order


def test_fields_are_merged() -> None:
    state = publish(BASE)
    assert record(state, "1")["truncated"] == ["short"]
    after = patch(state, upsert({"id": "1", "fields": {"a": None}}))
    assert record(after, "1") == {
        "id": "1",
        "region": "g",
        "fields": {"a": None, "short": "abc"},
        "truncated": ["short"],
    }
    after = patch(state, upsert({"id": "1", "fields": {"short": "abc"}, "unset": ["a", "never"]}))
    assert record(after, "1") == {"id": "1", "region": "g", "fields": {"short": "abc"}}
    assert record(patch(state, upsert({"id": "1", "unset": ["short"]})), "1") == {
        "id": "1",
        "region": "g",
        "fields": {"a": 1},
    }
    assert unchanged(state, patch(state, upsert({"id": "1", "fields": {"a": 1.0, "short": "abcde"}, "region": "g"})))


def test_a_record_that_changes_region_passes_its_fields() -> None:
    change = upsert({"id": "1", "region": "h", "fields": {"a": 2, "b": 1}})
    assert record(patch(publish(BASE), change), "1") == {"id": "1", "region": "h", "fields": {"a": 2}}
    assert dropped_by_patch(publish(BASE), change) == {
        "dropped": [
            {"region": "h", "name": "b", "why": "undeclared"},
            {"region": "h", "name": "short", "why": "undeclared"},
        ],
        "droppedTotal": 2,
    }


def test_with_a_record_or_capability_go_its_entries() -> None:
    after = patch(publish(BASE), {"records": {"remove": ["1"]}})
    assert after["unavailable"] == [{"capability": "d", "reason": "y"}]
    assert ids(after, "feedback") == ["e"]
    after = patch(publish(BASE), {"capabilities": {"remove": ["d"]}})
    assert [entry["capability"] for entry in after["unavailable"]] == ["c"]
    assert ids(after, "feedback") == ["f"]


def test_regions_come_change_and_go() -> None:
    state = publish(BASE)
    after = patch(
        state,
        {
            "regions": {
                "upsert": [{"id": "new", "title": "N", "fields": ["a"]}, {"id": "h", "active": False, "parent": None}],
                "remove": ["empty", "g"],
            },
            "records": {"remove": ["1"], "upsert": [{"id": "2", "region": "new"}]},
        },
    )
    assert ids(after, "regions") == ["h", "new"]
    assert after["regions"][0] == state["regions"][1] | {"active": False, "parent": None}
    assert record(after, "2")["region"] == "new"


def test_the_rest() -> None:
    state = publish(BASE)
    after = patch(
        state,
        {
            "page": {"unset": True},
            "state": {"set": {"m": 2.0}, "unset": ["k", "never"]},
            "feedback": [],
            "unavailable": {
                "set": [{"capability": "c", "record": "1", "reason": "z"}, {"capability": "c", "reason": "w"}],
                "unset": [{"capability": "d"}, {"capability": "never"}],
            },
            "recordsTotal": None,
            "scope": {},
        },
    )
    assert after == {
        "regions": state["regions"],
        "records": state["records"],
        "capabilities": state["capabilities"],
        "state": {"l": None, "m": 2},
        "feedback": [],
        "unavailable": [{"capability": "c", "reason": "w"}, {"capability": "c", "record": "1", "reason": "z"}],
        "scope": {},
    }
    assert unchanged(state, patch(state, {}))
    assert patch(state, {"page": {"title": "U"}})["page"] == {"title": "U"}
