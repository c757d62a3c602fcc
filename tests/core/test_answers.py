"""What the core makes of random sessions has the types of `answers`, its members in their order (protocol §2)."""

import json
from typing import Any

import jsonschema_rs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway import schemas
from gateway.core import model, observe, view
from gateway.core.change import difference, patched
from gateway.core.ingest import Dropped, content
from gateway.core.limits import Limits
from gateway.core.order import finish
from gateway.core.params import ChangeIn, Patch, Publish, SnapshotIn, ViewParams
from gateway.core.position import Position
from tests.core.frames import params_of
from tests.oracle import session as oracle
from tests.oracle import strategies

TARGET = view.Target("default", "unix:///run/store.sock")
SCHEMAS = schemas.schemas()
VALIDATORS = {name: jsonschema_rs.Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
TINY = Limits(response_bytes=2_048, after_bytes=2**20)


def check(name: str, text: bytes) -> None:
    """The text is valid under the schema, and its members stand as the schema's properties do."""
    value = json.loads(text)
    VALIDATORS[name].validate(value)
    check_order(value, SCHEMAS[name], SCHEMAS[name]["$defs"])


def check_order(value: Any, schema: dict[str, Any], defs: dict[str, Any]) -> None:
    while "$ref" in schema or "anyOf" in schema:
        options = schema.get("anyOf", [schema])
        schema = next(o for o in options if not isinstance(value, dict) or value.keys() <= members(o, defs).keys())
        schema = defs[schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
    if isinstance(value, list):
        for item in value:
            check_order(item, schema.get("items", {}), defs)
    elif isinstance(value, dict) and "properties" in schema:
        assert list(value) == [name for name in schema["properties"] if name in value]
        for name, member in value.items():
            check_order(member, schema["properties"][name], defs)
    elif isinstance(value, dict):
        assert list(value) == sorted(value)  # a free object


def members(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = defs[schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
    properties: dict[str, Any] = found.get("properties", {})
    return properties


def sent(method: str, params: dict[str, Any]) -> Any:
    """The params as a publisher's frame brings them."""
    return params_of(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))


@given(st.data())
def test_what_is_told_of_any_session_has_its_schema_and_order(data: st.DataObject) -> None:
    limits = data.draw(st.sampled_from([strategies.SMALL, Limits(), TINY]))
    published = data.draw(strategies.snapshots(limits, st.integers(0, 40)))
    assert VALIDATORS["publish-params"].is_valid({"session": "s", "base": None, "snapshot": published})
    publish = sent("publish", {"session": "s", "base": None, "snapshot": published})
    assert isinstance(publish, Publish) and publish.snapshot == msgspec.convert(published, SnapshotIn)
    state = oracle.publish(published, limits)
    change = finish(difference(model.EMPTY, finish(content(publish.snapshot, limits, Dropped()))))
    before = finish(model.apply(model.EMPTY, change, Position("e", 1), 1_795_000_000_000))
    asked = msgspec.convert({"session": "s"} | data.draw(strategies.views_for(state, limits)), ViewParams)
    seen = view.view_of(asked, None, limits)
    first = view.project(before, seen, limits, TARGET)
    check("describe-result", view.describe(first, seen, "none"))

    given_ = data.draw(strategies.change_for(state, limits))
    assert VALIDATORS["patch-params"].is_valid({"session": "s", "base": "any", "change": given_})
    patch = sent("patch", {"session": "s", "base": "any", "change": given_})
    assert isinstance(patch, Patch) and patch.change == msgspec.convert(given_, ChangeIn)
    change = finish(patched(before, patch.change, limits, Dropped()))
    after = finish(model.apply(before, change, Position("e", 2), before.as_of + 7))
    second = view.project(after, seen, limits, TARGET, first)
    check("described", view.describe(second, seen, "online"))
    kinds = observe.reasons(first, second, "", change.touched(), limits)
    check("invalidated", observe.invalidated_params(seen, second, kinds, "gone"))
    told = observe.after_params(first, second, seen, "data", limits)
    if told is not None and "navigation" not in kinds:
        check("after", told)
