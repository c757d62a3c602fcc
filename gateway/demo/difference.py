"""The smallest `change` of a `patch` (protocol §6.1) that leads from one snapshot of the board to another. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def difference(old: Json, new: Json) -> Json:
    """The change from `old` to `new`, snapshots as `publish` takes them with all their members; `{}` where they are equal.

    Raises:
        ValueError: the capabilities, or regions beyond title, description, parent, active and modal, differ: the board
            never changes these.
    """
    if old["capabilities"] != new["capabilities"]:
        raise ValueError("the capabilities are the same all day")
    removed = {record["id"] for record in old["records"]} - {record["id"] for record in new["records"]}
    change: Json = {}
    if old["page"] != new["page"]:
        change["page"] = new["page"]
    if members := _members(old["state"], new["state"], "set"):
        change["state"] = members
    if regions := _regions(old["regions"], new["regions"]):
        change["regions"] = {"upsert": regions}
    upsert = _upserts(old["records"], new["records"])
    if upsert or removed:
        change["records"] = {"upsert": upsert} if upsert else {}
        if removed:
            change["records"]["remove"] = [record["id"] for record in old["records"] if record["id"] in removed]
    if [entry for entry in old["feedback"] if entry.get("record") not in removed] != new["feedback"]:
        change["feedback"] = new["feedback"]
    if unavailable := _unavailable(old["unavailable"], new["unavailable"], removed):
        change["unavailable"] = unavailable
    if old["recordsTotal"] != new["recordsTotal"]:
        change["recordsTotal"] = new["recordsTotal"]
    if old["scope"] != new["scope"]:
        change["scope"] = new["scope"]
    return change


def _members(old: Json, new: Json, name: str) -> Json:
    """Members to put, under `name`, and to unset."""
    put = {key: value for key, value in new.items() if key not in old or not _same(old[key], value)}
    unset = [key for key in old if key not in new]
    return ({name: put} if put else {}) | ({"unset": unset} if unset else {})


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other  # True is not 1 in JSON


def _regions(old: Sequence[Json], new: Sequence[Json]) -> list[Json]:
    changed = []
    for before, after in zip(old, new, strict=True):
        members = {name: value for name, value in after.items() if value != before.get(name)}
        if before.keys() != after.keys() or members.keys() & {"id", "fields"}:
            raise ValueError("the regions and their fields are the same all day")
        if members:
            changed.append({"id": after["id"]} | members)
    return changed


def _upserts(old: Sequence[Json], new: Sequence[Json]) -> list[Json]:
    """Records that came, changed or moved, in the new order: each stands behind one that stands right already."""
    known = {record["id"]: record for record in old}
    kept = _staying([record["id"] for record in old], [record["id"] for record in new])
    first_kept = next((record["id"] for record in new if record["id"] in kept), None)
    upserts: list[Json] = []
    for n, record in enumerate(new):
        before = known.get(record["id"])
        entry: Json = {}
        if before is None:
            entry = {"region": record["region"], "fields": record["fields"]}
        else:
            entry = _members(before["fields"], record["fields"], "fields")
            if before["region"] != record["region"]:
                raise ValueError("a record stays in its region")
        if record["id"] not in kept and n:
            entry["after"] = new[n - 1]["id"]
        elif record["id"] not in kept and first_kept is not None:
            entry["before"] = first_kept
        if entry:
            upserts.append({"id": record["id"]} | entry)
    return upserts


def _staying(old: Sequence[str], new: Sequence[str]) -> set[str]:
    """As many ids as possible that need not move: the longest run of common ones in the same order (patience sorting)."""
    places = {id: n for n, id in enumerate(old)}
    tails: list[int] = []  # the smallest last place of a run of each length
    ends: list[str] = []
    behind: dict[str, str | None] = {}
    for id in new:
        if id in places:
            length = bisect_left(tails, places[id])
            tails[length:] = [places[id], *tails[length + 1 :]]
            ends[length:] = [id, *ends[length + 1 :]]
            behind[id] = ends[length - 1] if length else None
    stay: set[str] = set()
    id_or_none = ends[-1] if ends else None
    while id_or_none is not None:
        stay.add(id_or_none)
        id_or_none = behind[id_or_none]
    return stay


def _unavailable(old: Sequence[Json], new: Sequence[Json], removed: set[str]) -> Json:
    """Entries to set and pairs to unset; those of a removed record go with it."""

    def by_pair(entries: Sequence[Json]) -> dict[tuple[str, str | None], Json]:
        return {(entry["capability"], entry.get("record")): entry for entry in entries}

    before, after = by_pair(old), by_pair(new)
    put = [entry for pair, entry in after.items() if before.get(pair) != entry]
    unset = [
        {name: value for name, value in entry.items() if name != "reason"}
        for pair, entry in before.items()
        if pair not in after and pair[1] not in removed
    ]
    return ({"set": put} if put else {}) | ({"unset": unset} if unset else {})
