"""What a publisher sent, made clean: declared fields only, texts cut to `maxChars`, every bound judged, or refused whole.

Nothing here knows what is stored; `content` judges a whole snapshot, the other functions the objects of one. Paths are
JSON Pointers into the params of the request (protocol §3, §6).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.core.arguments import check_arguments
from gateway.core.errors import exceeded, invalid
from gateway.core.limits import DROPPED_TOLD, SCOPE_TEXTS, Limits
from gateway.core.model import SLICE, Capability, Feedback, Field, Page, Record, Region, page_of, text
from gateway.core.order import Steps
from gateway.core.params import (
    CapabilityIn,
    FeedbackIn,
    FieldIn,
    PageChange,
    PageIn,
    RecordIn,
    RegionIn,
    SnapshotIn,
    UnavailableIn,
)

ARGUMENTS_DEFAULT = {"additionalProperties": False, "type": "object"}
PLACEHOLDER = "$placeholder"
INTEGRAL = float(2**53)


class Dropped:
    """What ingest dropped: names and regions, never values."""

    def __init__(self) -> None:
        self._entries: set[tuple[str, str, str]] = set()

    def clear(self) -> None:
        """Begin again: the message is judged anew on another snapshot."""
        self._entries.clear()

    def undeclared(self, region: str, name: str) -> None:
        self._entries.add((region, name, "undeclared"))

    def told(self) -> dict[str, Any]:
        """The members `dropped` and `droppedTotal`; none when nothing was dropped (protocol §6)."""
        if not self._entries:
            return {}
        entries = [{"region": r, "name": n, "why": w} for r, n, w in sorted(self._entries)[:DROPPED_TOLD]]
        return {"dropped": entries, "droppedTotal": len(self._entries)}


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A clean snapshot without a position; `records` in the publisher's order, their scores not yet given."""

    page: Page | None
    regions: dict[str, Region]
    capabilities: dict[str, Capability]
    state: dict[str, Raw]
    feedback: tuple[Feedback, ...]
    unavailable: dict[str, str]
    records_total: int | None
    scope: dict[str, str] | None
    records: list[Record]


def content(snapshot: SnapshotIn, limits: Limits, dropped: Dropped) -> Steps[Content]:
    """Judge and clean a whole snapshot (protocol §6, "Refused whole")."""
    at = "/snapshot"
    regions = unique(at + "/regions", snapshot.regions, region, limits, "regions", limits.regions)
    check_parents(regions, list(regions), at + "/regions")
    check_arguments_bytes(snapshot.capabilities, at + "/capabilities", limits)
    capabilities = unique(
        at + "/capabilities", snapshot.capabilities, capability, limits, "capabilities", limits.capabilities
    )
    check_capability_bytes(capabilities, at + "/capabilities", limits)
    yield
    if len(snapshot.records) > limits.records:
        raise exceeded("records", limits.records, len(snapshot.records), path=at + "/records")
    records: dict[str, Record] = {}
    for n, given in enumerate(snapshot.records):
        records[given.id] = record(given, f"{at}/records/{n}", regions, limits, dropped)
        if len(records) <= n:
            raise invalid(f"{at}/records/{n}/id", "an id no other record has")
        if n % SLICE == SLICE - 1:
            yield
    whole, by_record = yield from unavailable(snapshot.unavailable, at + "/unavailable", limits, capabilities, records)
    for n, (id, entries) in enumerate(by_record.items()):
        if n % SLICE == SLICE - 1:
            yield
        records[id] = msgspec.structs.replace(records[id], unavailable=entries)
    return Content(
        page=None if snapshot.page is UNSET else page(snapshot.page, at + "/page", limits),
        regions=regions,
        capabilities=capabilities,
        state=state(snapshot.state, at + "/state", limits),
        feedback=feedback(snapshot.feedback, at + "/feedback", limits, records, regions, capabilities),
        unavailable=whole,
        records_total=None if snapshot.records_total is UNSET else snapshot.records_total,
        scope=None if snapshot.scope is UNSET else scope(snapshot.scope, at + "/scope", limits),
        records=list(records.values()),
    )


