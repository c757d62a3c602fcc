"""`explain` against msgspec, whose refusals it explains: they agree on what is right, and the place told is the place."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.explain import escape, expected, explain
from gateway.core.params import METHODS

POSITION = {"epoch": "e", "revision": 3}
VIEW = {"session": "s", "offset": 1, "limit": 2, "record": ["a", "b"]}  # of the right types, not of one request
PAGE = {"title": "t", "route": "/r", "params": {"a/b": "x", "~": 1, "f": 1.5, "ok": True}}
REGION = {"id": "r", "title": "", "parent": None, "active": True, "fields": ["a", {"name": "b", "maxChars": 5}]}
FEEDBACK = {"id": "f", "level": "error", "message": "m", "record": "a"}
CAPABILITY = {"id": "c", "title": "", "description": "", "appliesTo": "record", "effect": "read", "arguments": {}}
UPSERT = {"id": "a", "region": "r", "fields": {"a": None}, "unset": ["b"], "before": "b"}

SAMPLES: dict[str, dict[str, Any]] = {
    "hello": {"client": {"name": "n", "version": "1"}},
    "ping": {},
    "describe": VIEW,
    "changes": VIEW | {"since": {"view": "v"} | POSITION},
    "subscribe": VIEW | {"record": "a", "deliver": "push", "paceMs": 50, "since": {"view": "v"} | POSITION},
    "unsubscribe": {"view": "v"},
    "sessions": {"prefix": "", "cursor": "c", "limit": 5},
    "publish": {
        "session": "s",
        "base": POSITION,
        "cause": {"kind": "action"},
        "ttlMs": 5,
        "snapshot": {
            "page": PAGE,
            "regions": [REGION],
            "records": [{"id": "a", "region": "r", "fields": {"a": [1]}}],
            "state": {"s": {}},
            "feedback": [FEEDBACK],
            "unavailable": [{"capability": "c", "record": "a", "reason": ""}],
            "capabilities": [CAPABILITY],
            "recordsTotal": 5,
            "scope": {"tenant": "t"},
        },
    },
    "patch": {
        "session": "s",
        "base": "any",
        "cause": {"kind": "data"},
        "change": {
            "page": PAGE,
            "state": {"set": {"a": 1}, "unset": ["b"]},
            "regions": {"upsert": [REGION], "remove": ["q"]},
            "capabilities": {"upsert": [CAPABILITY], "remove": ["d"]},
            "records": {"upsert": [UPSERT], "remove": ["c"], "order": ["a"]},
            "feedback": [FEEDBACK],
            "unavailable": {"set": [{"capability": "c", "reason": ""}], "unset": [{"capability": "c"}]},
            "recordsTotal": None,
            "scope": {},
        },
    },
    "end": {"session": "s", "base": POSITION},
}
"""Right params of every method with every member there is."""


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside."""
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from places(member, (*path, key))


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def pointer(path: tuple[str | int, ...]) -> str:
    return "".join(f"/{escape(str(part))}" for part in path)


def is_right(method: str, params: Any) -> bool:
    try:
        msgspec.convert(params, METHODS[method])
    except msgspec.ValidationError:
        return False
    return True


def fault(method: str, params: Any) -> dict[str, Any] | None:
    """`data` of the explanation, None where nothing is found wrong."""
    data: dict[str, Any] = explain(params, METHODS[method]).wire()["data"]
    return None if data.get("expected") == "params as the protocol says" else data


def test_the_samples_are_right_and_have_every_member() -> None:
    assert SAMPLES.keys() == METHODS.keys()
    for method, params in SAMPLES.items():
        assert is_right(method, params) and fault(method, params) is None
        assert set(METHODS[method].__struct_encode_fields__) == params.keys()


@pytest.mark.parametrize("method", METHODS)
def test_every_member_of_a_wrong_type_is_found_at_its_place(method: str) -> None:
    """A set is no JSON and right nowhere but as a value of a free object."""
    for path in places(SAMPLES[method]):
        params = copy.deepcopy(SAMPLES[method])
        at(params, path[:-1])[path[-1]] = {"no such": [{}]} if isinstance(at(params, path), list) else [[None]]
        data = fault(method, params)
        assert (data is None) == is_right(method, params)
        if data is not None:
            assert data["kind"] == "invalid_params"
            assert data["path"] == pointer(path) or data["path"].startswith(pointer(path) + "/")
            assert "such" not in data["expected"]


