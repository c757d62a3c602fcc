"""The arrays of an envelope: which one is reshaped, which only restate it, which are capped beside it (behaviour §4, §5.5)."""

from typing import Any, Literal

import msgspec

from gateway.core.surface.facts import Facts


class Parts(msgspec.Struct, frozen=True):
    """An envelope with the elements of its primary array lifted out.

    `rest`: what remains, the array left behind empty. `name`, `source`: None where no member is the array. `elements`:
    None where there is no array at all. `removed`: the aliases that were there.
    """

    rest: Any
    name: str | None = None
    source: Literal["declared", "fallback"] | None = None
    elements: list[Any] | None = None
    removed: tuple[str, ...] = ()


def taken_apart(envelope: Any, facts: Facts) -> Parts:
    """The envelope in parts; a record of an earlier shaping is left out, a new one takes its place."""
    if isinstance(envelope, list):
        return Parts([], elements=envelope)
    if not isinstance(envelope, dict):
        return Parts(envelope)
    rest = {name: value for name, value in envelope.items() if name != "agent_surface"}
    arrays = [name for name, value in rest.items() if isinstance(value, list)]
    if not arrays:
        return Parts(rest)
    declared = next((name for name in facts.declared if name in arrays), None)
    name = min(arrays) if declared is None else declared
    removed = tuple([alias for alias in facts.aliases.get(name, ()) if alias in arrays and alias != name])
    rest = {member: value for member, value in rest.items() if member not in removed}
    elements, rest[name] = rest[name], []
    return Parts(rest, name, "fallback" if declared is None else "declared", elements, removed)


def capped(rest: dict[str, Any], name: str | None, maximum: int, kept: frozenset[str]) -> dict[str, list[Any]]:
    """Every array beside the primary one that is longer than `maximum`, cut to it, ascending by name."""
    return {
        member: value[:maximum]
        for member, value in sorted(rest.items())
        if isinstance(value, list) and member != name and member not in kept and len(value) > maximum
    }
