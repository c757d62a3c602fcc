"""What changed for one view between two projections: an `after`, or the reasons why there is none (protocol §6.3, §9)."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.core.limits import Limits
from gateway.core.model import Record, text
from gateway.core.order import longest_rising
from gateway.core.view import Projection, View, array, revision_text, unavailable_text

ORDER: Final = (
    "navigation",
    "modal",
    "filter",
    "sort",
    "pagination",
    "scope",
    "availability",
    "insufficient",
    "behind",
    "gap",
    "refused",
    "publisher",
)
"""The kinds of reasons in the order they are told."""
REQUIRED_CAUSES: Final = frozenset({"navigation", "modal", "filter", "sort", "pagination", "scope", "availability"})
BROAD_COUNT: Final = 8
BROAD_SHARE: Final = 4
_fields = msgspec.json.Decoder(dict[str, Raw])


def reasons(
    before: Projection, after: Projection, cause: str, touched: Iterable[str], limits: Limits
) -> frozenset[str]:
    """Kinds of required reasons of one step of one view, all but `insufficient` (see `after_params`).

    Args:
        before, after: projections of the same view, `after` one revision later.
        cause: the declared cause's kind, "" without one.
        touched: ids of all records of the session that differ, seen by the view or not.
    """
    old, new = before.snapshot, after.snapshot
    kinds: set[str] = set()
    if cause in REQUIRED_CAUSES:
        kinds.add(cause)
    if old.page is not new.page and (None if old.page is None else old.page.place) != (
        None if new.page is None else new.page.place
    ):
        kinds.add("navigation")
    if before.sight.modal != after.sight.modal:
        kinds.add("modal")
    if old.scope is not new.scope and old.scope != new.scope:
        kinds.add("scope")
    if before.ids is not after.ids and _moves(before.ids, after.ids) > limits.after_moves:
        kinds.add("pagination")
    if _broad(before, after, touched):
        kinds.add("availability")
    return frozenset(kinds)


def _moves(before: Sequence[str], after: Sequence[str]) -> int:
    removed, added = _moved(before, after)
    return len(removed) + len(added)


def _moved(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[tuple[int, str]]]:
    """Ids that leave, and (index in `after`, id) of those that come; one that moved does both. The fewest possible."""
    if before == after:
        return [], []
    places = {id: n for n, id in enumerate(before)}
    common = [(n, places[id]) for n, id in enumerate(after) if id in places]
    stay = {common[i][0] for i in longest_rising([place for _, place in common])}
    kept = {after[n] for n in stay}
    return [id for id in before if id not in kept], [(n, id) for n, id in enumerate(after) if n not in stay]


def _broad(before: Projection, after: Projection, touched: Iterable[str]) -> bool:
    """More than a quarter of the capabilities, and at least 8, came, went, or had an `unavailable` entry come or go."""
    ids = before.capabilities.keys() | after.capabilities.keys()
    if len(ids) < BROAD_COUNT:
        return False
    changed = set(before.capabilities.keys() ^ after.capabilities.keys())
    changed |= before.snapshot.unavailable.keys() ^ after.snapshot.unavailable.keys()
    for id in touched:
        changed |= _blocked(before, id) ^ _blocked(after, id)
    for gained, projection in ((before.sight.active, after), (after.sight.active, before)):
        changed |= {
            capability
            for region, capability in projection.snapshot.blocked
            if region in projection.sight.active and region not in gained
        }
    changed &= ids
    return len(changed) >= BROAD_COUNT and BROAD_SHARE * len(changed) > len(ids)


def _blocked(projection: Projection, id: str) -> frozenset[str]:
    record = projection.snapshot.records.get(id)
    if record is None or record.region not in projection.sight.active:
        return frozenset()
    return frozenset(record.unavailable)


def ranked(kinds: Iterable[str]) -> list[str]:
    """Kinds in the order they are told."""
    return sorted(kinds, key=ORDER.index)


def reasons_text(kinds: Iterable[str]) -> bytes:
    """Required reasons as told."""
    return msgspec.json.encode([{"kind": kind, "required": True} for kind in ranked(kinds)])


def invalidated_params(view: View, projection: Projection, kinds: Iterable[str], publisher: str | None = None) -> bytes:
    """The params of `invalidated`: required reasons, or `publisher` with its new value."""
    told: list[dict[str, Any]] = [{"kind": kind, "required": kind != "publisher"} for kind in ranked(kinds)]
    if publisher is not None:
        told.append({"kind": "publisher", "required": False, "publisher": publisher})
    epoch, revision = projection.snapshot.position
    return b'{"session":%b,"view":"%b","epoch":%b,"revision":%d,"reasons":%b}' % (
        text(view.session),
        view.id().encode(),
        text(epoch),
        revision,
        msgspec.json.encode(told),
    )


def after_params(before: Projection, after: Projection, view: View, cause: str, limits: Limits) -> bytes | None:
    """The params of `after` from `before` to `after`; None: `insufficient`, nothing but a describe can tell it.

    Args:
        cause: the declared cause's kind, "" without one or where several revisions are merged.
    """
    if before.shortened or after.shortened:
        if before.pieces() != after.pieces() or before.totals() != after.totals():
            return None  # totals: `capabilitiesTotal` tells what an emptied `capabilities` does not
        members: list[bytes] = []
    else:
        members = _members(before, after)
    params = b"".join(
        [
            b'{"session":' + text(view.session) + b',"view":"' + view.id().encode() + b'"',
            b',"epoch":' + text(after.snapshot.position.epoch) + b',"base":%d' % before.snapshot.position.revision,
            b"," + revision_text(after.snapshot),
            b',"cause":{"kind":"%b"}' % cause.encode() if cause else b"",
            *members,
            b"}",
        ]
    )
    return params if len(params) <= limits.after_bytes else None


def _members(before: Projection, after: Projection) -> list[bytes]:
    """The members that changed, each with its leading comma, in the order of protocol §9."""
    old, new = before.snapshot, after.snapshot
    members: list[bytes] = []

    def tell(name: bytes, value: bytes) -> None:
        members.append(b',"' + name + b'":' + value)

    if new.page is not None and old.page != new.page:
        tell(b"page", new.page.text)
    if before.records is not after.records:
        _tell_records(before, after, tell)
    if before.missing != after.missing:
        tell(b"missing", text(after.missing))
    if before.ids is not after.ids and before.ids != after.ids:
        removed, added = _moved(before.ids, after.ids)
        tell(b"recordIds", msgspec.json.encode(_Moves(removed, [_Added(id, n) for n, id in added])))
    if before.window != after.window:
        tell(b"recordWindow", after.window.text())
    if before.ids_window != after.ids_window:
        tell(b"recordIdsWindow", b"null" if after.ids_window is None else after.ids_window.text())
    if old.state is not new.state and old.state != new.state:
        put = {name: raw for name, raw in new.state.items() if old.state.get(name) != raw}
        unset = [name for name in old.state if name not in new.state]
        tell(b"state", b'{"set":' + text(put) + b',"unset":' + text(unset) + b"}")
    if before.feedback != after.feedback:
        tell(b"feedback", array(after.feedback))
    if before.unavailable != after.unavailable:
        tell(b"unavailable", unavailable_text(after.unavailable))
    if before.sight.text != after.sight.text:
        tell(b"regions", after.sight.text)
    if before.surface != after.surface:
        tell(b"agent_surface", after.surface)
    if before.capabilities is not after.capabilities:
        _tell_capabilities(before.capabilities, after.capabilities, tell)
    totals = {name: n for name, n in after.totals().items() if n != before.totals()[name]}
    if totals:
        tell(b"totals", msgspec.json.encode(totals))
    return members


class _Added(msgspec.Struct):
    id: str
    at: int


class _Moves(msgspec.Struct):
    removed: list[str]
    added: list[_Added]


def _tell_capabilities(before: dict[str, Raw], after: dict[str, Raw], tell: Any) -> None:
    changed = [raw for id, raw in after.items() if before.get(id) != raw]
    withdrawn = [id for id in before if id not in after]
    if changed:
        tell(b"capabilities", array(changed))
    if withdrawn:
        tell(b"withdrawn", text(withdrawn))


def _tell_records(before: Projection, after: Projection, tell: Any) -> None:
    removed, added = _moved([r.id for r in before.records], [r.id for r in after.records])
    entered = dict(added)
    known = {record.id: record for record in before.records}
    told: list[bytes] = []
    for n, record in enumerate(after.records):
        if n in entered:
            told.append(_entered(record, n))
        elif known[record.id] is not record:
            told += _changed(known[record.id], record)
    if told:
        tell(b"records", b"[" + b",".join(told) + b"]")
    if removed:
        tell(b"left", text(removed))


def _entered(record: Record, at: int) -> bytes:
    truncated = b',"truncated":' + text(record.truncated) if record.truncated else b""
    return b'{"id":%b,"entered":true,"at":%d,"region":%b,"fields":%b%b}' % (
        text(record.id),
        at,
        text(record.region),
        bytes(record.fields),
        truncated,
    )


def _changed(before: Record, after: Record) -> list[bytes]:
    """The entry of a record that stayed in the window; none when nothing the view is told changed."""
    members: list[bytes] = []
    if before.region != after.region:
        members.append(b',"region":' + text(after.region))
    if before.fields != after.fields:
        old, new = _fields.decode(before.fields), _fields.decode(after.fields)
        put = {name: raw for name, raw in new.items() if old.get(name) != raw}
        unset = [name for name in old if name not in new]
        if put:
            members.append(b',"fields":' + text(put))
        if unset:
            members.append(b',"unset":' + text(unset))
    if before.truncated != after.truncated:
        members.append(b',"truncated":' + (text(after.truncated) if after.truncated else b"null"))
    return [b'{"id":' + text(after.id) + b"".join(members) + b"}"] if members else []