def unique(at: str, items: list[Any], make: Any, limits: Limits, limit: str, maximum: int) -> dict[str, Any]:
    """`make(item, path, limits)` of each by id, in order; refused when there are too many or an id comes twice."""
    if len(items) > maximum:
        raise exceeded(limit, maximum, len(items), path=at)
    made: dict[str, Any] = {}
    for n, item in enumerate(items):
        if item.id in made:
            raise invalid(f"{at}/{n}/id", "an id that stands once in the list")
        made[item.id] = make(item, f"{at}/{n}", limits)
    return made


def short(value: str, path: str, limits: Limits) -> str:
    """A text of ours is never cut, it is refused above `limits.textChars`."""
    if len(value) > limits.text_chars:
        raise exceeded("textChars", limits.text_chars, len(value), path=path)
    return value


def page(given: PageIn | PageChange, at: str, limits: Limits) -> Page:
    told: dict[str, Any] = {}
    if not isinstance(given.title, UnsetType):
        told["title"] = short(given.title, at + "/title", limits)
    if not isinstance(given.route, UnsetType):
        told["route"] = short(given.route, at + "/route", limits)
    members = [text(name) + b":" + text(value) for name, value in told.items()]
    if not isinstance(given.params, UnsetType):
        for name, value in given.params.items():
            if isinstance(value, str):
                short(value, f"{at}/params/{escaped(name)}", limits)
        params = text(clean(given.params)[0])
        if len(params) > limits.state_bytes:
            raise exceeded("stateBytes", limits.state_bytes, len(params), path=at + "/params")
        members.append(b'"params":' + params)
    return page_of(b"{" + b",".join(members) + b"}")


def region(given: RegionIn, at: str, limits: Limits) -> Region:
    if len(given.fields) > limits.fields_per_record:
        raise exceeded("fieldsPerRecord", limits.fields_per_record, len(given.fields), path=at + "/fields")
    fields: dict[str, Field] = {}
    for n, declared in enumerate(given.fields):
        field = _field(declared, f"{at}/fields/{n}", limits)
        if field.name in fields:
            raise invalid(f"{at}/fields/{n}", "a field name that stands once in the region")
        fields[field.name] = field
    return Region(
        given.id,
        short(given.title, at + "/title", limits),
        short(given.description, at + "/description", limits),
        given.parent,
        given.active,
        given.modal,
        tuple(fields.values()),
    )


def _field(declared: str | FieldIn, at: str, limits: Limits) -> Field:
    if isinstance(declared, str):
        return Field(declared, "plain", "application", limits.field_chars)
    chars = limits.field_chars if isinstance(declared.max_chars, UnsetType) else declared.max_chars
    if chars > limits.field_chars:
        raise exceeded("fieldChars", limits.field_chars, chars, path=at + "/maxChars")
    return Field(declared.name, declared.expose, declared.source, chars)


def check_parents(regions: Mapping[str, Region], judged: Sequence[str], at: str) -> None:
    """Every parent is there, and none leads in a circle.

    Args:
        judged: ids of the regions the message names, in its order; the others were sound before it came.
        at: the path of the list that names them.
    """
    for n, id in enumerate(judged):
        if regions[id].parent not in regions and regions[id].parent is not None:
            raise invalid(f"{at}/{n}/parent", "the id of a region of the snapshot")
    sound: set[str] = set()
    for n, id in enumerate(judged):
        line: set[str] = set()
        node: str | None = id
        while node is not None and node not in sound:
            if node in line:
                raise invalid(f"{at}/{n}/parent", "a parent that does not lead back to the region")
            line.add(node)
            node = regions[node].parent
        sound |= line


