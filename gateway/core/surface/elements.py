"""What is done to the elements of the primary array behind the filter: sort, dedupe, select (surface behaviour §5.3–5.6)."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from gateway.core.surface.path import Reader, reader, scalar_text

EMPTY, NUMBER, TEXT, CONTAINER, MISSING = range(5)
"""Ranks of the one total order: columns of mixed types have no other that is consistent."""
NOTHING: Final = 0


def rank(value: Any) -> tuple[int, Any]:
    """The place of a value in the order: null and the empty text, numbers, other texts by code point, containers, missing."""
    if value is UNSET:
        return MISSING, NOTHING
    if isinstance(value, int | float) and not isinstance(value, bool):
        return NUMBER, value
    text = scalar_text(value)
    if text is None:
        return CONTAINER, NOTHING
    return (TEXT, text) if text else (EMPTY, NOTHING)


def in_order(elements: list[Any], read: Reader) -> list[Any]:
    """Ascending and stable."""
    return sorted(elements, key=lambda element: rank(read(element)))


def distinct(elements: list[Any], read: Reader) -> list[Any]:
    """The first element of each text; those that carry no scalar under the key all stay."""
    seen: set[str] = set()
    kept = []
    for element in elements:
        text = scalar_text(read(element))
        if text is None or text not in seen:
            kept.append(element)
        if text is not None:
            seen.add(text)
    return kept


def selected(elements: list[Any], keys: tuple[str, ...], synonyms: Mapping[str, str]) -> list[Any]:
    """Every object made anew of the keys it carries, under the keys as asked; other elements as they are."""
    read = {key: reader(key, synonyms) for key in keys}
    return [projection(element, read) if isinstance(element, dict) else element for element in elements]


def projection(element: Any, read: Mapping[str, Reader]) -> dict[str, Any]:
    """One object, flat; a missing key is skipped, a null is told."""
    found = {key: value(element) for key, value in read.items()}
    return {key: value for key, value in found.items() if value is not UNSET}
