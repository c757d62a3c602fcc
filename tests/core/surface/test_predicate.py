"""Filters: how one text is split, and what it keeps."""

from typing import Any

import pytest
from msgspec import UNSET

from gateway.core.surface.predicate import Predicate, filtered, keeps, predicate


@pytest.mark.parametrize(
    ("expression", "split"),
    [
        ("a=b", ("a", "=", "b")),
        ("a==b", ("a", "==", "b")),
        ("a===b", ("a", "==", "=b")),
        ("a!=b", ("a", "!=", "b")),
        ("a!==b", ("a", "!=", "=b")),
        ("a~b", ("a", "~", "b")),
        ("a=b!=c", ("a", "=", "b!=c")),
        ("a~=b", ("a", "~", "=b")),
        ("a!~b", ("a!", "~", "b")),
        ("a>=b", ("a>", "=", "b")),
        (" a . b = c ", ("a . b", "=", " c ")),
        ("a=", ("a", "=", "")),
        ("ключ=значение", ("ключ", "=", "значение")),
    ],
)
def test_the_earliest_operator_splits_and_there_the_longer(expression: str, split: tuple[str, str, str]) -> None:
    assert predicate(expression) == Predicate(*split)


@pytest.mark.parametrize("expression", ["", "a", "=", " =x", "~", "!=x", "a>b", "a!b"])
def test_without_operator_or_key_there_is_no_predicate(expression: str) -> None:
    assert predicate(expression) is None


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (UNSET, [False, True, False, False, True]),
        (None, [True, False, True, False, True]),
        ("", [True, False, True, False, True]),
        ([], [False, True, False, False, True]),
        ({}, [False, True, False, False, True]),
        ("x", [False, True, True, True, False]),
    ],
)
def test_the_table_of_consequences(value: Any, kept: list[bool]) -> None:
    sides = [("=", ""), ("!=", ""), ("~", ""), ("=", "x"), ("!=", "x")]
    assert [keeps(Predicate("k", operator, side), value) for operator, side in sides] == kept
    assert keeps(Predicate("k", "==", "x"), value) is kept[3]


def test_contains_lowers_both_sides_and_folds_nothing() -> None:
    assert keeps(Predicate("k", "~", "ÅNG"), "ångström")
    assert not keeps(Predicate("k", "~", "SS"), "ß")


def test_predicates_are_joined_with_and() -> None:
    rows = [{"a": 1, "b": 1}, {"a": 1}, {"b": 1}, 7]
    assert filtered(rows, (Predicate("a", "=", "1"), Predicate("b", "!=", "1")), {}) == [{"a": 1}]