@pytest.mark.parametrize("method", METHODS)
def test_every_unknown_and_every_missing_member_is_found_at_its_place(method: str) -> None:
    for path in [(), *places(SAMPLES[method])]:
        if isinstance(at(SAMPLES[method], path), dict):
            params = copy.deepcopy(SAMPLES[method])
            at(params, path)["no/such"] = "s3cr3t"
            data = fault(method, params)
            assert (data is None) == is_right(method, params)
            if data is not None:
                assert data["path"] in (pointer((*path, "no/such")), pointer(path))
                assert "s3cr3t" not in json.dumps(data)
        if path and isinstance(path[-1], str):
            params = copy.deepcopy(SAMPLES[method])
            del at(params, path[:-1])[path[-1]]
            data = fault(method, params)
            assert (data is None) == is_right(method, params)
            assert data is None or data["path"] == pointer(path)


LEAVES = st.sampled_from(
    [None, True, 0, 1, -1, 2**53, 10**30, 1.0, 2.5, "", "any", "a\n", "x" * 201, "a.b", "plain", "mask"]
)
VALUES = st.recursive(
    LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", "page"]), v)
)


@given(st.data())
def test_explain_finds_a_fault_exactly_where_msgspec_refuses(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(sorted(METHODS)))
    params = copy.deepcopy(SAMPLES[method])
    for _ in range(data.draw(st.integers(1, 3))):
        ways = list(places(params))
        if not ways or data.draw(st.booleans()):
            at_object = [way for way in [(), *ways] if isinstance(at(params, way), dict)]
            at(params, data.draw(st.sampled_from(at_object)))[data.draw(st.sampled_from(["x", "id", "unset"]))] = (
                data.draw(VALUES)
            )
        else:
            way = data.draw(st.sampled_from(ways))
            at(params, way[:-1])[way[-1]] = data.draw(VALUES)
    found = fault(method, params)
    assert (found is None) == is_right(method, params)
    if found is not None:
        assert found["kind"] in ("invalid_params", "limit_exceeded")
        assert found["path"] == "" or found["path"].startswith("/")


def test_a_number_above_its_maximum_names_its_member() -> None:
    data = fault("end", {"session": "s", "base": {"epoch": "e", "revision": 2**53}})
    assert data == {
        "kind": "limit_exceeded",
        "errorClass": "permanent",
        "retryable": False,
        "limit": "revision",
        "maximum": 2**53 - 1,
        "given": 2**53,
        "path": "/base/revision",
    }


@pytest.mark.parametrize(
    ("method", "params", "fragment"),
    [
        ("describe", {}, "this member: an id: a text of 1 to 200 characters, none of them a control character"),
        ("describe", {"session": "s", "limit": 0}, "an integer of at least 1"),
        (
            "describe",
            {"session": "s", "x": 0},
            "no member of this name: an object with no other members than session, offset, limit, record",
        ),
        ("describe", {"session": "s", "record": []}, "an array of 1 to 20 items"),
        ("ping", {"x": 0}, "no member of this name: an object without members"),
        ("subscribe", {"session": "s", "deliver": 1}, 'one of "notify", "push"'),
        ("subscribe", {"session": "s", "paceMs": 1}, "one of 0, 50, 100, 250, 500, 1000, 2500, 5000"),
        ("patch", {"session": "s", "base": 1}, 'an object with no other members than epoch, revision or "any"'),
        ("sessions", {"prefix": "x" * 201}, "a text of at most 200 characters"),
        ("publish", {"snapshot": {"page": {"title": None}}}, "a text"),
        ("publish", {"snapshot": {"regions": [{"active": 1}]}}, "true or false"),
        ("publish", {"snapshot": {"regions": [{"fields": [{"expose": "mask"}]}]}}, '"plain"'),
        ("publish", {"snapshot": {"state": None}}, "an object whose members are: any JSON"),
        (
            "publish",
            {"snapshot": {"page": {"params": {"a": None}}}},
            "a text or true or false or an integer or a number",
        ),
    ],
)
def test_what_is_expected_is_a_fragment_of_ours(method: str, params: dict[str, Any], fragment: str) -> None:
    data = fault(method, params)
    assert data is not None and data["expected"] == fragment


def test_every_type_of_the_params_has_words() -> None:
    for shape in METHODS.values():
        assert expected(msgspec.inspect.type_info(shape)).startswith("an object")
