"""A whole snapshot, made clean or refused whole (protocol §6): every refusal with its kind and path."""

import json
from typing import Any

import pytest
from msgspec import Raw

from gateway.core.errors import GatewayError
from gateway.core.ingest import Dropped, holds_placeholder
from gateway.core.limits import Limits
from gateway.core.model import EMPTY
from tests.core.build import (
    Json,
    board,
    capability,
    change_of_publish,
    described,
    projected,
    published,
    refusal,
)

REGION = {"id": "board", "title": "Board", "fields": ["dest", {"name": "note", "maxChars": 5}]}
RECORD = {"id": "a", "region": "board"}
MESSAGE = {"id": "f", "level": "error", "message": "m"}


def of(*fields: Any, **more: Any) -> Json:
    """A snapshot of one region and one record with this field `dest`."""
    return {"regions": [REGION], "records": [RECORD | {"fields": {"dest": value}} for value in fields]} | more


REFUSED: list[tuple[str, Json, str, str]] = [
    ("a record id doubled", of(1, 2), "invalid_params", "/snapshot/records/1/id"),
    ("a region id doubled", {"regions": [REGION, REGION]}, "invalid_params", "/snapshot/regions/1/id"),
    ("a capability doubled", {"capabilities": [capability("c")] * 2}, "invalid_params", "/snapshot/capabilities/1/id"),
    ("feedback doubled", {"feedback": [MESSAGE, MESSAGE]}, "invalid_params", "/snapshot/feedback/1/id"),
    (
        "a pair of unavailable doubled",
        of(1, capabilities=[capability("c")], unavailable=[{"capability": "c", "record": "a", "reason": "r"}] * 2),
        "invalid_params",
        "/snapshot/unavailable/1",
    ),
    ("an unknown region", {"records": [RECORD]}, "invalid_params", "/snapshot/records/0/region"),
    (
        "an unknown parent",
        {"regions": [{"id": "r", "title": "R", "parent": "s"}, {"id": "s", "title": "S", "parent": "z"}]},
        "invalid_params",
        "/snapshot/regions/1/parent",
    ),
    (
        "a parent that is itself",
        {"regions": [REGION, {"id": "r", "title": "R", "parent": "r"}]},
        "invalid_params",
        "/snapshot/regions/1/parent",
    ),
    (
        "a circle of three",
        {"regions": [{"id": str(n), "title": "R", "parent": str((n + 1) % 3)} for n in range(3)]},
        "invalid_params",
        "/snapshot/regions/0/parent",
    ),
    (
        "a way that leads into a circle",
        {"regions": [REGION] + [{"id": str(n), "title": "R", "parent": "1"} for n in range(3)]},
        "invalid_params",
        "/snapshot/regions/1/parent",
    ),
    (
        "a field name doubled",
        {"regions": [{"id": "r", "title": "R", "fields": ["f", {"name": "f"}]}]},
        "invalid_params",
        "/snapshot/regions/0/fields/1",
    ),
    (
        "feedback of an unknown record",
        {"feedback": [MESSAGE | {"record": "a"}]},
        "invalid_params",
        "/snapshot/feedback/0/record",
    ),
    (
        "feedback of an unknown region",
        {"feedback": [MESSAGE | {"region": "a"}]},
        "invalid_params",
        "/snapshot/feedback/0/region",
    ),
    (
        "feedback of an unknown capability",
        {"feedback": [MESSAGE | {"capability": "a"}]},
        "invalid_params",
        "/snapshot/feedback/0/capability",
    ),
    (
        "unavailable of an unknown capability",
        of(1, unavailable=[{"capability": "c", "record": "a", "reason": "r"}]),
        "invalid_params",
        "/snapshot/unavailable/0/capability",
    ),
    (
        "unavailable of an unknown record",
        {"capabilities": [capability("c")], "unavailable": [{"capability": "c", "record": "a", "reason": "r"}]},
        "invalid_params",
        "/snapshot/unavailable/0/record",
    ),
    (
        "a placeholder",
        of({"x": [{"$placeholder": None}]}),
        "invalid_params",
        "/snapshot/records/0/fields/dest",
    ),
    (
        "a reference in a circle",
        {
            "capabilities": [
                capability(
                    "c", arguments={"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
                )
            ]
        },
        "invalid_params",
        "/snapshot/capabilities/0/arguments/$defs/a/$ref",
    ),
    (
        "a pattern with look-ahead",
        {"capabilities": [capability("c", arguments={"type": "object", "patternProperties": {"(?=a)": True}})]},
        "invalid_params",
        "/snapshot/capabilities/0/arguments/patternProperties/(?=a)",
    ),
    ("a page parameter of null", {"page": {"params": {"a": None}}}, "invalid_params", "/snapshot/page/params/a"),
    ("a negative total", {"recordsTotal": -1}, "invalid_params", "/snapshot/recordsTotal"),
    ("a total of null", {"recordsTotal": None}, "invalid_params", "/snapshot/recordsTotal"),
    ("a scope of numbers", {"scope": {"tenant": 1}}, "invalid_params", "/snapshot/scope/tenant"),
    (
        "an exposure of later",
        {"regions": [{"id": "r", "title": "R", "fields": [{"name": "f", "expose": "mask"}]}]},
        "invalid_params",
        "/snapshot/regions/0/fields/0/expose",
    ),
    (
        "a field name with a dot",
        {"regions": [{"id": "r", "title": "R", "fields": ["a.b"]}]},
        "invalid_params",
        "/snapshot/regions/0/fields/0",
    ),
    (
        "maxChars of nothing",
        {"regions": [{"id": "r", "title": "R", "fields": [{"name": "f", "maxChars": 0}]}]},
        "invalid_params",
        "/snapshot/regions/0/fields/0/maxChars",
    ),
    (
        "maxChars above fieldChars",
        {"regions": [{"id": "r", "title": "R", "fields": [{"name": "f", "maxChars": 4097}]}]},
        "limit_exceeded",
        "/snapshot/regions/0/fields/0/maxChars",
    ),
    (
        "too many fields",
        {"regions": [{"id": "r", "title": "R", "fields": [f"f{n}" for n in range(65)]}]},
        "limit_exceeded",
        "/snapshot/regions/0/fields",
    ),
    (
        "too many regions",
        {"regions": [{"id": f"r{n}", "title": "R"} for n in range(101)]},
        "limit_exceeded",
        "/snapshot/regions",
    ),
    (
        "too many capabilities",
        {"capabilities": [capability(f"c{n}") for n in range(201)]},
        "limit_exceeded",
        "/snapshot/capabilities",
    ),
    (
        "capabilities too large together",
        {"capabilities": [capability(f"c{n}", description="x" * 1024) for n in range(64)]},
        "limit_exceeded",
        "/snapshot/capabilities",
    ),
    (
        "feedback 51",
        {"feedback": [MESSAGE | {"id": f"f{n}"} for n in range(51)]},
        "limit_exceeded",
        "/snapshot/feedback",
    ),
    ("too long a title", {"page": {"title": "x" * 1025}}, "limit_exceeded", "/snapshot/page/title"),
    ("too long a route", {"page": {"route": "x" * 1025}}, "limit_exceeded", "/snapshot/page/route"),
    ("too long a parameter", {"page": {"params": {"a": "x" * 1025}}}, "limit_exceeded", "/snapshot/page/params/a"),
    (
        "too many parameters",
        {"page": {"params": {str(n): "x" * 1000 for n in range(17)}}},
        "limit_exceeded",
        "/snapshot/page/params",
    ),
    (
        "too long a description",
        {"regions": [REGION | {"description": "x" * 1025}]},
        "limit_exceeded",
        "/snapshot/regions/0/description",
    ),
    (
        "too long a description of a capability",
        {"capabilities": [capability("c", description="x" * 1025)]},
        "limit_exceeded",
        "/snapshot/capabilities/0/description",
    ),
    (
        "too long a message",
        {"feedback": [MESSAGE | {"message": "x" * 1025}]},
        "limit_exceeded",
        "/snapshot/feedback/0/message",
    ),
    (
        "too long a reason",
        {"capabilities": [capability("c")], "unavailable": [{"capability": "c", "reason": "x" * 1025}]},
        "limit_exceeded",
        "/snapshot/unavailable/0/reason",
    ),
    ("too large a state", {"state": {"a": ["x" * 4096] * 4}}, "limit_exceeded", "/snapshot/state"),
    ("too large a field", of(["x" * 4096] * 4), "limit_exceeded", "/snapshot/records/0/fields/dest"),
    ("too many texts of scope", {"scope": {str(n): "t" for n in range(17)}}, "limit_exceeded", "/snapshot/scope"),
    ("too long a text of scope", {"scope": {"t": "x" * 1025}}, "limit_exceeded", "/snapshot/scope/t"),
]


@pytest.mark.parametrize(("snapshot", "kind", "path"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_snapshot_is_refused_whole(snapshot: Json, kind: str, path: str) -> None:
    with pytest.raises(GatewayError) as caught:
        change_of_publish(EMPTY, snapshot)
    assert refusal(caught.value) == (kind, path)
    assert set(caught.value.wire()["data"]) >= (
        {"limit", "maximum", "given"} if kind == "limit_exceeded" else {"expected"}
    )


def test_at_the_limit_nothing_is_refused() -> None:
    limits = Limits(regions=2, capabilities=2, feedback=2, fields_per_record=2, text_chars=4, record_bytes=60)
    snapshot: Json = {
        "page": {"title": "xxxx", "params": {"a": "xxxx"}},
        "regions": [{"id": str(n), "title": "xxxx", "fields": ["a", "b"]} for n in range(2)],
        "capabilities": [capability(str(n)) for n in range(2)],
        "feedback": [MESSAGE | {"id": str(n)} for n in range(2)],
        "records": [{"id": "1", "region": "1", "fields": {"a": "x" * 19}}],
    }
    assert len(json.dumps(described(published(snapshot, limits))["context"]["records"][0], separators=(",", ":"))) == 60
    snapshot["records"][0]["fields"]["a"] += "x"
    with pytest.raises(GatewayError) as caught:
        published(snapshot, limits)
    data = caught.value.wire()["data"]
    assert (data["limit"], data["maximum"], data["given"], data["path"]) == (
        "recordBytes",
        60,
        61,
        "/snapshot/records/0",
    )


def test_100_001_records_are_refused_and_100_000_are_not() -> None:
    few = Limits(records=100_000, publish_bytes=2**24)
    snapshot = board(100_001)
    with pytest.raises(GatewayError) as caught:
        change_of_publish(EMPTY, snapshot, few)
    data = caught.value.wire()["data"]
    assert refusal(caught.value) == ("limit_exceeded", "/snapshot/records")
    assert (data["limit"], data["maximum"], data["given"]) == ("records", 100_000, 100_001)
    snapshot["records"].pop()
    assert projected(published(snapshot, few)).ids_total == 100_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (80.0, "80"),
        (1e2, "100"),
        (-0.0, "0"),
        (-3.0, "-3"),
        (0.1, "0.1"),
        (2**53 - 1.0, "9007199254740991"),
        (2**53, "9007199254740992"),
        (float(2**53), "9007199254740992.0"),
        (10**308, "1" + "0" * 308),
        (1e300, "1e300"),
        (True, "true"),
        ([{"b": 1.0, "a": [2.0, None]}], '[{"a":[2,null],"b":1}]'),
    ],
)
def test_numbers_are_kept_as_the_text_of_json_says(given: Any, told: str) -> None:
    wherever = of(
        given, state={"n": given}, capabilities=[capability("c", arguments={"type": "object", "const": given})]
    )
    snapshot = published(wherever)
    assert bytes(snapshot.records["a"].fields) == b'{"dest":' + told.encode() + b"}"
    assert bytes(snapshot.state["n"]) == told.encode()
    assert f'"arguments":{{"const":{told},"type":"object"}}'.encode() in bytes(snapshot.capabilities["c"].text)


@pytest.mark.parametrize(
    ("given", "kept", "cut"),
    [
        ("12345", "12345", False),
        ("123456", "12345", True),
        ("🛫🛬🛫🛬🛫", "🛫🛬🛫🛬🛫", False),
        ("🛫🛬🛫🛬🛫🛬", "🛫🛬🛫🛬🛫", True),
        ("e\u0301" * 3, "e\u0301e\u0301e", True),
        ("\x00" * 6, "\x00" * 5, True),
        (["123456", {"name longer than five": "1"}], ["12345", {"name longer than five": "1"}], True),
        ({"a": {"b": ["1234567"]}}, {"a": {"b": ["12345"]}}, True),
        (123456789, 123456789, False),
        (None, None, False),
        ("", "", False),
    ],
)
def test_texts_are_cut_by_code_points_at_any_depth_and_named(given: Any, kept: Any, cut: bool) -> None:
    snapshot = published({"regions": [REGION], "records": [RECORD | {"fields": {"note": given, "dest": "123456"}}]})
    (record,) = described(snapshot)["context"]["records"]
    assert record["fields"] == {"dest": "123456", "note": kept}
    assert record.get("truncated") == (["note"] if cut else None)


def test_at_most_64_dropped_names_are_told_beside_how_many_there_were() -> None:
    names = [f"n{n:03}" for n in range(70)]
    records = [{"id": str(n), "region": "board", "fields": dict.fromkeys(reversed(names), 1)} for n in range(3)]
    dropped = Dropped()
    change_of_publish(EMPTY, {"regions": [REGION], "records": records}, dropped=dropped)
    told = dropped.told()
    assert told["droppedTotal"] == 70
    assert told["dropped"] == [{"region": "board", "name": name, "why": "undeclared"} for name in names[:64]]
    dropped.clear()
    assert dropped.told() == {}


def test_undeclared_fields_are_nowhere_in_what_is_kept() -> None:
    change = change_of_publish(
        EMPTY, {"regions": [REGION], "records": [RECORD | {"fields": {"x": "canary", "dest": 1}}]}
    )
    assert b"canary" not in repr(change).encode()


def test_what_a_field_nobody_declared_holds_is_not_judged() -> None:
    values = {"x": {"$placeholder": 1}, "y": "z" * 20_000}
    assert published({"regions": [REGION], "records": [RECORD | {"fields": values}]}).records["a"].fields == Raw(b"{}")


def test_a_placeholder_is_found_at_any_depth() -> None:
    assert holds_placeholder([[{"a": {"$placeholder": {}}}]])
    assert not holds_placeholder(["$placeholder", {"placeholder": "$placeholder"}])


def test_defaults_are_told_as_if_they_were_sent() -> None:
    told = described(
        published(
            {
                "regions": [{"id": "r", "title": "R", "fields": ["f"]}],
                "capabilities": [
                    {"id": "c", "title": "", "description": "", "appliesTo": "session", "effect": "destructive"}
                ],
                "feedback": [MESSAGE],
            }
        )
    )
    assert told["capabilities"] == [
        {
            "id": "c",
            "title": "",
            "description": "",
            "appliesTo": "session",
            "region": None,
            "arguments": {"additionalProperties": False, "type": "object"},
            "effect": "destructive",
            "confirm": True,
            "idempotent": False,
        }
    ]
    assert told["context"]["regions"] == [
        {
            "id": "r",
            "title": "R",
            "description": "",
            "parent": None,
            "active": True,
            "modal": False,
            "fields": [{"name": "f", "expose": "plain", "source": "application"}],
        }
    ]
    assert told["context"]["feedback"] == [MESSAGE | {"source": "application"}]


def test_an_empty_session_answers_empty_arrays_and_zeros() -> None:
    context = described(published({}))["context"]
    assert "page" not in context and context["state"] == {}
    assert all(context[name] == [] for name in ("regions", "unavailable", "feedback", "records", "recordIds"))
    assert {value for name, value in context.items() if name.endswith("Total")} == {0}
    assert context["recordWindow"] == {"offset": 0, "limit": 8, "returned": 0, "total": 0}
    assert described(published({"page": {}}))["context"]["page"] == {}
