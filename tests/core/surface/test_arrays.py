"""Which array is reshaped, and what stands beside it."""

from typing import Any

import pytest

from gateway.core.surface import Facts
from gateway.core.surface.arrays import capped, taken_apart

FACTS = Facts(declared=("records", "items"), aliases={"items": ("rows", "copies")})


@pytest.mark.parametrize(
    ("envelope", "name", "source"),
    [
        ({"items": [1], "records": []}, "records", "declared"),
        ({"records": {}, "items": [1], "a": [2]}, "items", "declared"),
        ({"z": [1], "b": [2], "c": 1}, "b", "fallback"),
        ({"Z": [1], "a": [2]}, "Z", "fallback"),
        ({"a": {"records": [1]}}, None, None),
        ({}, None, None),
        ({"agent_surface": [1]}, None, None),
    ],
)
def test_the_primary_array(envelope: dict[str, Any], name: str | None, source: str | None) -> None:
    parts = taken_apart(envelope, FACTS)
    assert (parts.name, parts.source) == (name, source)
    if name is not None:
        assert parts.elements == envelope[name] and parts.rest == envelope | {name: []}
        assert list(parts.rest) == list(envelope)


def test_a_bare_array_is_the_primary_array_and_a_scalar_has_none() -> None:
    assert taken_apart([1, 2], FACTS).elements == [1, 2]
    assert taken_apart("text", FACTS).elements is None
    assert taken_apart(None, FACTS).rest is None


def test_aliases_go_only_beside_their_array_and_only_where_they_are_arrays() -> None:
    parts = taken_apart({"copies": [1], "rows": [1], "items": [1], "n": 1}, FACTS)
    assert parts.removed == ("rows", "copies") and parts.rest == {"items": [], "n": 1}
    assert taken_apart({"copies": 1, "items": [1]}, FACTS).removed == ()
    assert taken_apart({"rows": [1], "records": [1]}, FACTS).rest == {"rows": [1], "records": []}
    assert taken_apart({"items": [1]}, Facts(aliases={"items": ("items",)})).removed == ()


def test_secondary_arrays_are_cut_and_named_in_ascending_order() -> None:
    rest = {"z": [1, 2, 3], "records": [], "a": [1, 2], "m": [1], "kept": [1, 2], "deep": {"a": [1, 2]}, "n": 5}
    assert list(capped(rest, "records", 1, frozenset({"kept"})).items()) == [("a", [1]), ("z", [1])]
