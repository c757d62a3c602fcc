"""Whether a request can be answered truly, judged before anything is shaped (surface behaviour §6 and §7)."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from gateway.core.surface.arrays import Parts
from gateway.core.surface.facts import Ceiling, Facts
from gateway.core.surface.knobs import Knobs
from gateway.core.surface.path import find, reader
from gateway.core.surface.record import process
from gateway.core.surface.refusal import Refusal
from gateway.core.surface.vocabulary import vocabulary


class Resolution(msgspec.Struct, frozen=True):
    """Which keys of `select` there are. None of the lists is told when every key resolved."""

    resolved: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    partial: bool = False

    def members(self) -> dict[str, Any]:
        """The members of `agent_surface` it makes."""
        if not self.unresolved:
            return {}
        return {
            "key_resolution": "partial",
            "key_suggestions": list(self.suggestions),
            "vocabulary_partial": self.partial,
            "resolved_keys": list(self.resolved),
            "unresolved_keys": list(self.unresolved),
        }


def judge(parts: Parts, knobs: Knobs, facts: Facts) -> Resolution | Refusal:
    """The first refusal that applies, or how the keys of `select` resolve."""
    if facts.mutates:
        return Resolution()
    checks: list[Callable[[Parts, Knobs, Facts], Refusal | None]] = [_stream, _no_array, _over_page]
    if not knobs.allow_unknown_keys and parts.elements != []:  # no rows are no evidence about keys
        checks.append(_keys)
    for check in checks:
        refused = check(parts, knobs, facts)
        if refused:
            return msgspec.structs.replace(refused, surface=process(facts))
    if knobs.select and _keys in checks:
        return _resolve(parts, knobs, facts)
    return Resolution()


def _stream(parts: Parts, knobs: Knobs, facts: Facts) -> Refusal | None:
    if not facts.streamed:
        return None
    whole = knobs.given("count_only", "sort", "dedupe_by", "max_output_bytes", "max_items")
    if whole:
        return Refusal("stream_whole_set_knob", whole)
    return Refusal("stream_filter", ("filter",)) if knobs.filter else None


def _no_array(parts: Parts, knobs: Knobs, facts: Facts) -> Refusal | None:
    needing = knobs.given("filter", "sort", "dedupe_by")
    return Refusal("no_result_array", needing) if needing and parts.elements is None else None


def _over_page(parts: Parts, knobs: Knobs, facts: Facts) -> Refusal | None:
    ceiling = facts.ceiling
    if ceiling is None or ceiling.kind == "top-k" or knobs.filter_scope == "page" or not facts.is_page():
        return None
    told = {
        "limit": ceiling.limit,
        "offset": ceiling.offset,
        "total": ceiling.everything(),
        "source": ceiling.source,
        "remedies": _remedies(ceiling),
    }
    if knobs.filter:
        return Refusal("filter_over_page", ("filter",), facts=told)
    return Refusal("count_over_page", ("count_only",), facts=told) if knobs.count_only else None


def _remedies(ceiling: Ceiling) -> list[dict[str, Any]]:
    """Changes to the request that would be answered: declare the page, or see everything where that can be had."""
    declare: dict[str, Any] = {"filter_scope": "page"}
    total = ceiling.total
    if not total or ceiling.maximum is None or total > ceiling.maximum or total < (ceiling.records_total or 0):
        return [declare]
    return [declare, {"limit": total, "offset": 0}]


def _keys(parts: Parts, knobs: Knobs, facts: Facts) -> Refusal | None:
    """Whether each key of filter, sort and dedupe_by is one of an element; without an array there are none to judge."""
    asked = [("filter", predicate.key) for predicate in knobs.filter]
    asked += [("sort", knobs.sort)] if knobs.sort is not None else []
    asked += [("dedupe_by", knobs.dedupe_by)] if knobs.dedupe_by is not None else []
    for knob, key in asked:
        stands = place(key, parts, facts)
        if stands == "element":
            continue
        told = {"key": key} | ({} if parts.name is None else {"array": parts.name})
        if stands == "envelope":
            return Refusal("key_envelope_only", (knob,), facts=told)
        return Refusal("key_absent", (knob,), tuple(vocabulary(parts, facts).like(key)), told)
    return None


def place(key: str, parts: Parts, facts: Facts) -> Literal["element", "envelope", "absent"]:
    """Where a key resolves; all elements are looked at, the sample is for suggestions only."""
    read = reader(key, facts.synonyms)
    if any(read(element) is not UNSET for element in parts.elements or ()):
        return "element"
    return "absent" if find(parts.rest, key.split(".")) is UNSET else "envelope"


def _resolve(parts: Parts, knobs: Knobs, facts: Facts) -> Resolution | Refusal:
    where = "element" if _selects_elements(parts) else "envelope"
    keys = dict.fromkeys(knobs.select)
    stands = {key: place(key, parts, facts) == where for key in keys}
    resolved = tuple([key for key in knobs.select if stands[key]])
    unresolved = tuple([key for key in knobs.select if not stands[key]])
    if not unresolved:
        return Resolution(resolved)
    words = vocabulary(parts, facts)
    if not resolved:
        suggestions = tuple(words.like(knobs.select[0]))
        told = {"keys": list(knobs.select)}
        return Refusal("select_unresolved", ("select",), suggestions, told, process(facts))
    merged = {name for key in dict.fromkeys(unresolved) for name in words.like(key)}
    return Resolution(resolved, unresolved, tuple(sorted(merged)), words.partial)


def _selects_elements(parts: Parts) -> bool:
    """Whether `select` projects elements; without an array it projects the envelope.

    An elected array of plain values passes unchanged, so its keys are judged by the envelope; of objects they are judged by
    what is projected, or a key of the envelope would blank them all.
    """
    if parts.elements is None:
        return False
    return parts.source != "fallback" or any(isinstance(element, dict) for element in parts.elements)
