"""Keys as paths, and the text of a scalar (surface behaviour §5.1)."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

Reader = Callable[[Any], Any]
"""What an element carries under a key; `UNSET` where it carries nothing, which is not null."""


def compact(value: Any) -> bytes:
    """The text whose bytes are counted: compact UTF-8 JSON, members in their order."""
    return msgspec.json.encode(value)


def find(value: Any, segments: list[str]) -> Any:
    """What stands at the path; `UNSET` through anything that is no object, so arrays have no index."""
    for segment in segments:
        if not isinstance(value, dict) or segment not in value:
            return UNSET
        value = value[segment]
    return value


def reader(key: str, synonyms: Mapping[str, str]) -> Reader:
    """The reader of a key.

    Args:
        synonyms: for elements that have no member named as the key's first segment, where it stands instead.
    """
    segments = key.split(".")
    head = segments[0]
    if head not in synonyms:
        return lambda element: find(element, segments)
    elsewhere = synonyms[head].split(".") + segments[1:]

    def read(element: Any) -> Any:
        shadowed = not isinstance(element, dict) or head in element
        return find(element, segments if shadowed else elsewhere)

    return read


def scalar_text(value: Any) -> str | None:
    """The text that equality, order and sameness go by; None of a container and of `UNSET`."""
    match value:
        case str():
            return str(value)
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return compact(value).decode()
        case _:
            return None
