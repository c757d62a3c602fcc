"""One view of one snapshot: what a describe response says, from a window and an effective scope (protocol §4, §5, §3.1).

`project` is a function of (snapshot, view, limits, target) alone: the same on every node and every time. It reuses the
pieces of an earlier projection of the same view that cannot have changed.
"""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from gateway.core import bytecut
from gateway.core.ingest import record_text
from gateway.core.limits import Limits
from gateway.core.model import Capability, Feedback, Record, Region, Snapshot, text
from gateway.core.params import ViewParams

VERSION: Final = 1
"""Of the projection: raised whenever the same snapshot and view would give other bytes (part of a view's id)."""
LONGEST_PUBLISHER: Final = "unknown"
"""Sizes are measured with the longest value, so that what is cut does not depend on the publisher's state."""


class Target(msgspec.Struct, frozen=True):
    """The store this process resolved: the layer that named it (argv, xdg, default) and its address, no secrets."""

    source: str
    resolved: str

    def members(self) -> bytes:
        """The target members of `agent_surface`, without braces."""
        return b'"db_path_source":' + text(self.source) + b',"db_path_resolved":' + text(self.resolved)


class View(msgspec.Struct, frozen=True):
    """A window on a session under an effective scope. `limit_told`: the caller named the limit.

    `records`: the ids asked for, which take the place of a window. `scope`: granted region ids, ascending; None: all.
    """

    session: str
    offset: int
    limit: int
    limit_told: bool
    records: tuple[str, ...] | None
    scope: tuple[str, ...] | None

    def id(self) -> str:
        """The same on every connection and node; another one where answers could differ in one byte."""
        window = [self.offset, self.limit if self.limit_told else None] if self.records is None else self.records
        return "v_" + sha256(text([VERSION, self.session, window, self.scope])).hexdigest()[:24]


def view_of(params: ViewParams, scope: tuple[str, ...] | None, limits: Limits) -> View:
    """The view a request names; its members were judged when the message was decoded."""
    if isinstance(params.record, UnsetType):
        told = not isinstance(params.limit, UnsetType)
        limit = limits.window_default if isinstance(params.limit, UnsetType) else params.limit
        offset = 0 if isinstance(params.offset, UnsetType) else params.offset
        return View(params.session, offset, limit, told, None, scope)
    ids = (params.record,) if isinstance(params.record, str) else tuple(params.record)
    return View(params.session, 0, len(ids), True, ids, scope)


class Sight(msgspec.Struct, frozen=True):
    """What of the regions a scope lets one see. `active`: regions whose records can be seen."""

    regions: tuple[Region, ...]
    ids: frozenset[str]
    active: frozenset[str]
    modal: frozenset[str]
    text: bytes


