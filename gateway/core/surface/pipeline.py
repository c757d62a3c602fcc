"""The layer as one function; the order of its steps is fixed, the order of the knobs never matters (behaviour §2)."""

from typing import Any

import msgspec

from gateway.core.surface import ceiling, content
from gateway.core.surface.arrays import Parts, capped, taken_apart
from gateway.core.surface.elements import distinct, in_order, projection, selected
from gateway.core.surface.facts import Facts
from gateway.core.surface.gate import Resolution, judge
from gateway.core.surface.knobs import Knobs
from gateway.core.surface.path import reader
from gateway.core.surface.predicate import filtered
from gateway.core.surface.record import ordered, process
from gateway.core.surface.refusal import Refusal


class Shaped(msgspec.Struct, frozen=True):
    """What is emitted; a struct of its own, so that no envelope is taken for a refusal."""

    envelope: Any


def reshape(envelope: Any, knobs: Knobs, facts: Facts) -> Shaped | Refusal:
    """The envelope as the knobs ask, with its `agent_surface`; or why not.

    Args:
        envelope: JSON as Python values. It is not changed; what is emitted shares its unchanged parts.
        knobs: as `parse` made them.
        facts: what the command knows of its answer.
    """
    if passes(envelope):
        return Shaped(envelope)
    if knobs.inert():
        return Shaped(_attached(envelope, process(facts)))
    knobs = _sparing_the_receipt(knobs, facts)
    if knobs.truncate_content and not knobs.count_only:
        envelope = content.protected(envelope, facts)
    parts = taken_apart(envelope, facts)
    judged = judge(parts, knobs, facts)
    if isinstance(judged, Refusal):
        return judged
    return Shaped(_shaped(parts, knobs, facts, judged))


def passes(envelope: Any) -> bool:
    """Whether it is a failure or a schema document, which reach the caller as they are (behaviour §3)."""
    if not isinstance(envelope, dict):
        return False
    return "$schema" in envelope or envelope.get("error") is True or envelope.get("ok") is False


def _sparing_the_receipt(knobs: Knobs, facts: Facts) -> Knobs:
    """After a write a count must not replace the receipt; who asks for one is refused before the write."""
    return msgspec.structs.replace(knobs, count_only=False) if facts.mutates else knobs


def _shaped(parts: Parts, knobs: Knobs, facts: Facts, resolution: Resolution) -> Any:
    matched = parts.elements
    if matched is not None:
        matched = filtered(matched, knobs.filter, facts.synonyms)
        if knobs.sort is not None:
            matched = in_order(matched, reader(knobs.sort, facts.synonyms))
        if knobs.dedupe_by is not None:
            matched = distinct(matched, reader(knobs.dedupe_by, facts.synonyms))
    emitted = matched[: knobs.max_items or None] if matched is not None else None
    asked = {
        "input_count": 1 if parts.elements is None else len(parts.elements),
        "output_count": 1 if emitted is None else len(emitted),
        "select": list(knobs.select),
        "filters": len(knobs.filter) or None,
        "sort": knobs.sort,
        "dedupe_by": knobs.dedupe_by,
        "max_items": knobs.max_items or None,
        "result_array_source": parts.source,
        "aliases_removed": list(parts.removed),
    }
    record = process(facts) | asked | resolution.members()
    if knobs.count_only:
        cut = matched is not None and emitted is not None and len(emitted) < len(matched)
        record |= {"count_only": True, "count_scope": "emitted" if cut else "matched"}
        return _bounded({"count": record["output_count"]}, None, record, knobs, facts)
    payload, name, secondary = _payload(parts, emitted, knobs, facts)
    if knobs.truncate_content:
        payload, was_cut = content.cut(payload, knobs.truncate_content)
        if was_cut:
            record |= {"content_truncated": True, "truncate_content": knobs.truncate_content}
            payload = payload | {"truncated": True} if isinstance(payload, dict) else payload
    return _bounded(payload, name, record | {"secondary_capped": secondary}, knobs, facts)


def _payload(parts: Parts, emitted: list[Any] | None, knobs: Knobs, facts: Facts) -> tuple[Any, str | None, list[str]]:
    """The envelope put together again, its primary array, and the names of the others that were capped."""
    if emitted is None:
        return _scalar(parts.rest, knobs), None, []
    if knobs.select:
        emitted = selected(emitted, knobs.select, facts.synonyms)
    if parts.name is None:
        return emitted, None, []
    cap = capped(parts.rest, parts.name, knobs.max_items, facts.kept) if knobs.max_items else {}
    return parts.rest | cap | {parts.name: emitted}, parts.name, list(cap)


def _scalar(envelope: Any, knobs: Knobs) -> Any:
    """An envelope without arrays is projected itself; that its own text was cut before stays told."""
    if not knobs.select or not isinstance(envelope, dict):
        return envelope
    told = projection(envelope, {key: reader(key, {}) for key in knobs.select})
    return told | {"truncated": True} if envelope.get("truncated") is True else told


def _bounded(payload: Any, name: str | None, record: dict[str, Any], knobs: Knobs, facts: Facts) -> Any:
    told = _attached(payload, ordered(record))
    if not knobs.max_output_bytes:
        return told
    room = knobs.max_output_bytes - facts.outside
    return ceiling.within(told, name, knobs.max_output_bytes, room, facts.kept)


def _attached(payload: Any, record: dict[str, Any]) -> Any:
    """The payload with its record as last member; what is no object has no place for one."""
    if not record or not isinstance(payload, dict):
        return payload
    rest = {name: value for name, value in payload.items() if name != "agent_surface"}
    return rest | {"agent_surface": record}
