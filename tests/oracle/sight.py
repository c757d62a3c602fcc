"""What a view may see of a state: effective scope (protocol §3.1), active regions, visible entries (§5).

`scope` is None for all, or the set of granted region ids; a granted id that is no region of the session grants nothing.
"""

from gateway.core.limits import Limits

from .plain import Object
from .rules import ancestors, pair

Scope = frozenset[str] | set[str] | None


def regions_in_scope(state: Object, scope: Scope) -> set[str]:
    """The granted regions and their descendants."""
    regions = {region["id"]: region for region in state["regions"]}
    if scope is None:
        return set(regions)
    return {region for region in regions if any(above in scope for above in ancestors(regions, region))}


def active_regions(state: Object) -> set[str]:
    """The regions that are active: they and all their ancestors say so, in scope or not."""
    regions = {region["id"]: region for region in state["regions"]}
    return {region for region in regions if all(regions[above]["active"] for above in ancestors(regions, region))}


def walked(state: Object, scope: Scope) -> list[Object]:
    """The records the offset walks: those of active regions in scope, in the publisher's order."""
    seen = regions_in_scope(state, scope) & active_regions(state)
    return [record for record in state["records"] if record["region"] in seen]


def capabilities(state: Object, scope: Scope) -> list[Object]:
    """The visible capabilities, ascending by id."""
    seen = regions_in_scope(state, scope)
    visible = [c for c in state["capabilities"] if scope is None or c["region"] is None or c["region"] in seen]
    return sorted(visible, key=lambda capability: str(capability["id"]))


def unavailable(state: Object, scope: Scope) -> list[Object]:
    """The visible entries, sorted: of a visible capability, and without record or of a record the offset walks."""
    known = {capability["id"] for capability in capabilities(state, scope)}
    records = {record["id"] for record in walked(state, scope)}
    visible = [
        entry
        for entry in state["unavailable"]
        if entry["capability"] in known and ("record" not in entry or entry["record"] in records)
    ]
    return sorted(visible, key=lambda entry: (entry["capability"], "record" in entry, entry.get("record", "")))


def unavailable_pairs(state: Object, scope: Scope) -> set[tuple[str, str | None]]:
    """The visible entries as pairs of capability and record."""
    return {pair(entry) for entry in unavailable(state, scope)}


def feedback(state: Object, scope: Scope) -> list[Object]:
    """The visible entries in the publisher's order: all they name is in scope, active or not."""
    regions = regions_in_scope(state, scope)
    records = {record["id"] for record in state["records"] if record["region"] in regions}
    known = {capability["id"] for capability in capabilities(state, scope)}
    return [
        entry
        for entry in state["feedback"]
        if entry.get("region") in regions | {None}
        and entry.get("record") in records | {None}
        and entry.get("capability") in known | {None}
    ]


def record_ids(state: Object, view: Object, scope: Scope, limits: Limits) -> list[str]:
    """`recordIds` as this view is told them: all, or those from the window's offset where there are too many."""
    ids = [str(record["id"]) for record in walked(state, scope)]
    if len(ids) <= limits.record_ids:
        return ids
    offset = view.get("offset", 0)
    return ids[offset : offset + limits.record_ids]