class Window(msgspec.Struct, frozen=True):
    """`recordWindow` and, without `limit`, `recordIdsWindow`."""

    offset: int
    limit: int | None
    returned: int
    total: int
    next: int | None

    def text(self) -> bytes:
        limit = b"" if self.limit is None else b',"limit":%d' % self.limit
        next = b"" if self.next is None else b',"next":%d' % self.next
        return b'{"offset":%d%b,"returned":%d,"total":%d%b}' % (self.offset, limit, self.returned, self.total, next)


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """A view of one snapshot, piece by piece as told."""

    snapshot: Snapshot
    sight: Sight
    capabilities: dict[str, Raw]
    unavailable: tuple[tuple[str, str | None, str], ...]
    unavailable_total: int
    feedback: tuple[Raw, ...]
    window: Window
    missing: tuple[str, ...] | None
    records: tuple[Record, ...]
    records_total: int
    ids: tuple[str, ...]
    ids_total: int
    ids_window: Window | None
    surface: bytes
    cut: tuple[bytes, bytes] | None = None
    shortened: bool = False

    def totals(self) -> dict[str, int]:
        """The six totals under their names."""
        return {
            "capabilitiesTotal": len(self.capabilities),
            "regionsTotal": len(self.sight.regions),
            "unavailableTotal": self.unavailable_total,
            "feedbackTotal": len(self.feedback),
            "recordsTotal": self.records_total,
            "recordIdsTotal": self.ids_total,
        }

    def pieces(self) -> tuple[bytes, bytes]:
        """`capabilities` and `context` as told."""
        if self.cut is not None:
            return self.cut
        page = self.snapshot.page
        members = [
            b"" if page is None else b'"page":' + page.text + b",",
            b'"regions":' + self.sight.text + b',"regionsTotal":%d' % len(self.sight.regions),
            b',"state":' + text(self.snapshot.state),
            b',"unavailable":' + unavailable_text(self.unavailable),
            b',"unavailableTotal":%d' % self.unavailable_total,
            b',"feedback":' + array(self.feedback) + b',"feedbackTotal":%d' % len(self.feedback),
            b',"recordWindow":' + self.window.text(),
            b"" if self.missing is None else b',"missing":' + text(self.missing),
            b',"records":[' + b",".join([record_text(record) for record in self.records]) + b"]",
            b',"recordsTotal":%d' % self.records_total,
            b"" if self.ids_window is None else b',"recordIdsWindow":' + self.ids_window.text(),
            b',"recordIds":' + text(self.ids) + b',"recordIdsTotal":%d' % self.ids_total,
            b',"agent_surface":' + self.surface,
        ]
        return array(self.capabilities.values()), b"{" + b"".join(members) + b"}"


def array(items: Any) -> bytes:
    """A JSON array of texts of JSON."""
    return b"[" + b",".join([bytes(item) for item in items]) + b"]"


def unavailable_text(entries: tuple[tuple[str, str | None, str], ...]) -> bytes:
    """The array `unavailable` as told."""
    told = [
        {"capability": capability, "reason": reason}
        if record is None
        else {"capability": capability, "record": record, "reason": reason}
        for capability, record, reason in entries
    ]
    return msgspec.json.encode(told)


