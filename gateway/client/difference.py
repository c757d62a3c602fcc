"""What leads from one published snapshot to the next, as `patch` takes it (protocol §6.1). Pure.

Both snapshots are as `publish` takes them, defaults told or not. The law: `patch` of the change over the session that
`publish(before)` made leaves what `publish(after)` would.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

Object = dict[str, Any]

SNAPSHOT: Final = frozenset(
    ("page", "regions", "records", "state", "feedback", "unavailable", "capabilities", "recordsTotal", "scope")
)
RECORD: Final = frozenset(("id", "region", "fields"))
REGION_DEFAULTS: Final[Object] = {"description": "", "parent": None, "active": True, "modal": False, "fields": []}


class _Inexpressible(Exception):
    """There is no such patch."""


def difference(before: Object, after: Object) -> Object | None:
    """The smallest change we know that makes `after` of `before`; `{}` where they are the same.

    None: only a `publish` says it (fields of a region or the order of regions changed, a scope went), or `after` is not as
    the protocol has it, which the gateway then says better than we do.
    """
    try:
        return _difference(before, after)
    except (_Inexpressible, KeyError, TypeError, AttributeError):
        return None


def _difference(before: Object, after: Object) -> Object:
    if not after.keys() <= SNAPSHOT or after.get("recordsTotal", 0) is None or "unset" in after.get("page", ()):
        raise _Inexpressible
    regions = _regions(before.get("regions", []), after.get("regions", []))
    capabilities, withdrawn = _capabilities(before.get("capabilities", []), after.get("capabilities", []))
    records, removed = _records(before.get("records", []), after.get("records", []))
    gone = {"record": removed, "capability": withdrawn}
    parts = {
        "state": _members(before.get("state", {}), after.get("state", {})),
        "regions": regions,
        "capabilities": capabilities,
        "records": records,
        "unavailable": _unavailable(_without(before.get("unavailable", []), gone), after.get("unavailable", [])),
    }
    change = _page(before, after) | {name: part for name, part in parts.items() if part}
    feedback = after.get("feedback", [])
    if not same(_without(before.get("feedback", []), gone), feedback):
        change["feedback"] = feedback
    if not same(before.get("recordsTotal"), after.get("recordsTotal")):
        change["recordsTotal"] = after.get("recordsTotal")
    if "scope" in before and "scope" not in after:
        raise _Inexpressible
    if "scope" in after and not ("scope" in before and same(before["scope"], after["scope"])):
        change["scope"] = after["scope"]
    return change


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: `1` and `True` are not."""
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False  # `1` and `1.0` are one to the gateway: then something is told that needed not be
    return not isinstance(one, dict | list) or canonical(one) == canonical(other)


def canonical(value: Any) -> bytes:
    """One text for equal values."""
    return msgspec.json.encode(value, order="deterministic")


def _by_id(entries: Sequence[Object]) -> dict[str, Object]:
    """Entries by id; a doubled one is the gateway's to refuse."""
    found = {entry["id"]: entry for entry in entries}
    if len(found) != len(entries):
        raise _Inexpressible
    return found


def _part(upsert: list[Object], remove: list[str]) -> Object:
    return {name: entries for name, entries in (("upsert", upsert), ("remove", remove)) if entries}


def _page(before: Object, after: Object) -> Object:
    """The page whole; an empty one is one too."""
    if "page" not in after:
        return {"page": {"unset": True}} if "page" in before else {}
    return {} if "page" in before and same(before["page"], after["page"]) else {"page": after["page"]}


def _members(before: Object, after: Object) -> Object:
    """`{set, unset}` of an object's members."""
    put = {name: value for name, value in after.items() if name not in before or not same(before[name], value)}
    unset = [name for name in before if name not in after]
    return ({"set": put} if put else {}) | ({"unset": unset} if unset else {})


def _without(entries: Sequence[Object], gone: dict[str, set[str]]) -> list[Object]:
    """What is left of `unavailable` or `feedback` when records and capabilities went."""
    return [entry for entry in entries if not any(entry.get(member) in ids for member, ids in gone.items())]


def _regions(before: Sequence[Object], after: Sequence[Object]) -> Object:
    """Known regions by the members that changed; new ones whole, and only behind the known: they are appended."""
    known, wanted = _by_id(before), _by_id(after)
    if [id for id in known if id in wanted] + [id for id in wanted if id not in known] != list(wanted):
        raise _Inexpressible
    upsert = []
    for id, region in wanted.items():
        if id not in known:
            upsert.append(region)
            continue
        old, new = REGION_DEFAULTS | known[id], REGION_DEFAULTS | region | {"title": region["title"]}
        if not same(old["fields"], new["fields"]):
            raise _Inexpressible
        changed = {name: value for name, value in new.items() if name not in old or not same(old[name], value)}
        if changed:
            upsert.append({"id": id} | changed)
    return _part(upsert, [id for id in known if id not in wanted])