def capability(given: CapabilityIn, at: str, limits: Limits) -> Capability:
    arguments = ARGUMENTS_DEFAULT if isinstance(given.arguments, UnsetType) else clean(given.arguments)[0]
    check_arguments(arguments, limits, at + "/arguments")
    confirm = given.effect == "destructive" if isinstance(given.confirm, UnsetType) else given.confirm
    told = {
        "id": given.id,
        "title": short(given.title, at + "/title", limits),
        "description": short(given.description, at + "/description", limits),
        "appliesTo": given.applies_to,
        "region": given.region,
        "arguments": Raw(text(arguments)),
        "effect": given.effect,
        "confirm": confirm,
        "idempotent": given.idempotent,
    }
    return Capability(given.id, given.region, Raw(msgspec.json.encode(told)))


def check_arguments_bytes(given: list[CapabilityIn], at: str, limits: Limits) -> None:
    """Sizes before content: schemas are costly to judge, so never more than could be kept of them."""
    size = sum(len(text(item.arguments)) for item in given if not isinstance(item.arguments, UnsetType))
    if size > limits.capability_bytes:
        raise exceeded("capabilityBytes", limits.capability_bytes, size, path=at)


def check_capability_bytes(capabilities: Mapping[str, Capability], at: str, limits: Limits) -> None:
    size = sum(len(bytes(item.text)) for item in capabilities.values())
    if size > limits.capability_bytes:
        raise exceeded("capabilityBytes", limits.capability_bytes, size, path=at)


def state(given: Mapping[str, Any], at: str, limits: Limits) -> dict[str, Raw]:
    """Declared state by name, ascending; the whole at most `limits.stateBytes`."""
    clean_state = {name: Raw(text(clean(given[name])[0])) for name in sorted(given)}
    check_state_bytes(clean_state, at, limits)
    return clean_state


def check_state_bytes(given: Mapping[str, Raw], at: str, limits: Limits) -> None:
    size = len(text(given))
    if size > limits.state_bytes:
        raise exceeded("stateBytes", limits.state_bytes, size, path=at)


def scope(given: Mapping[str, str], at: str, limits: Limits) -> dict[str, str]:
    if len(given) > SCOPE_TEXTS:
        raise exceeded("scope", SCOPE_TEXTS, len(given), path=at)
    for name, value in given.items():
        short(name, at, limits)
        short(value, f"{at}/{escaped(name)}", limits)
    return {name: given[name] for name in sorted(given)}


def feedback(
    given: list[FeedbackIn],
    at: str,
    limits: Limits,
    records: Container[str],
    regions: Container[str],
    capabilities: Container[str],
) -> tuple[Feedback, ...]:
    """Entries in the publisher's order; each names only what is there."""
    made: dict[str, Feedback] = unique(at, given, _feedback, limits, "feedback", limits.feedback)
    for n, entry in enumerate(made.values()):
        for member, id, known in (
            ("record", entry.record, records),
            ("region", entry.region, regions),
            ("capability", entry.capability, capabilities),
        ):
            if id is not None and id not in known:
                raise invalid(f"{at}/{n}/{member}", f"the id of a {member} of the snapshot")
    return tuple(made.values())


def _feedback(given: FeedbackIn, at: str, limits: Limits) -> Feedback:
    named = {
        name: value
        for name, value in (("record", given.record), ("region", given.region), ("capability", given.capability))
        if value is not UNSET
    }
    told = {
        "id": given.id,
        "level": given.level,
        "message": short(given.message, at + "/message", limits),
        **named,
        "source": given.source,
    }
    return Feedback(
        given.id, named.get("record"), named.get("region"), named.get("capability"), Raw(msgspec.json.encode(told))
    )


