"""Which JSON Schemas a capability may declare as its `arguments` (protocol §6).

The schema is walked by us before the validator library sees it, and the library is given nothing to fetch or open
references with, and the regular expression engine that knows no look-around and no back-reference.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import jsonschema_rs

from gateway.core.errors import exceeded, invalid
from gateway.core.explain import escape
from gateway.core.limits import Limits

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
COUNT_MAX: Final = 2**53 - 1  # a count of subschemas is told up to this; references can make it grow as 2 to the n
PATTERN_BYTES: Final = (
    262_144  # of a compiled pattern: about 2 ms to compile; `^\p{L}{1,50}$` fits, `(a{1000}){1000}` does not
)

_ONE: Final = frozenset(
    [
        "additionalProperties",
        "unevaluatedProperties",
        "items",
        "unevaluatedItems",
        "contains",
        "propertyNames",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ]
)
_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies"}
)
_REFUSED: Final = frozenset(
    ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"]
)
_REFERENCE: Final = re.compile(r"#/\$defs/(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})+")  # RFC 3986 §3.5
_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)


class _Edge(NamedTuple):
    target: str
    is_ref: bool


def check_arguments(schema: Any, limits: Limits, path: str) -> None:
    """Refuse `arguments` that are no object schema of JSON Schema 2020-12 in the subset of protocol §6.

    Subschemas are counted where they stand, and all of those a `$ref` leads to once more at every `$ref`; true and
    false count as one.

    Args:
        schema: the value of `arguments`, at most `limits.depth` deep.
        path: the JSON Pointer of `arguments` in the params; paths in errors begin with it.

    Raises:
        GatewayError: `invalid_params`, or `limit_exceeded` (`schemaNodes`).
    """
    if not isinstance(schema, dict):
        raise invalid(path, "a JSON Schema: an object")
    if schema.get("type") != "object":
        raise invalid(f"{path}/type", '"object"')
    edges = _walk(schema, limits, path)
    count = _count(edges, path)
    if count > limits.schema_nodes:
        raise exceeded("schemaNodes", limits.schema_nodes, count, path=path)
    try:
        jsonschema_rs.Draft202012Validator(schema, retriever=_fetch_nothing, pattern_options=_PATTERNS)
    except jsonschema_rs.ValidationError as error:
        at = "".join(f"/{escape(str(part))}" for part in error.instance_path)
        raise invalid(path + at, "what JSON Schema 2020-12 allows here") from None


def _walk(root: dict[str, Any], limits: Limits, path: str) -> dict[str, list[_Edge]]:
    """The subschemas of each subschema, by JSON Pointer; what the subset does not have is refused on the way."""
    edges: dict[str, list[_Edge]] = {}
    refs: list[tuple[str, str]] = []
    rest: list[tuple[str, Any]] = [("", root)]
    while rest:
        at, schema = rest.pop()
        if isinstance(schema, bool):
            edges[at] = []
            continue
        if not isinstance(schema, dict):
            raise invalid(path + at, "a schema: an object, true or false")
        _check_keywords(schema, path + at)
        below = [(at + part, subschema) for part, subschema in _subschemas(schema)]
        edges[at] = [_Edge(target, False) for target, _ in below]
        rest.extend(reversed(below))
        if len(edges) + len(rest) > limits.schema_nodes:
            raise exceeded("schemaNodes", limits.schema_nodes, len(edges) + len(rest), path=path)
        if "$ref" in schema:
            refs.append((at, _pointer(schema["$ref"], f"{path}{at}/$ref")))
    for at, target in refs:
        if target not in edges:
            raise invalid(f"{path}{at}/$ref", "the place of a schema under `#/$defs/`")
        edges[at].append(_Edge(target, True))
    return edges


def _check_keywords(schema: dict[str, Any], at: str) -> None:
    for name in schema:
        if name in _REFUSED:
            raise invalid(f"{at}/{name}", f"no {name}: it is not in the subset that is taken")
    if schema.get("$schema", DIALECT) != DIALECT:
        raise invalid(f"{at}/$schema", f'"{DIALECT}", or no $schema')
    if "pattern" in schema:
        _check_pattern(schema["pattern"], f"{at}/pattern")
    if isinstance(schema.get("patternProperties"), dict):
        for pattern in schema["patternProperties"]:
            _check_pattern(pattern, f"{at}/patternProperties/{escape(pattern)}")


def _check_pattern(pattern: Any, at: str) -> None:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, retriever=_fetch_nothing, pattern_options=_PATTERNS)
    except jsonschema_rs.ValidationError:
        raise invalid(at, "a regular expression without look-around and back-reference, not too large") from None


def _subschemas(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The direct subschemas and where they stand. Keywords of another shape are left to the meta-schema."""
    for name, value in schema.items():
        if name in _ONE:
            yield f"/{name}", value
        elif name in _LIST and isinstance(value, list):
            yield from ((f"/{name}/{index}", item) for index, item in enumerate(value))
        elif name in _NAMED and isinstance(value, dict):
            for key, member in value.items():
                if not (name == "dependencies" and isinstance(member, list)):
                    yield f"/{name}/{escape(key)}", member


def _pointer(ref: Any, at: str) -> str:
    if not isinstance(ref, str) or not _REFERENCE.fullmatch(ref):
        raise invalid(at, "a reference that begins with `#/$defs/`, percent-encoded where RFC 3986 demands it")
    try:
        return unquote(ref[1:], errors="strict")
    except UnicodeDecodeError:
        raise invalid(at, "a reference whose percent-encoding is UTF-8") from None


def _count(edges: dict[str, list[_Edge]], path: str) -> int:
    """The subschemas of the root with every reference followed, at most `COUNT_MAX`; each is visited once."""
    counts: dict[str, int] = {}
    open_at: dict[str, Iterator[_Edge]] = {"": iter(edges[""])}  # the way from the root to here, in order
    ref_at = {"": ""}  # of each on that way: the last `$ref` that led there
    while open_at:
        at, rest = next(reversed(open_at.items()))
        edge = next(rest, None)
        if edge is None:
            open_at.popitem()
            counts[at] = min(COUNT_MAX, 1 + sum(counts[target] for target, _ in edges[at]))
            continue
        ref = f"{at}/$ref" if edge.is_ref else ref_at[at]
        if edge.target in open_at:
            raise invalid(path + ref, "a reference that does not lead back to itself")
        if edge.target not in counts:
            open_at[edge.target] = iter(edges[edge.target])
            ref_at[edge.target] = ref
    return counts[""]


def _fetch_nothing(uri: str) -> Any:
    raise LookupError("nothing outside the schema is fetched or opened")