def time_text(ms: int) -> str:
    """RFC 3339, UTC, milliseconds, `Z`."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def revision_text(snapshot: Snapshot) -> bytes:
    """`"revision":…,"asOf":…` without braces."""
    return b'"revision":%d,"asOf":"%b"' % (snapshot.position.revision, time_text(snapshot.as_of).encode())


def describe(projection: Projection, view: View, publisher: str) -> bytes:
    """The describe response (protocol §5)."""
    capabilities, context = projection.pieces()
    return b"".join(
        [
            b'{"session":' + text(view.session) + b',"view":"' + view.id().encode() + b'","capabilities":',
            capabilities + b',"capabilitiesTotal":%d,"context":' % len(projection.capabilities),
            context + b',"epoch":' + text(projection.snapshot.position.epoch) + b",",
            revision_text(projection.snapshot) + b',"publisher":' + text(publisher) + b"}",
        ]
    )


def project(
    snapshot: Snapshot, view: View, limits: Limits, target: Target, last: Projection | None = None
) -> Projection:
    """The view's projection, within `limits.responseBytes`.

    Args:
        last: an earlier projection of the same view, under the same limits and target.
    """
    projection = _project(snapshot, view, limits, target, last, None)
    if _bound(projection) <= limits.response_bytes:
        return projection
    size = len(describe(projection, view, LONGEST_PUBLISHER))
    if size <= limits.response_bytes:
        return projection
    whole, whole_size = projection, size
    while projection.records and size > limits.response_bytes:
        keep, over = len(projection.records), size - limits.response_bytes
        while keep and over > 0:
            keep -= 1
            over -= len(record_text(projection.records[keep])) + 1
        projection = _project(snapshot, view, limits, target, None, keep)
        size = len(describe(projection, view, LONGEST_PUBLISHER))
    if projection.records:
        return projection
    around = whole_size - sum(len(piece) for piece in whole.pieces())
    pieces = bytecut.cut(*whole.pieces(), around + bytecut.AROUND, limits.response_bytes)
    return msgspec.structs.replace(whole, cut=pieces, shortened=True)


def _bound(p: Projection) -> int:
    """Never below the size of the response: texts can grow sixfold when they are escaped."""
    size = 4_096 + len(p.surface) + sum(len(bytes(item)) for item in p.capabilities.values()) + len(p.sight.text)
    size += 0 if p.snapshot.page is None else len(p.snapshot.page.text)
    size += sum(len(bytes(raw)) + 6 * len(name) + 16 for name, raw in p.snapshot.state.items())
    size += sum(len(bytes(raw)) + 1 for raw in p.feedback)
    size += sum(6 * (len(c) + len(r or "") + len(reason)) + 64 for c, r, reason in p.unavailable)
    for record in p.records:
        size += len(bytes(record.fields)) + 3_072 + sum(6 * len(name) + 4 for name in record.truncated)
    return size + sum(6 * len(id) + 4 for id in p.ids) + sum(6 * len(id) + 4 for id in p.missing or ())


def _project(
    snapshot: Snapshot, view: View, limits: Limits, target: Target, last: Projection | None, keep: int | None
) -> Projection:
    old = None if last is None or last.shortened else last
    same_regions = old is not None and old.snapshot.regions is snapshot.regions
    sight = old.sight if old is not None and same_regions else see(snapshot.regions, view.scope)
    same_order = old is not None and same_regions and old.snapshot.order is snapshot.order
    if old is not None and same_order:
        ids, ids_window, total = old.ids, old.ids_window, old.ids_total
    else:
        total = snapshot.order.count(sight.active)
        ids, ids_window = _ids(snapshot, view, limits, sight, total)
    if old is not None and same_order and old.snapshot.records is snapshot.records:
        records, missing = old.records, old.missing
    elif old is not None and same_order and view.records is None:
        records, missing = tuple([snapshot.records[record.id] for record in old.records]), None
    else:
        records, missing = _records(snapshot, view, sight)
    shortened = keep is not None and keep < len(records)
    found = len(records)
    if shortened:
        records = records[:keep]
    window = _window(view, len(records), found, total, shortened)
    declared = snapshot.records_total if view.scope is None else None
    records_total = max(total, declared or 0)
    capabilities = _capabilities(snapshot, view, sight, old)
    return Projection(
        snapshot=snapshot,
        sight=sight,
        capabilities=capabilities,
        unavailable=_unavailable(snapshot, limits, capabilities, records),
        unavailable_total=_unavailable_total(snapshot, sight, capabilities),
        feedback=_feedback(snapshot, view, sight, capabilities),
        window=window,
        missing=missing,
        records=records,
        records_total=records_total,
        ids=ids,
        ids_total=total,
        ids_window=ids_window,
        surface=_surface(view, window, records_total, target),
        shortened=shortened,
    )


def see(regions: dict[str, Region], scope: tuple[str, ...] | None) -> Sight:
    """The regions a scope covers with their descendants; a parent out of scope is told as null."""
    seen: dict[str, tuple[bool, bool]] = {}
    for start in regions:
        line: list[Region] = []
        above: str | None = start
        while above is not None and above not in seen:
            line.append(regions[above])
            above = regions[above].parent
        is_covered, is_active = (False, True) if above is None else seen[above]
        for region in reversed(line):
            is_covered, is_active = scope is None or is_covered or region.id in scope, is_active and region.active
            seen[region.id] = (is_covered, is_active)
    visible = [region for id, region in regions.items() if seen[id][0]]
    ids = frozenset(region.id for region in visible)
    active = frozenset(region.id for region in visible if seen[region.id][1])
    told = [
        {
            "id": region.id,
            "title": region.title,
            "description": region.description,
            "parent": region.parent if region.parent in ids else None,
            "active": region.active,
            "modal": region.modal,
            "fields": [{"name": f.name, "expose": f.expose, "source": f.source} for f in region.fields],
        }
        for region in visible
    ]
    modal = frozenset(region.id for region in visible if region.modal and region.id in active)
    return Sight(tuple(visible), ids, active, modal, msgspec.json.encode(told))


def _ids(
    snapshot: Snapshot, view: View, limits: Limits, sight: Sight, total: int
) -> tuple[tuple[str, ...], Window | None]:
    if total <= limits.record_ids:
        return tuple(snapshot.order.window(sight.active, 0, total)), None
    ids = tuple(snapshot.order.window(sight.active, view.offset, limits.record_ids))
    return ids, _page(view.offset, None, len(ids), total)


def _page(offset: int, limit: int | None, returned: int, total: int) -> Window:
    reached = offset + returned
    return Window(offset, limit, returned, total, reached if reached < total else None)


def _records(snapshot: Snapshot, view: View, sight: Sight) -> tuple[tuple[Record, ...], tuple[str, ...] | None]:
    if view.records is None:
        ids = snapshot.order.window(sight.active, view.offset, view.limit)
        return tuple([snapshot.records[id] for id in ids]), None
    found: list[Record] = []
    missing: list[str] = []
    for id in view.records:
        record = snapshot.records.get(id)
        if record is None or record.region not in sight.active:
            missing.append(id)
        else:
            found.append(record)
    return tuple(found), tuple(missing)


def _window(view: View, returned: int, found: int, total: int, shortened: bool) -> Window:
    if view.records is None:
        return _page(view.offset, view.limit, returned, total)
    return Window(0, view.limit, returned, found, returned if shortened else None)


def _capabilities(snapshot: Snapshot, view: View, sight: Sight, old: Projection | None) -> dict[str, Raw]:
    if old is not None and old.snapshot.capabilities is snapshot.capabilities and old.sight is sight:
        return old.capabilities

    def told(item: Capability) -> bool:
        return view.scope is None or item.region is None or item.region in sight.ids

    return {id: item.text for id, item in sorted(snapshot.capabilities.items()) if told(item)}


def _unavailable(
    snapshot: Snapshot, limits: Limits, capabilities: dict[str, Raw], records: tuple[Record, ...]
) -> tuple[tuple[str, str | None, str], ...]:
    entries: list[tuple[str, str | None, str]] = [
        (capability, None, reason) for capability, reason in snapshot.unavailable.items() if capability in capabilities
    ]
    for record in records:
        for capability, reason in record.unavailable.items():
            if capability in capabilities:
                entries.append((capability, record.id, reason))
    entries.sort(key=lambda entry: (entry[0], entry[1] is not None, entry[1] or ""))
    return tuple(entries[: limits.unavailable])


def _unavailable_total(snapshot: Snapshot, sight: Sight, capabilities: dict[str, Raw]) -> int:
    whole = sum(capability in capabilities for capability in snapshot.unavailable)
    return whole + sum(
        count
        for (region, capability), count in snapshot.blocked.items()
        if region in sight.active and capability in capabilities
    )


def _feedback(snapshot: Snapshot, view: View, sight: Sight, capabilities: dict[str, Raw]) -> tuple[Raw, ...]:
    def told(entry: Feedback) -> bool:
        if view.scope is None:
            return True
        record = None if entry.record is None else snapshot.records[entry.record]
        return (
            (entry.region is None or entry.region in sight.ids)
            and (record is None or record.region in sight.ids)
            and (entry.capability is None or entry.capability in capabilities)
        )

    return tuple([entry.text for entry in snapshot.feedback if told(entry)])


def _surface(view: View, window: Window, records_total: int, target: Target) -> bytes:
    """`agent_surface` without knobs: target and ceiling members (surface mapping §3)."""
    if view.records is not None:
        shortened = b',"filter_scope":"page","filter_incomplete":true' if window.returned < window.total else b""
        return b"{" + target.members() + shortened + b"}"
    partial = window.offset > 0 or window.offset + window.returned < records_total
    return b"".join(
        [
            b"{" + target.members() + b',"query_limited":true,"query_limit":%d' % view.limit,
            b',"query_limit_source":"flag"' if view.limit_told else b',"query_limit_source":"default"',
            b',"query_limit_kind":"pagination","universe_total":%d' % window.total,
            b',"filter_scope":"page","filter_incomplete":true}' if partial else b',"filter_scope":"universe"}',
        ]
    )
