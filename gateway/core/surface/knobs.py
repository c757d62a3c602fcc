"""The knobs of a request: read, judged, and refused before any work (surface behaviour §5, mapping §5)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from gateway.core.surface.path import compact
from gateway.core.surface.predicate import Predicate, predicate
from gateway.core.surface.refusal import Refusal

TOLD_BYTES: Final = 1_024
"""A wrong value or expression is told back up to this size; above it the knob and the index have to do."""


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """A sound set of knobs; None, an empty tuple, false and 0 are off. `filter_scope`, `allow_unknown_keys`: context."""

    select: tuple[str, ...] = ()
    filter: tuple[Predicate, ...] = ()
    sort: str | None = None
    dedupe_by: str | None = None
    max_items: int = 0
    count_only: bool = False
    truncate_content: int = 0
    max_output_bytes: int = 0
    filter_scope: str = "universe"
    allow_unknown_keys: bool = False

    def inert(self) -> bool:
        """Whether nothing is asked of the layer."""
        return self == Knobs(filter_scope=self.filter_scope, allow_unknown_keys=self.allow_unknown_keys)

    def given(self, *names: str) -> tuple[str, ...]:
        """Those of the named knobs that are on."""
        return tuple([name for name in names if getattr(self, name) not in (None, (), False, 0)])


def parse(given: Mapping[str, Any]) -> Knobs | Refusal:
    """The knobs a JSON object names, in whatever order; `fields` is `select`.

    Returns a refusal `filter_syntax` (facts `expression`, `index`) or `bad_value` (facts `knob`, `value`) for the first
    fault in the order of the knobs; null is a value, and no knob takes it.
    """
    if "select" in given and "fields" in given:
        return _bad("select", given["select"])
    sound: dict[str, Any] = {}
    for name, fits in FITS.items():
        if name not in given:
            continue
        value = given[name]
        if not fits(value):
            return _bad(name, value)
        sound["select" if name == "fields" else name] = tuple(value) if isinstance(value, list) else value
    unknown = sorted(given.keys() - FITS.keys())
    if unknown:
        return _bad(unknown[0], given[unknown[0]])
    predicates: list[Predicate] = []
    for index, expression in enumerate(sound.pop("filter", ())):
        found = predicate(expression)
        if found is None:
            facts = _told("expression", expression) | {"index": index}
            return Refusal("filter_syntax", ("filter",), facts=facts)
        predicates.append(found)
    return Knobs(**sound, filter=tuple(predicates))


def _bad(knob: str, value: Any) -> Refusal:
    return Refusal("bad_value", (knob,), facts={"knob": knob} | _told("value", value))


def _told(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if len(compact(value)) <= TOLD_BYTES else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_scope(value: Any) -> bool:
    return isinstance(value, str) and value in ("page", "universe")


FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "filter": _is_list,
    "select": _is_list,
    "fields": _is_list,
    "sort": _is_text,
    "dedupe_by": _is_text,
    "max_items": _is_number,
    "count_only": _is_switch,
    "truncate_content": _is_number,
    "max_output_bytes": _is_number,
    "filter_scope": _is_scope,
    "allow_unknown_keys": _is_switch,
}
"""What each knob takes, in the order in which faults are told."""
