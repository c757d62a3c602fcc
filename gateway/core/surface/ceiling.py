"""An envelope within a number of bytes (surface behaviour §5.9): elements leave from the end, JSON is never sliced.

The one mechanism of `max_output_bytes` and of `limits.responseBytes`. Values may be texts of JSON already (`Raw`).
"""

from collections.abc import Container
from typing import Any, Final

from gateway.core.surface.path import compact
from gateway.core.surface.record import ordered

TRUNCATED: Final = len(b',"truncated":true')


def stub(maximum: int) -> dict[str, Any]:
    """What takes the place of an envelope that does not fit even when its arrays are empty; it may not fit either."""
    return {"truncated": True, "truncated_reason": "max_output_bytes", "max_output_bytes": maximum}


def within(envelope: Any, primary: str | None, maximum: int, room: int, kept: frozenset[str] = frozenset()) -> Any:
    """The envelope, or as much of it as stays within `room` bytes.

    Args:
        envelope: with its `agent_surface`, counts in it, as last member; or a bare array or scalar, which has none.
        primary: the array whose elements leave one by one; None without one.
        maximum: the ceiling as asked, which is told; `room` is what of it is left for the envelope.
        kept: arrays that are never emptied.
    """
    room = max(room - _headroom(envelope, primary, maximum, kept), 1)
    if len(compact(envelope)) <= room:
        return envelope
    if isinstance(envelope, list):
        return envelope[: _prefix(envelope, room - len(b"[]"))] if room >= len(b"[]") else stub(maximum)
    if not isinstance(envelope, dict):
        return stub(maximum)
    elements = [] if primary is None else envelope[primary]
    others = _others(envelope, primary, kept)
    skeleton = envelope if primary is None else _emptied(envelope, {primary})
    dropped = 0
    if others and len(compact(skeleton)) > room:
        skeleton = _emptied(skeleton, others)
        dropped = sum(others.values())
    left = room - len(compact(skeleton))
    if left < 0:
        return stub(maximum)
    count = _prefix(elements, left)
    told = skeleton | ({} if primary is None else {primary: elements[:count]})
    surface = told.pop("agent_surface")
    record = _record(surface, dropped + len(elements) - count, maximum) | {"output_count": count}
    return told | {"truncated": True, "agent_surface": record}


def least(envelope: dict[str, Any], primary: str | None, maximum: int, kept: frozenset[str] = frozenset()) -> int:
    """Bytes of the room in which the envelope fits with every array empty."""
    arrays = {*_others(envelope, primary, kept), *([] if primary is None else [primary])}
    return len(compact(_emptied(envelope, arrays))) + _headroom(envelope, primary, maximum, kept)


def _emptied(envelope: dict[str, Any], arrays: Container[str]) -> dict[str, Any]:
    return {name: [] if name in arrays else value for name, value in envelope.items()}


def _others(envelope: dict[str, Any], primary: str | None, kept: frozenset[str]) -> dict[str, int]:
    """The lengths of the arrays beside the primary one that may be emptied."""
    return {
        name: len(value)
        for name, value in envelope.items()
        if isinstance(value, list) and name != primary and name not in kept
    }


def _headroom(envelope: Any, primary: str | None, maximum: int, kept: frozenset[str]) -> int:
    """Bytes the envelope may grow by being cut: its record at the widest, and `truncated`."""
    if not isinstance(envelope, dict):
        return 0
    surface = envelope["agent_surface"]
    most = surface["input_count"] + sum(_others(envelope, primary, kept).values())
    grows = len(compact(_record(surface, most, maximum))) - len(compact(surface))
    if "truncated" in envelope:
        return grows + max(len(b"true") - len(compact(envelope["truncated"])), 0)
    return grows + TRUNCATED


def _record(surface: dict[str, Any], dropped: int, maximum: int) -> dict[str, Any]:
    """The record of a cut envelope, at its old count."""
    return ordered(surface | {"output_truncated": True, "dropped": dropped, "max_output_bytes": maximum})


def _prefix(elements: list[Any], room: int) -> int:
    """How many of the first elements fit, commas between them counted."""
    for count, element in enumerate(elements):
        room -= len(compact(element)) + (count > 0)
        if room < 0:
            return count
    return len(elements)
