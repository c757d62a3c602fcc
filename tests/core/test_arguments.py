"""`arguments` of a capability (protocol §6): a subset of JSON Schema 2020-12 in which nothing leads out or round."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.arguments import COUNT_MAX, DIALECT, check_arguments
from gateway.core.errors import GatewayError
from gateway.core.limits import Limits

LIMITS = Limits()


def refused(schema: Any, limits: Limits = LIMITS) -> dict[str, Any]:
    with pytest.raises(GatewayError) as caught:
        check_arguments(schema, limits, "/a")
    data: dict[str, Any] = caught.value.wire()["data"]
    return data


def of(**keywords: Any) -> dict[str, Any]:
    """An object schema; `defs` and `ref` stand for `$defs` and `$ref`."""
    names = {"defs": "$defs", "ref": "$ref"}
    return {"type": "object"} | {names.get(name, name): value for name, value in keywords.items()}


def prop(schema: Any, **keywords: Any) -> dict[str, Any]:
    return of(properties={"x": schema}, **keywords)


RIGHT: list[dict[str, Any]] = [
    of(),
    of(additionalProperties=False),
    {"$schema": DIALECT} | of(),
    prop({"type": "integer", "minimum": 1}, required=["x"]),
    prop({"type": ["string", "null"], "pattern": "^[A-Z]{2}\\d+$", "maxLength": 5.0}),
    prop({"enum": [{"$id": "http://x/", "$ref": "http://x/"}], "default": {"$ref": 5}, "examples": [{"$anchor": 1}]}),
    of(properties={name: {"type": "string"} for name in ("$id", "$ref", "$schema", "$anchor", "pattern", "__proto__")}),
    of(required=["$ref"], const={"$ref": "http://x/"}),
    prop({"$ref": "#/$defs/a"}, defs={"a": {"type": "string"}}),
    prop({"$ref": "#/$defs/a~1b%20c"}, defs={"a/b c": {"$ref": "#/$defs/%C3%A4"}, "ä": True}),
    prop({"$ref": "#/$defs/%C3%A4"}, defs={"ä": True}),
    prop({"$ref": "#/$defs/a/properties/b"}, defs={"a": {"properties": {"b": False}}}),
    prop({"$ref": "#/$defs/a/anyOf/1"}, defs={"a": {"anyOf": [True, {"minimum": 10**300}]}}),
    of(allOf=[{"if": True, "then": {"not": False}, "else": {}}], unevaluatedProperties=False),
    of(patternProperties={"^a": {}}, propertyNames={"pattern": "^\\p{L}{1,50}$"}, dependentSchemas={"a": {}}),
    prop({"items": {"type": "array", "prefixItems": [{}, True], "contains": {}, "items": False}}),
    prop({"type": "string", "placeholder": True, "x-own": {"$id": "http://x/"}, "format": "no-such"}),
    of(dependencies={"a": ["b"], "b": {"minProperties": 1}}),
]


@pytest.mark.parametrize("schema", RIGHT)
def test_a_schema_of_the_subset_is_taken(schema: dict[str, Any]) -> None:
    check_arguments(schema, LIMITS, "/a")


WRONG: list[tuple[Any, str]] = [
    (None, "/a"),
    (True, "/a"),
    ([], "/a"),
    ("object", "/a"),
    ({}, "/a/type"),
    ({"type": "string"}, "/a/type"),
    ({"type": ["object"]}, "/a/type"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, "/a/type"),
    *(
        (of() | {name: "x"}, f"/a/{name}")
        for name in ("$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef")
    ),
    (of() | {"$vocabulary": {}}, "/a/$vocabulary"),
    (of() | {"$schema": "http://json-schema.org/draft-07/schema#"}, "/a/$schema"),
    (of() | {"$schema": "http://127.0.0.1:9/schema"}, "/a/$schema"),
    (prop({"$id": "x"}), "/a/properties/x/$id"),
    (of(definitions={"d": {"$id": "x"}}), "/a/definitions/d/$id"),
    (of(dependencies={"d": {"$anchor": "x"}}), "/a/dependencies/d/$anchor"),
    (prop({"contentSchema": {"$dynamicRef": "#x"}}), "/a/properties/x/contentSchema/$dynamicRef"),
    (prop({"anyOf": [{}, {"items": {"$id": "x"}}]}), "/a/properties/x/anyOf/1/items/$id"),
    *(
        (prop({"$ref": ref}, defs={"a": {}, "b": {"const": {}}, "ä": {}, "d d": {}}), "/a/properties/x/$ref")
        for ref in (
            "http://127.0.0.1:9/x",
            "file:///etc/passwd",
            "other.json",
            "",
            "#",
            "#/",
            "#/$defs",
            "#/$defs/",
            "#/$defs/c",
            "#/$defs/a/",
            "#/$defs/b/const",
            "#/$defs/%ff",
            "#/$defs/ä",
            "#/$defs/d d",
            "#/properties/x",
            "#a",
            5,
            None,
        )
    ),
    (prop({"$ref": "#/$defs/a"}, defs={"a": {"$ref": "#/$defs/a"}}), "/a/$defs/a/$ref"),
    (prop({"$ref": "#/$defs/a"}, defs={"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}), "/a/$defs/b/$ref"),
    (of(defs={"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}), "/a/$defs/a/properties/next/$ref"),
    (
        prop({"$ref": "#/$defs/a/properties/b"}, defs={"a": {"properties": {"b": {"$ref": "#/$defs/a"}}}}),
        "/a/$defs/a/properties/b/$ref",
    ),
    (prop({"pattern": 5}), "/a/properties/x/pattern"),
    *(
        (prop({"pattern": pattern}), "/a/properties/x/pattern")
        for pattern in (
            "(?=a)",
            "(?!a)b",
            "(?<=a)b",
            "(?<!a)b",
            "(a)\\1",
            "(?<n>a)\\k<n>",
            "(",
            "[",
            "a{2,1}",
            "(a{1000}){1000}",
        )
    ),
    (of(defs={"unused": {"pattern": "(?!a)"}}), "/a/$defs/unused/pattern"),
    (of(patternProperties={"^a/(?!b)": {}}), "/a/patternProperties/^a~1(?!b)"),
    (prop(5), "/a/properties/x"),
    (prop(None), "/a/properties/x"),
    (of(additionalProperties=None), "/a/additionalProperties"),
    (of(properties=[]), "/a/properties"),
    (of(required=["a", "a"]), "/a/required"),
    (of(minProperties=-1), "/a/minProperties"),
    (of(allOf=[]), "/a/allOf"),
    (of(allOf={}), "/a/allOf"),
    (prop({"type": "objet"}), "/a/properties/x/type"),
    (prop({"minimum": "1"}), "/a/properties/x/minimum"),
    (prop({"multipleOf": 0}), "/a/properties/x/multipleOf"),
    (prop({"items": [{}]}), "/a/properties/x/items"),
    (of(properties={"a/b~": {"maxLength": "1"}}), "/a/properties/a~1b~0/maxLength"),
]


@pytest.mark.parametrize(("schema", "path"), WRONG)
def test_what_the_subset_does_not_have_is_refused_at_its_place(schema: Any, path: str) -> None:
    data = refused(schema)
    assert (data["kind"], data["path"]) == ("invalid_params", path)
    assert data["expected"] and "127.0.0.1" not in data["expected"] and "passwd" not in data["expected"]


def test_subschemas_are_counted_with_references_followed() -> None:
    limits = Limits(schema_nodes=10)
    check_arguments(of(properties={str(n): True for n in range(9)}), limits, "/a")
    assert refused(of(properties={str(n): True for n in range(10)}), limits) == {
        "kind": "limit_exceeded",
        "errorClass": "permanent",
        "retryable": False,
        "limit": "schemaNodes",
        "maximum": 10,
        "given": 11,
        "path": "/a",
    }
    two = {"properties": {"y": True}}
    check_arguments(
        of(properties={"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}}, defs={"t": two}), limits, "/a"
    )
    # the root, three references, the definition of 2 where it stands and at each reference
    three = {name: {"$ref": "#/$defs/t"} for name in "abc"}
    assert refused(of(properties=three, defs={"t": two}), limits)["given"] == 1 + 3 + 2 + 3 * 2


@pytest.mark.parametrize("doublings", [12, 50, 400])
def test_references_that_double_at_every_step_are_counted_without_being_walked(doublings: int) -> None:
    defs: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(doublings)}
    defs[f"d{doublings}"] = {}
    data = refused(prop({"$ref": "#/$defs/d0"}, defs=defs))
    assert (data["kind"], data["limit"]) == ("limit_exceeded", "schemaNodes")
    assert 2**doublings < data["given"] or data["given"] == COUNT_MAX


def test_a_long_chain_of_references_is_no_deep_recursion() -> None:
    length = 1_900
    defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)} | {f"d{length}": {}}
    assert refused(prop({"$ref": "#/$defs/d0"}, defs=defs))["limit"] == "schemaNodes"


def naive_count(schema: Any, root: dict[str, Any]) -> int:
    """Subschemas of the keywords the strategy below uses, references written out."""
    if not isinstance(schema, dict):
        return 1
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", []), *schema.get("$defs", {}).values()]
    if "$ref" in schema:
        below.append(root["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    return 1 + sum(naive_count(child, root) for child in below)


@cache
def schemas(first: int, size: int) -> st.SearchStrategy[Any]:
    """Schemas that refer to the definitions from `first` on, of `size`; made once, for making them is what takes long."""
    refs = [st.just({"$ref": f"#/$defs/{n}"}) for n in range(first, size)]
    return st.recursive(
        st.one_of(st.booleans(), st.just({"type": "string"}), *refs),
        lambda s: (
            st.builds(lambda a: {"anyOf": a}, st.lists(s, min_size=1, max_size=3))
            | st.builds(lambda p: {"properties": p}, st.dictionaries(st.sampled_from("ab"), s))
        ),
        max_leaves=5,
    )


@given(st.data())
def test_the_count_is_that_of_the_schema_written_out(data: st.DataObject) -> None:
    """Definition n refers only to those behind it: no circle."""
    size = data.draw(st.integers(1, 5))
    root = prop(data.draw(schemas(0, size)), defs={str(n): data.draw(schemas(n + 1, size)) for n in range(size)})
    count = naive_count(root, root)
    check_arguments(root, Limits(schema_nodes=count), "/a")
    if count > 1:
        data_told = refused(root, Limits(schema_nodes=count - 1))
        assert data_told["limit"] == "schemaNodes"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda v: (
        st.lists(v, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "$defs",
                    "$ref",
                    "items",
                    "anyOf",
                    "pattern",
                    "patternProperties",
                    "not",
                    "const",
                    "$id",
                    "required",
                ]
            ),
            v,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_value_is_taken_or_refused(schema: Any) -> None:
    if isinstance(schema, dict):
        schema = schema | {"type": "object"}
    try:
        check_arguments(schema, LIMITS, "")
    except GatewayError as error:
        assert error.kind in ("invalid_params", "limit_exceeded")
        assert error.data["path"] == "" or error.data["path"].startswith("/")
