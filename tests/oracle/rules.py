"""What protocol §6 refuses: the shape of each object, and the rules that judge a whole snapshot."""

from collections.abc import Iterable
from typing import Any

from gateway.core.limits import ID_CHARS, SCOPE_TEXTS, Limits

from .plain import Json, Object, canonical, holds_member


class Refused(Exception):
    """What was sent is refused whole; `kind` is that of protocol §3."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(f"{kind}: {why}")
        self.kind = kind


def demand(holds: bool, why: str) -> None:
    """`invalid_params` unless it holds."""
    if not holds:
        raise Refused("invalid_params", why)


def at_most(number: int, maximum: int, limit: str) -> None:
    """`limit_exceeded` when the number is above the maximum."""
    if number > maximum:
        raise Refused("limit_exceeded", f"{limit}: {number} > {maximum}")


# --- the shape of one object -------------------------------------------------------------------------------------


def shape(value: Json, required: str, optional: str = "") -> Object:
    """An object with all the required members and none that is unknown (both lists: names with blanks between)."""
    demand(isinstance(value, dict), "an object is due")
    for name in required.split():
        demand(name in value, f"{name} is missing")
    for name in value:
        demand(name in required.split() + optional.split(), f"unknown member {name}")
    found: Object = value
    return found


def identifier(value: Json) -> str:
    """An id: 1–200 characters, no control character."""
    demand(isinstance(value, str), "an id is a text")
    demand(1 <= len(value) <= ID_CHARS, "an id has 1 to 200 characters")
    demand(not any(ord(c) < 0x20 or ord(c) == 0x7F for c in value), "control character in an id")
    found: str = value
    return found


def field_name(value: Json) -> str:
    """The name of a declared field: an id without `.` `=` `!` `~` `,`."""
    name = identifier(value)
    demand(not any(c in name for c in ".=!~,"), "character not allowed in a field name")
    return name


def words(value: Json, limits: Limits) -> str:
    """One of our own texts (title, message, …): at most `textChars` characters."""
    demand(isinstance(value, str), "a text is due")
    at_most(len(value), limits.text_chars, "textChars")
    found: str = value
    return found


def boolean(value: Json) -> bool:
    demand(isinstance(value, bool), "true or false is due")
    found: bool = value
    return found


def integer(value: Json, minimum: int) -> int:
    """One of our own numbers: an integer literal, so neither `5.0` nor `true`."""
    demand(isinstance(value, int) and not isinstance(value, bool), "an integer is due")
    demand(value >= minimum, "below the minimum")
    found: int = value
    return found


def one_of(value: Json, choices: str) -> str:
    demand(isinstance(value, str) and value in choices.split(), f"one of {choices} is due")
    found: str = value
    return found


def free(value: Json) -> Object:
    """An object with whatever members."""
    demand(isinstance(value, dict), "an object is due")
    found: Object = value
    return found


def many(value: Json) -> list[Any]:
    demand(isinstance(value, list), "an array is due")
    found: list[Any] = value
    return found


def distinct(names: Iterable[Any], what: str) -> list[Any]:
    """The same as a list; `invalid_params` when one stands in it twice."""
    listed = list(names)
    demand(len(listed) == len(set(listed)), f"{what} doubled")
    return listed


# --- the whole snapshot ------------------------------------------------------------------------------------------


def judge(state: Object, limits: Limits) -> None:
    """Refuse a snapshot that §6 refuses. `state` is complete: defaults filled in, values after ingest."""
    regions = {region["id"]: region for region in state["regions"]}
    records = {record["id"]: record for record in state["records"]}
    capabilities = {capability["id"] for capability in state["capabilities"]}
    for part in ("regions", "records", "capabilities", "feedback"):
        distinct((entry["id"] for entry in state[part]), f"id in {part}")
        at_most(len(state[part]), getattr(limits, part), part)
    for region in regions.values():
        ancestors(regions, region["id"])
    for record in records.values():
        demand(record["region"] in regions, "record of an unknown region")
        judge_record(record, limits)
    for capability in state["capabilities"]:
        demand(capability["region"] is None or capability["region"] in regions, "capability of an unknown region")
    at_most(sum(len(canonical(c)) for c in state["capabilities"]), limits.capability_bytes, "capabilityBytes")
    for entry in state["unavailable"] + state["feedback"]:
        demand(entry.get("capability", None) in capabilities | {None}, "an unknown capability is named")
        demand(entry.get("record", None) in records.keys() | {None}, "an unknown record is named")
        demand(entry.get("region", None) in regions.keys() | {None}, "an unknown region is named")
    distinct((pair(entry) for entry in state["unavailable"]), "pair of capability and record")
    at_most(len(state["unavailable"]), limits.records, "unavailable")
    at_most(len(canonical(state["state"])), limits.state_bytes, "stateBytes")
    at_most(len(state.get("scope", {})), SCOPE_TEXTS, "scope")


def ancestors(regions: dict[str, Object], region: str) -> list[str]:
    """The region itself and all above it, upwards; `invalid_params` when one is unknown or they lead in a circle."""
    line: list[str] = []
    here: str | None = region
    while here is not None:
        demand(here in regions, "unknown parent")
        demand(here not in line, "regions in a circle")
        line.append(here)
        here = regions[here]["parent"]
    return line


def judge_record(record: Object, limits: Limits) -> None:
    """The bounds of one record after ingest."""
    at_most(len(record["fields"]), limits.fields_per_record, "fieldsPerRecord")
    for value in record["fields"].values():
        demand(not holds_member(value, "$placeholder"), "$placeholder in a published value")
        at_most(len(canonical(value)), limits.field_bytes, "fieldBytes")
    at_most(len(canonical(record)), limits.record_bytes, "recordBytes")


def pair(entry: Object) -> tuple[str, str | None]:
    """What an `unavailable` entry is about. A record of None sorts nowhere: compare pairs for equality only."""
    return entry["capability"], entry.get("record")
