"""`schemas/` is what the code says, and the protocol's own examples keep to it."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from gateway import schemas
from gateway.core import model
from gateway.core.errors import KINDS, exceeded, internal, invalid
from gateway.core.limits import Limits
from gateway.core.params import METHODS
from tests.core.test_explain import SAMPLES, is_right

COMMITTED = Path(__file__).parent.parent / "schemas"
ALL = schemas.schemas()

DESCRIBE: dict[str, Any] = json.loads(
    """
{"session":"departures","view":"v_9f2c","capabilities":[{"id":"flight.hold","title":"Hold a flight","description":"…","appliesTo":"record","region":"board",
   "arguments":{"additionalProperties":false,"properties":{"minutes":{"minimum":1,"type":"integer"}},"required":["minutes"],"type":"object"},
   "effect":"write","confirm":false,"idempotent":true}],"capabilitiesTotal":1,
 "context":{"page":{"title":"Departures","route":"/departures","params":{"airport":"JFK"}},
   "regions":[{"id":"board","title":"Board","description":"Flights of the next two hours","parent":null,"active":true,"modal":false,
     "fields":[{"name":"dest","expose":"plain","source":"application"},{"name":"status","expose":"plain","source":"application"}]}],"regionsTotal":1,
   "state":{"filter":"all"},
   "unavailable":[{"capability":"flight.hold","record":"UA-1545","reason":"Departed"}],"unavailableTotal":1,
   "feedback":[{"id":"f1","level":"warning","message":"…","record":"UA-1545","source":"application"}],"feedbackTotal":1,
   "recordWindow":{"offset":0,"limit":1,"returned":1,"total":2,"next":1},
   "records":[{"id":"UA-1545","region":"board","fields":{"dest":"IAH","status":"Boarding"}}],"recordsTotal":2,
   "recordIds":["UA-1545","B6-725"],"recordIdsTotal":2,
   "agent_surface":{"db_path_source":"argv","db_path_resolved":"redis://10.0.0.5:6379/0","query_limited":true,"query_limit":1,"query_limit_source":"flag",
     "query_limit_kind":"pagination","universe_total":2,"filter_scope":"page","filter_incomplete":true}},
 "epoch":"k3v9","revision":42,"asOf":"2026-11-30T21:00:00.000Z","publisher":"online"}