def _capabilities(before: Sequence[Object], after: Sequence[Object]) -> tuple[Object, set[str]]:
    """New and changed ones whole; and the ids of those that went. Their order means nothing."""
    known, wanted = _by_id(before), _by_id(after)
    upsert = [entry for id, entry in wanted.items() if id not in known or not same(known[id], entry)]
    withdrawn = [id for id in known if id not in wanted]
    return _part(upsert, withdrawn), set(withdrawn)


def _unavailable(before: Sequence[Object], after: Sequence[Object]) -> Object:
    """`{set, unset}` by pair of capability and record. Their order means nothing."""
    known = {(entry["capability"], entry.get("record")): entry for entry in before}
    wanted = {(entry["capability"], entry.get("record")): entry for entry in after}
    if len(wanted) != len(after):
        raise _Inexpressible
    put = [entry for pair, entry in wanted.items() if pair not in known or not same(known[pair], entry)]
    unset = [
        {name: entry[name] for name in ("capability", "record") if name in entry}
        for pair, entry in known.items()
        if pair not in wanted
    ]
    return ({"set": put} if put else {}) | ({"unset": unset} if unset else {})


def _records(before: Sequence[Object], after: Sequence[Object]) -> tuple[Object, set[str]]:
    """Known records by the fields that changed, new ones whole, each with its place where that is not told by the order
    alone; or, where that is the shorter text, all the ids in `order`. And the ids of those that went."""
    known, wanted = _by_id(before), _by_id(after)
    removed = [id for id in known if id not in wanted]
    changed = {id: _record(known.get(id), record) for id, record in wanted.items()}
    order = list(wanted)
    staying = _staying([id for id in known if id in wanted], order)
    placed = _part(
        [entry for id, place in _places(known, order, staying) if (entry := (changed[id] or {}) | place)], removed
    )
    if not any("before" in entry or "after" in entry for entry in placed.get("upsert", [])):
        return placed, set(removed)
    listed = _part([entry for entry in changed.values() if entry], removed) | {"order": order}
    return min(placed, listed, key=lambda part: len(msgspec.json.encode(part))), set(removed)


def _record(known: Object | None, record: Object) -> Object | None:
    """The `upsert` entry of one record without a place; None where nothing changed."""
    if not record.keys() <= RECORD:
        raise _Inexpressible
    if known is None:
        return record
    if msgspec.json.encode(known) == msgspec.json.encode(record):
        return None  # the same text: quickly found, and true of most
    old, new = known.get("fields", {}), record.get("fields", {})
    if known["region"] != record["region"]:
        # All fields again: the former region may not have declared, or may have cut, what the new one keeps.
        entry: Object = {"id": record["id"], "region": record["region"]} | ({"fields": new} if new else {})
        unset = [name for name in old if name not in new]
        return entry | ({"unset": unset} if unset else {})
    members = _members(old, new)
    if not members:
        return None
    names = {"set": "fields", "unset": "unset"}
    return {"id": record["id"]} | {names[name]: value for name, value in members.items()}


def _staying(known: Sequence[str], order: Sequence[str]) -> set[str]:
    """The most known records that need no new place: a longest ascending run of their places."""
    place = {id: n for n, id in enumerate(known)}
    ends: list[int] = []  # the lowest last place of a run of each length
    run_before: dict[int, int | None] = {}
    for id in order:
        if id in place:
            n = place[id]
            length = bisect_left(ends, n)
            run_before[n] = ends[length - 1] if length else None
            ends[length:] = [n, *ends[length + 1 :]] if length < len(ends) else [n]
    staying = set()
    last = ends[-1] if ends else None
    while last is not None:
        staying.add(known[last])
        last = run_before[last]
    return staying


def _places(known: Iterable[str], order: Sequence[str], staying: set[str]) -> Iterable[tuple[str, Object]]:
    """Each id in the order wanted, with its place: none where it stays or is appended, else behind the one before it."""
    known = set(known)
    appended_from = len(order)
    while appended_from and order[appended_from - 1] not in known:
        appended_from -= 1
    first_staying = next((id for id in order if id in staying), None)
    for n, id in enumerate(order):
        if id in staying or n >= appended_from:
            yield id, {}
        elif n:
            yield id, {"id": id, "after": order[n - 1]}
        else:
            yield id, {"id": id, "before": first_staying}
