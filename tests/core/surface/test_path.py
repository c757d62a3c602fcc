"""Keys as paths, and the text of a scalar."""

from typing import Any

import pytest
from msgspec import UNSET

from gateway.core.surface.path import compact, find, reader, scalar_text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("a", {"b": None, "l": [1]}),
        ("a.b", None),
        ("a.b.c", UNSET),
        ("a.l", [1]),
        ("a.l.0", UNSET),
        ("a.x", UNSET),
        ("n.x", UNSET),
        ("", 5),
        (".", UNSET),
        ("p.q", UNSET),
        ("A", UNSET),
    ],
)
def test_a_path_goes_through_objects_only(key: str, value: Any) -> None:
    element = {"a": {"b": None, "l": [1]}, "n": 5, "": 5, "p.q": 1}
    assert find(element, key.split(".")) is value or find(element, key.split(".")) == value


@pytest.mark.parametrize("element", [None, 5, "a", ["a"], True])
def test_what_is_no_object_carries_no_key(element: Any) -> None:
    assert reader("a", {"a": "fields.a"})(element) is UNSET


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (80, "80"),
        (80.0, "80.0"),
        (-0.5, "-0.5"),
        (2**64, "18446744073709551616"),
        ([], None),
        ({}, None),
        (UNSET, None),
    ],
)
def test_the_text_of_a_scalar(value: Any, text: str | None) -> None:
    assert scalar_text(value) == text


def test_the_text_of_a_number_is_the_one_we_emit() -> None:
    for number in (1e16, 1e-7, 1.5e300, 0.1, 123456789012345680.0):
        assert (scalar_text(number) or "").encode() == compact(number)


def test_a_synonym_is_read_where_the_name_itself_is_not() -> None:
    read = reader("owner.team", {"owner": "fields.owner"})
    assert read({"fields": {"owner": {"team": 1}}}) == 1
    assert read({"owner": {"team": 2}, "fields": {"owner": {"team": 1}}}) == 2
    assert read({"owner": None, "fields": {"owner": {"team": 1}}}) is UNSET


def test_bytes_are_those_of_compact_text() -> None:
    assert compact({"ä": [1, "😀"]}) == '{"ä":[1,"😀"]}'.encode()
