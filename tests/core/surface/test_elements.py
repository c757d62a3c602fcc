"""Sort, dedupe and select on the elements."""

from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.surface.elements import distinct, in_order, selected
from gateway.core.surface.path import reader, scalar_text
from tests.core.surface.shapes import values

K = reader("k", {})
RANKED: list[Any] = [
    [{"k": None}, {"k": ""}],
    [{"k": -1.5}],
    [{"k": 9}, {"k": 9.0}],
    [{"k": 10}],
    [{"k": 2**53}],
    [{"k": 2**53 + 1}],
    [{"k": "10"}],
    [{"k": "9"}],
    [{"k": "Z"}],
    [{"k": False}, {"k": "false"}],
    [{"k": True}],
    [{"k": "é"}],
    [{"k": []}, {"k": {}}, {"k": [1]}],
    [{}, 5, "k", None, []],
]


def test_the_one_order_of_mixed_columns() -> None:
    flat = [element for same in RANKED for element in same]
    assert in_order(flat, K) == flat
    turned = [element for same in reversed(RANKED) for element in same]
    assert in_order(turned, K) == flat, "equal ones keep their order"


@given(st.lists(values, min_size=2, max_size=4))
def test_the_order_is_total_whatever_comes_first(column: list[Any]) -> None:
    rows = [{"k": value} for value in column]
    told = {tuple(repr(scalar_text(r["k"])) for r in in_order(list(each), K)) for each in permutations(rows)}
    equal_numbers = any(type(a) is not type(b) and a == b for a in column for b in column)
    equal_empty = None in column and "" in column
    equal_texts = any(isinstance(a, bool) and isinstance(b, str) for a in column for b in column)
    assert len(told) == 1 or equal_numbers or equal_empty or equal_texts


def test_the_first_of_each_text_stays_and_what_has_none() -> None:
    column: list[Any] = [12, "12", 80, 80.0, None, "", True, "true", "True", [1], [1], {}]
    rows: list[Any] = [*[{"k": value} for value in column], {}, {}, 7]
    stay: list[Any] = [12, 80, 80.0, None, True, "True", [1], [1], {}]
    told = distinct(rows, K)
    assert told == [
        *[{"k": value} for value in stay],
        {},
        {},
        7,
    ]
    assert type(told[1]["k"]) is int and type(told[2]["k"]) is float


def test_selected_keys_come_flat_as_asked_nulls_are_told_and_missing_ones_skipped() -> None:
    rows: list[Any] = [{"b": {"c": 1}, "a": None}, {"x": 1}, "text"]
    assert selected(rows, ("b.c", "a", "b", "b.c"), {}) == [{"b.c": 1, "a": None, "b": {"c": 1}}, {}, "text"]
    assert list(selected(rows, ("b.c", "a"), {})[0]) == ["b.c", "a"]


def test_a_synonym_is_told_under_the_name_that_was_asked() -> None:
    rows = [{"id": 1, "fields": {"status": "ok"}}, {"status": "own", "fields": {"status": "shadowed"}}]
    told = selected(rows, ("status", "fields.status"), {"status": "fields.status"})
    assert told == [{"status": "ok", "fields.status": "ok"}, {"status": "own", "fields.status": "shadowed"}]
