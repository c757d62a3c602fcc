"""Knobs from JSON: sound, or refused before any work."""

from typing import Any

import pytest

from gateway.core.surface import Knobs, Refusal, parse
from gateway.core.surface.knobs import FITS, TOLD_BYTES
from tests.core.surface.shapes import Json


def refused(given: Json) -> Refusal:
    told = parse(given)
    assert isinstance(told, Refusal), told
    return told


@pytest.mark.parametrize("knob", ["max_items", "truncate_content", "max_output_bytes"])
@pytest.mark.parametrize("value", [-1, -0.0, 2.5, 5.0, True, False, "5", None, [], {}, 1e3])
def test_a_number_is_an_integer_from_0(knob: str, value: Any) -> None:
    told = refused({knob: value})
    assert (told.reason, told.discarded, told.suggestions) == ("bad_value", (knob,), ())
    assert told.facts == {"knob": knob, "value": value}


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("select", "id"),
        ("select", ["id", 5]),
        ("select", None),
        ("fields", {}),
        ("filter", "a=1"),
        ("filter", [None]),
        ("filter", {"a": 1}),
        ("sort", 5),
        ("sort", ["id"]),
        ("dedupe_by", None),
        ("count_only", 1),
        ("count_only", "true"),
        ("filter_scope", "top-k"),
        ("filter_scope", "Page"),
        ("filter_scope", ["page"]),
        ("allow_unknown_keys", 1),
        ("max_item", 1),
    ],
)
def test_every_knob_takes_its_own_kind_of_value_only(knob: str, value: Any) -> None:
    told = refused({knob: value})
    assert (told.reason, told.discarded, told.facts) == ("bad_value", (knob,), {"knob": knob, "value": value})


@pytest.mark.parametrize("given", [{"select": ["a"], "fields": ["a"]}, {"fields": [], "select": []}])
def test_both_spellings_of_select_are_one_too_many(given: Json) -> None:
    assert (refused(given).reason, refused(given).discarded) == ("bad_value", ("select",))


@pytest.mark.parametrize("expression", ["status", "=ready", "   ~x", "", "qty>3", "a<b", "!x", "\t!=1"])
def test_an_expression_that_says_nothing(expression: str) -> None:
    told = refused({"filter": ["a=1", expression], "sort": "x"})
    assert (told.reason, told.discarded) == ("filter_syntax", ("filter",))
    assert told.facts == {"expression": expression, "index": 1}


def test_what_was_wrong_is_told_back_within_a_bound() -> None:
    assert refused({"filter": ["x" * TOLD_BYTES]}).facts == {"index": 0}
    assert refused({"sort": [0] * TOLD_BYTES}).facts == {"knob": "sort"}


def test_the_order_of_the_knobs_does_not_choose_the_fault() -> None:
    given = {"sort": 5, "max_items": -1, "filter": 7}
    assert refused(given) == refused(dict(reversed(given.items())))


def test_what_is_off_is_inert() -> None:
    off: Json = {
        "select": [],
        "filter": [],
        "max_items": 0,
        "count_only": False,
        "truncate_content": 0,
        "max_output_bytes": 0,
    }
    knobs = parse(off | {"filter_scope": "page", "allow_unknown_keys": True})
    assert isinstance(knobs, Knobs) and knobs.inert()
    on: list[Json] = [{"select": ["a"]}, {"filter": ["a="]}, {"sort": ""}, {"dedupe_by": "a"}, {"count_only": True}]
    for given in [*on, *({knob: 1} for knob in off if off[knob] == 0 and knob != "count_only")]:
        told = parse(given)
        assert isinstance(told, Knobs) and not told.inert() and told.given(*given) == tuple(given)


def test_fields_is_the_other_spelling_of_select() -> None:
    assert parse({"fields": ["a", "b"]}) == parse({"select": ["a", "b"]})
    assert set(FITS) - {"fields"} == set(Knobs.__struct_fields__)