def unavailable(
    given: list[UnavailableIn],
    at: str,
    limits: Limits,
    capabilities: Container[str],
    records: Container[str],
) -> Steps[tuple[dict[str, str], dict[str, dict[str, str]]]]:
    """Entries of the session, and by record: capability → reason."""
    if len(given) > limits.records:
        raise exceeded("records", limits.records, len(given), path=at)
    whole: dict[str, str] = {}
    by_record: dict[str, dict[str, str]] = {}
    for n, entry in enumerate(given):
        if n % SLICE == SLICE - 1:
            yield
        if entry.capability not in capabilities:
            raise invalid(f"{at}/{n}/capability", "the id of a capability of the snapshot")
        target = whole
        if not isinstance(entry.record, UnsetType):
            if entry.record not in records:
                raise invalid(f"{at}/{n}/record", "the id of a record of the snapshot")
            target = by_record.setdefault(entry.record, {})
        if entry.capability in target:
            raise invalid(f"{at}/{n}", "one entry per capability and record")
        target[entry.capability] = short(entry.reason, f"{at}/{n}/reason", limits)
    return whole, by_record


def record(given: RecordIn, at: str, regions: Mapping[str, Region], limits: Limits, dropped: Dropped) -> Record:
    home = regions.get(given.region)
    if home is None:
        raise invalid(at + "/region", "the id of a region of the snapshot")
    values, cut = fields(given.fields, home, at, dropped)
    return finished(given.id, home.id, values, cut, at, limits)


def finished(id: str, home: str, values: Mapping[str, Any], cut: Iterable[str], at: str, limits: Limits) -> Record:
    """A record of clean values within `fieldBytes` and `recordBytes`."""
    told = text(values)
    if len(told) > limits.field_bytes:
        for name, value in values.items():
            size = len(text(value))
            if size > limits.field_bytes:
                raise exceeded("fieldBytes", limits.field_bytes, size, path=f"{at}/fields/{escaped(name)}")
    made = Record(id, home, Raw(told), tuple(sorted(cut)))
    size = len(record_text(made))
    if size > limits.record_bytes:
        raise exceeded("recordBytes", limits.record_bytes, size, path=at)
    return made


def record_text(record: Record) -> bytes:
    """A record as told (protocol §5)."""
    head = b'{"id":' + text(record.id) + b',"region":' + text(record.region) + b',"fields":' + bytes(record.fields)
    if record.truncated:
        return head + b',"truncated":' + text(record.truncated) + b"}"
    return head + b"}"


def holds_placeholder(value: Any) -> bool:
    """Whether an object at any depth has the member only the gateway may write (protocol §6, `placeholder`)."""
    if isinstance(value, dict):
        return PLACEHOLDER in value or any(holds_placeholder(item) for item in value.values())
    return isinstance(value, list) and any(holds_placeholder(item) for item in value)


def fields(given: Mapping[str, Any], home: Region, at: str, dropped: Dropped) -> tuple[dict[str, Any], set[str]]:
    """Declared fields with clean values, and the names of those whose text was cut."""
    declared = {field.name: field.max_chars for field in home.fields}
    values: dict[str, Any] = {}
    cut: set[str] = set()
    for name, value in given.items():
        chars = declared.get(name)
        if chars is None:
            dropped.undeclared(home.id, name)
            continue
        if holds_placeholder(value):
            raise invalid(f"{at}/fields/{escaped(name)}", f"a value without a member {PLACEHOLDER}")
        values[name], was_cut = clean(value, chars)
        if was_cut:
            cut.add(name)
    return values, cut


def clean(value: Any, max_chars: int | None = None) -> tuple[Any, bool]:
    """A free value as we keep it: integral numbers below 2⁵³ as integers (protocol §2), texts cut to `max_chars`."""
    kind = type(value)
    if kind is str:
        if max_chars is not None and len(value) > max_chars:
            return value[:max_chars], True
    elif kind is float:
        if value.is_integer() and abs(value) < INTEGRAL:
            return int(value), False
    elif kind is dict:
        pairs = {name: clean(item, max_chars) for name, item in value.items()}
        return {name: item for name, (item, _) in pairs.items()}, any(cut for _, cut in pairs.values())
    elif kind is list:
        items = [clean(item, max_chars) for item in value]
        return [item for item, _ in items], any(cut for _, cut in items)
    return value, False


def escaped(name: str) -> str:
    """A member's name as a token of a JSON Pointer (RFC 6901 §3)."""
    return name.replace("~", "~0").replace("/", "~1")
