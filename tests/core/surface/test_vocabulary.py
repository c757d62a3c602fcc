"""Suggestions: how alike two names are, and from how many they are taken."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import JaroWinkler

from gateway.core.surface import Facts
from gateway.core.surface.arrays import taken_apart
from gateway.core.surface.vocabulary import NAME_CHARS, NAMES, SAMPLE, Vocabulary, vocabulary


def of(elements: list[Any], **facts: Any) -> Vocabulary:
    known = Facts(**facts)
    return vocabulary(taken_apart({"records": elements, "rest": 1}, known), known)


def jaro(one: str, other: str) -> float:
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    used: list[int] = []
    for n, letter in enumerate(one):
        near = range(max(n - reach, 0), min(n + reach + 1, len(other)))
        used += [next((m for m in near if other[m] == letter and m not in used), -1)]
    left = [letter for n, letter in enumerate(one) if used[n] >= 0]
    right = [letter for m, letter in enumerate(other) if m in used]
    if not left:
        return float(not one and not other)
    swapped = sum(a != b for a, b in zip(left, right, strict=True)) // 2
    return (len(left) / len(one) + len(left) / len(other) + (len(left) - swapped) / len(left)) / 3


def winkler(one: str, other: str) -> float:
    plain = jaro(one, other)
    same = next((n for n in range(4) if one[n : n + 1] != other[n : n + 1] or n >= min(len(one), len(other))), 4)
    return plain + 0.1 * same * (1 - plain) if plain > 0.7 else plain


@given(st.text("abcdé_", max_size=80), st.text("abcdé_", max_size=80))
def test_the_library_counts_as_the_layer_says(one: str, other: str) -> None:
    assert abs(JaroWinkler.similarity(one, other) - winkler(one, other)) < 1e-12


@given(st.text("abc", min_size=1, max_size=6), st.lists(st.text("abc", min_size=1, max_size=6), unique=True))
def test_the_most_alike_come_first_ties_by_name_three_at_most(key: str, names: list[str]) -> None:
    told = Vocabulary(tuple(names), partial=False).like(key)
    scored = sorted((-JaroWinkler.similarity(key, name), name) for name in names if name != key)
    assert told == [name for score, name in scored if score <= -0.6][:3]


def test_the_names_are_those_of_the_first_level_of_the_sample() -> None:
    assert of([{"a": {"deep": 1}}, 5, {"b": 1, "a": 2}]) == Vocabulary(("a", "b"), partial=False)
    assert of([{"a": 1}] * SAMPLE + [{"late": 1}]) == Vocabulary(("a",), partial=True)
    assert of([{"a": 1}] * SAMPLE).partial is False


def test_without_elements_the_envelope_speaks() -> None:
    facts = Facts(synonyms={"field": "fields.field"})
    assert vocabulary(taken_apart({"total": 1}, facts), facts).names == ("total",)
    assert of([], synonyms={"field": "fields.field"}).names == ("records", "rest")


def test_declared_fields_stand_behind_the_members_of_the_records() -> None:
    assert of([{"id": 1}], synonyms={"status": "fields.status", "id": "fields.id"}).names == ("id", "status")


def test_names_are_bounded_in_number_and_length() -> None:
    assert of([{f"n{n}": 1 for n in range(NAMES)}]).partial is False
    told = of([{f"n{n}": 1 for n in range(NAMES + 1)}])
    assert (len(told.names), told.partial) == (NAMES, True)
    assert of([{"x" * NAME_CHARS: 1, "y" * (NAME_CHARS + 1): 1}]) == Vocabulary(("x" * NAME_CHARS,), partial=True)
