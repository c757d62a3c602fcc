"""A session as the gateway keeps it: one immutable snapshot of one position, and the changes between snapshots.

Everything told to callers is kept as text of JSON (bytes in our own form, protocol §2) beside the few members the core
decides on. Snapshots share what did not change: records live in a persistent map, their order in a persistent sequence.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from immutables import Map

from gateway.core.order import Order, Place, Steps, ordered
from gateway.core.position import Position

SLICE: Final = 256
"""Records handled between two places where sliced work may give way."""

_encode = msgspec.json.Encoder(order="sorted").encode


def text(value: Any) -> bytes:
    """Compact UTF-8 JSON, members of free objects ascending by code point (protocol §2)."""
    return _encode(value)


class Page(msgspec.Struct, frozen=True):
    """`text`: the page as told. `place`: route and params in canonical form; another one is a navigation."""

    text: bytes
    place: bytes


class Field(msgspec.Struct, frozen=True):
    """A declared field; `max_chars` in code points."""

    name: str
    expose: str
    source: str
    max_chars: int


class Region(msgspec.Struct, frozen=True):
    id: str
    title: str
    description: str
    parent: str | None
    active: bool
    modal: bool
    fields: tuple[Field, ...]


class Capability(msgspec.Struct, frozen=True):
    """`text`: the capability as told."""

    id: str
    region: str | None
    text: msgspec.Raw


class Feedback(msgspec.Struct, frozen=True):
    """`text`: the entry as told; the ids are what it names."""

    id: str
    record: str | None
    region: str | None
    capability: str | None
    text: msgspec.Raw


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`fields`: the object as told. `truncated`: names of fields whose text ingest cut, ascending.

    `unavailable`: capability → reason. `score`: its place among all records of the session.
    """

    id: str
    region: str
    fields: msgspec.Raw
    truncated: tuple[str, ...] = ()
    unavailable: dict[str, str] = {}
    score: int = 0

    def same(self, other: "Record") -> bool:
        """Equal apart from its place."""
        return (
            self.region == other.region
            and self.fields == other.fields
            and self.truncated == other.truncated
            and self.unavailable == other.unavailable
        )


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One position of a session. `as_of`: ms since the Unix epoch.

    `unavailable`: of the session as a whole, capability → reason. `blocked`: (region, capability) → how many records
    of the region have an entry for the capability. `state`: name → text of its value.
    """

    position: Position
    as_of: int
    page: Page | None = None
    regions: dict[str, Region] = {}
    capabilities: dict[str, Capability] = {}
    state: dict[str, msgspec.Raw] = {}
    feedback: tuple[Feedback, ...] = ()
    unavailable: dict[str, str] = {}
    records_total: int | None = None
    scope: dict[str, str] | None = None
    records: Map[str, Record] = Map()
    order: Order = Order()
    blocked: Map[tuple[str, str], int] = Map()


EMPTY: Final = Snapshot(position=Position("", 0), as_of=0)
"""What a session is before its first revision."""

PARTS: Final[dict[str, Any]] = {
    "page": Page | None,
    "regions": list[Region],
    "capabilities": list[Capability],
    "state": dict[str, msgspec.Raw],
    "feedback": tuple[Feedback, ...],
    "unavailable": dict[str, str],
    "records_total": int | None,
    "scope": dict[str, str] | None,
}
"""The small parts by name, and their stored types."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one revision replaces: new values of small parts, records whole (None: removed), records only moved.

    Applying it twice is the same as applying it once.
    """

    parts: dict[str, Any] = {}
    records: dict[str, Record | None] = {}
    scores: dict[str, int] = {}

    def empty(self) -> bool:
        """Whether it leaves every snapshot it was made for as it is."""
        return not (self.parts or self.records or self.scores)

    def touched(self) -> frozenset[str]:
        """Ids of the records it names."""
        return frozenset(self.records) | frozenset(self.scores)


class _StoredChange(msgspec.Struct, frozen=True):
    parts: dict[str, msgspec.Raw]
    records: dict[str, Record | None]
    scores: dict[str, int]


_change_decoder = msgspec.json.Decoder(_StoredChange)
_part_decoders: dict[str, Any] = {
    "regions": msgspec.json.Decoder(list[Region]),
    "capabilities": msgspec.json.Decoder(list[Capability]),
    "state": msgspec.json.Decoder(dict[str, msgspec.Raw]),
    "feedback": msgspec.json.Decoder(tuple[Feedback, ...]),
    "unavailable": msgspec.json.Decoder(dict[str, str]),
    "records_total": msgspec.json.Decoder(int | None),
    "scope": msgspec.json.Decoder(dict[str, str] | None),
}


def page_of(told: bytes) -> Page:
    """A page from its text as told."""
    page: dict[str, Any] = msgspec.json.decode(told)
    page.pop("title", None)
    return Page(told, text(page))


def encode_part(name: str, value: Any) -> bytes:
    """A small part as stored."""
    if name == "page":
        return b"null" if value is None else bytes(value.text)
    if name in ("regions", "capabilities"):
        return text(list(value.values()))
    return text(value)


def decode_part(name: str, stored: bytes) -> Any:
    """The inverse of `encode_part`."""
    if name == "page":
        return None if stored == b"null" else page_of(bytes(stored))
    value = _part_decoders[name].decode(stored)
    if name in ("regions", "capabilities"):
        return {item.id: item for item in value}
    if name == "state":
        return {key: raw.copy() for key, raw in value.items()}
    return value


def encode_change(change: Change) -> bytes:
    """A change as text, for the log and for other nodes."""
    parts = {name: msgspec.Raw(encode_part(name, value)) for name, value in change.parts.items()}
    return text(_StoredChange(parts, change.records, change.scores))


def decode_change(stored: bytes) -> Change:
    """The inverse of `encode_change`."""
    raw = _change_decoder.decode(stored)
    parts = {name: decode_part(name, bytes(value)) for name, value in raw.parts.items()}
    # A Raw is a view of the whole message: copied, or one small record would keep all of it alive.
    records = {
        id: None if record is None else msgspec.structs.replace(record, fields=record.fields.copy())
        for id, record in raw.records.items()
    }
    return Change(parts=parts, records=records, scores=raw.scores)


def apply(snapshot: Snapshot, change: Change, position: Position, as_of: int) -> Steps[Snapshot]:
    """`snapshot` with `change` on it, at `position`."""
    records, order, blocked = snapshot.records, snapshot.order, snapshot.blocked
    if change.records or change.scores:
        records, order, blocked = yield from _apply_records(snapshot, change)
    return msgspec.structs.replace(
        snapshot, position=position, as_of=as_of, records=records, order=order, blocked=blocked, **change.parts
    )


def _apply_records(
    snapshot: Snapshot, change: Change
) -> Steps[tuple[Map[str, Record], Order, Map[tuple[str, str], int]]]:
    drop: list[int] = []
    put: list[Place] = []
    counts: dict[tuple[str, str], int] = {}
    new: dict[str, Record | None] = dict(change.records)
    for n, (id, score) in enumerate(change.scores.items()):
        new[id] = msgspec.structs.replace(snapshot.records[id], score=score)
        if n % SLICE == SLICE - 1:
            yield
    records = snapshot.records.mutate()
    for n, (id, record) in enumerate(new.items()):
        old = snapshot.records.get(id)
        placed = old is not None and record is not None and (old.score, old.region) == (record.score, record.region)
        if old is not None:
            _count(counts, old, -1)
            if not placed:
                drop.append(old.score)
        if record is None:
            records.pop(id, None)
        else:
            _count(counts, record, +1)
            records[id] = record
            if not placed:
                put.append(Place(record.score, id, record.region))
        if n % SLICE == SLICE - 1:
            yield
    order = snapshot.order
    if drop or put:
        order = yield from order.edited(drop, put)
    return records.finish(), order, _counted(snapshot.blocked, counts)


def _count(counts: dict[tuple[str, str], int], record: Record, by: int) -> None:
    for capability in record.unavailable:
        key = (record.region, capability)
        counts[key] = counts.get(key, 0) + by


def _counted(blocked: Map[tuple[str, str], int], counts: Mapping[tuple[str, str], int]) -> Map[tuple[str, str], int]:
    changed = {key: by for key, by in counts.items() if by}
    if not changed:
        return blocked
    result = blocked.mutate()
    for key, by in changed.items():
        total = result.get(key, 0) + by
        if total:
            result[key] = total
        else:
            del result[key]
    return result.finish()


_record_decoder = msgspec.json.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """A record as stored: without its score, which the store keeps apart."""
    return text(record if record.score == 0 else msgspec.structs.replace(record, score=0))


def load(
    position: Position, as_of: int, parts: Mapping[str, bytes], records: Mapping[str, bytes], scores: Mapping[str, int]
) -> Steps[Snapshot]:
    """A snapshot from what the store keeps."""
    places: list[Place] = []
    counts: dict[tuple[str, str], int] = {}
    empty: Map[str, Record] = Map()
    loaded = empty.mutate()
    for n, (id, stored) in enumerate(records.items()):
        record = msgspec.structs.replace(_record_decoder.decode(stored), score=scores[id])
        loaded[id] = record
        _count(counts, record, +1)
        places.append(Place(record.score, id, record.region))
        if n % SLICE == SLICE - 1:
            yield
    order = yield from ordered(places)
    return Snapshot(
        position=position,
        as_of=as_of,
        records=loaded.finish(),
        order=order,
        blocked=_counted(Map(), counts),
        **{name: decode_part(name, stored) for name, stored in parts.items()},
    )


def inverse(snapshot: Snapshot, change: Change) -> Change:
    """The change that leads back from `apply(snapshot, change)` to `snapshot`."""
    return Change(
        parts={name: getattr(snapshot, name) for name in change.parts},
        records={id: snapshot.records.get(id) for id in change.records},
        scores={id: snapshot.records[id].score for id in change.scores},
    )


def differing(before: Snapshot, after: Snapshot) -> Steps[frozenset[str]]:
    """Ids of the records that differ, however the two snapshots came about."""
    ids: list[str] = []
    for n, (id, record) in enumerate(before.records.items()):
        other = after.records.get(id)
        if other is not record and other != record:
            ids.append(id)
        if n % SLICE == SLICE - 1:
            yield
    for n, id in enumerate(after.records):
        if id not in before.records:
            ids.append(id)
        if n % SLICE == SLICE - 1:
            yield
    return frozenset(ids)