"""
)
"""The example of protocol §5."""

TARGET = {"db_path_source": "default", "db_path_resolved": "unix:///run/store.sock"}
AFTER = {"session": "s", "view": "v", "epoch": "e", "base": 1, "revision": 2, "asOf": "2026-11-30T21:00:00.000Z"}
REASONS = [{"kind": "gap", "required": True}, {"kind": "publisher", "required": False, "publisher": "gone"}]


def is_valid(name: str, instance: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(ALL[name]).is_valid(instance)


def test_the_committed_schemas_are_those_of_the_code() -> None:
    assert schemas.check(COMMITTED) == []


def test_write_and_check_know_what_is_missing_stale_and_different(tmp_path: Path) -> None:
    there = tmp_path / "schemas"
    assert schemas.check(there) == sorted(schemas.texts())
    assert [path.name for path in schemas.write(there)] == sorted(schemas.texts())
    assert schemas.check(there) == []
    (there / "ping-params.schema.json").unlink()
    (there / "after.schema.json").write_text("{}")
    (there / "gone.schema.json").write_text("{}")
    (there / "README.md").write_text("")
    assert schemas.check(there) == ["after.schema.json", "gone.schema.json", "ping-params.schema.json"]
    schemas.write(there)
    assert schemas.check(there) == []
    assert (there / "README.md").exists()


@pytest.mark.parametrize("name", ALL)
def test_every_schema_is_one_and_stands_alone(name: str) -> None:
    schema = ALL[name]
    assert (schema["$schema"], schema["$id"]) == (schemas.DIALECT, f"{name}.schema.json")
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.Draft202012Validator(schema, retriever=refuse)  # every reference stays inside
    assert json.loads(schemas.texts()[f"{name}.schema.json"]) == schema


def refuse(uri: str) -> Any:
    raise LookupError(uri)


def test_every_method_has_params_and_a_result() -> None:
    assert {f"{method}-{part}" for method in METHODS for part in ("params", "result")} <= ALL.keys()


@pytest.mark.parametrize("method", METHODS)
def test_the_schema_of_params_says_what_the_decoder_does(method: str) -> None:
    assert is_valid(f"{method}-params", SAMPLES[method]) and is_right(method, SAMPLES[method])
    for wrong in (SAMPLES[method] | {"x": 1}, SAMPLES[method] | {"session": 1}, SAMPLES[method] | {"view": None}):
        assert not is_valid(f"{method}-params", wrong) and not is_right(method, wrong)


def test_the_example_of_a_describe_response() -> None:
    for name in ("describe-result", "described"):
        assert is_valid(name, DESCRIBE)
        for member in DESCRIBE:
            assert not is_valid(name, {key: value for key, value in DESCRIBE.items() if key != member})
        assert not is_valid(name, DESCRIBE | {"x": 1})
    context = DESCRIBE["context"]
    optional = {"page"}
    for member in context:
        less = {key: value for key, value in context.items() if key != member}
        assert is_valid("describe-result", DESCRIBE | {"context": less}) == (member in optional)
    more = {"missing": ["a"], "recordIdsWindow": {"offset": 0, "returned": 2, "total": 2}, "truncated": True}
    assert is_valid("describe-result", DESCRIBE | {"context": context | more})
    assert not is_valid("describe-result", DESCRIBE | {"context": context | {"x": 1}})


def test_the_order_of_members_is_that_of_the_example() -> None:
    definitions = ALL["describe-result"]["$defs"]
    assert list(definitions["DescribeResult"]["properties"]) == list(DESCRIBE)
    context = [name for name in definitions["Context"]["properties"] if name in DESCRIBE["context"]]
    assert context == list(DESCRIBE["context"])


def test_what_stands_in_place_of_a_context() -> None:
    stub = {"truncated": True, "truncated_reason": "max_output_bytes", "max_output_bytes": 5}
    assert is_valid("describe-result", DESCRIBE | {"context": stub})
    assert not is_valid("describe-result", DESCRIBE | {"context": stub | {"records": []}})


@pytest.mark.parametrize(
    ("name", "instance"),
    [
        ("ping-result", {}),
        ("unsubscribe-result", {}),
        ("end-result", {"agent_surface": TARGET}),
        ("publish-result", {"epoch": "e", "revision": 1, "agent_surface": TARGET}),
        (
            "patch-result",
            {
                "epoch": "e",
                "revision": 1,
                "unchanged": True,
                "dropped": [{"region": "r", "name": "f", "why": "undeclared"}],
                "droppedTotal": 1,
                "agent_surface": TARGET,
            },
        ),
        (
            "sessions-result",
            {
                "sessions": [
                    {
                        "session": "s",
                        "title": "t",
                        "epoch": "e",
                        "revision": 1,
                        "asOf": "2026-11-30T21:00:00.000Z",
                        "publisher": "none",
                    }
                ],
                "next": "c",
                "total": 2,
                "agent_surface": TARGET,
            },
        ),
        (
            "changes-result",
            {
                "kind": "unchanged",
                "view": "v",
                "epoch": "e",
                "revision": 1,
                "publisher": "none",
                "agent_surface": TARGET,
            },
        ),
        (
            "changes-result",
            {"kind": "after", "view": "v", "after": AFTER, "publisher": "none", "agent_surface": TARGET},
        ),
        (
            "changes-result",
            {
                "kind": "invalidated",
                "view": "v",
                "epoch": "e",
                "revision": 1,
                "reasons": REASONS,
                "publisher": "none",
                "agent_surface": TARGET,
            },
        ),
        ("subscribe-result", {"view": "v", "epoch": "e", "revision": 1, "recovered": False, "describe": DESCRIBE}),
        (
            "subscribe-result",
            {
                "view": "v",
                "epoch": "e",
                "revision": 2,
                "recovered": True,
                "after": AFTER,
                "publisher": "none",
                "agent_surface": TARGET,
            },
        ),
        ("after", AFTER),
        (
            "after",
            AFTER
            | {
                "cause": {"kind": "data"},
                "records": [{"id": "a", "fields": {"x": None}, "unset": ["y"], "truncated": None}],
                "left": ["b"],
                "recordIds": {"removed": ["b"], "added": [{"id": "c", "at": 0}]},
                "recordIdsWindow": None,
                "state": {"set": {}, "unset": ["s"]},
                "truncated": None,
                "withdrawn": ["c"],
                "totals": {"recordIdsTotal": 3},
            },
        ),
        ("invalidated", {"session": "s", "view": "v", "epoch": "e", "revision": 1, "reasons": REASONS}),
        ("ended", {"session": "s", "reason": "lost"}),
        ("goodbye", {"reason": "draining", "reconnectAfterMs": 5, "jitterMs": 0}),
        (
            "hello-result",
            {
                "server": {"name": "context-gateway", "version": "0"},
                "protocol": "context.v1",
                "connection": "c1",
                "principal": "local:c1",
                "grants": [{"prefix": "", "can": ["describe", "publish"]}],
                "limits": Limits().wire(),
            },
        ),
        ("error", invalid("/a", "an id").wire()),
        ("error", exceeded("depth", 32, 33).wire()),
        ("error", internal("patch").wire()),
    ],
)
def test_what_is_sent_has_a_schema_that_takes_it_and_nothing_else(name: str, instance: dict[str, Any]) -> None:
    assert is_valid(name, instance)
    assert not is_valid(name, instance | {"no such member": 1})
    assert not is_valid(name, [instance])


def test_every_kind_of_error_is_in_the_schema() -> None:
    for kind in KINDS:
        data = {"kind": kind, "errorClass": "permanent", "retryable": False}
        assert is_valid("error", {"code": 1, "message": "", "data": data})
    assert not is_valid(
        "error", {"code": 1, "message": "", "data": {"kind": "x", "errorClass": "permanent", "retryable": False}}
    )


def test_the_text_of_a_schema_is_the_same_every_time() -> None:
    assert schemas.texts() == schemas.texts()
    assert list(schemas.texts()) == sorted(schemas.texts())
    assert model.text(msgspec.json.decode(schemas.texts()["error.schema.json"])) == model.text(ALL["error"])
