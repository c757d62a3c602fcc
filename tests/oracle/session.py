"""A session as one plain dict: what `publish` and `patch` make of it (protocol §6, §6.1).

A *state* is the snapshot after ingest: `page?` `regions` `records` `state` `feedback` `unavailable` `capabilities`
`recordsTotal?` `scope?`, every default filled in, each part in the publisher's order; a record has `id` `region` `fields`
and `truncated` where ingest cut a text of it. States are never changed in place, so a test may keep them all.
"""

from typing import Any

from gateway.core.limits import Limits

from .plain import Json, Object, ascending, cut, normal, same
from .rules import (
    Refused,
    boolean,
    demand,
    distinct,
    field_name,
    free,
    identifier,
    integer,
    judge,
    many,
    one_of,
    pair,
    shape,
    words,
)

__all__ = [
    "EMPTY",
    "Refused",
    "dropped_by_patch",
    "dropped_by_publish",
    "patch",
    "publish",
    "told_dropped",
    "unchanged",
]

EMPTY: Object = {"regions": [], "records": [], "state": {}, "feedback": [], "unavailable": [], "capabilities": []}
"""The state of `publish({})`."""

NO_LIMITS = Limits()


def publish(snapshot: Object, limits: Limits = NO_LIMITS) -> Object:
    """The state that a `publish` of this `snapshot` stores; raises `Refused`."""
    return _publish(snapshot, limits)[0]


def patch(state: Object, change: Object, limits: Limits = NO_LIMITS) -> Object:
    """The state that a `patch` of `change` over `state` stores; raises `Refused`."""
    return _patch(state, change, limits)[0]


def dropped_by_publish(snapshot: Object, limits: Limits = NO_LIMITS) -> Object:
    """`{dropped, droppedTotal}` of the result of `publish`, or `{}` when nothing was dropped."""
    return told_dropped(_publish(snapshot, limits)[1])


def dropped_by_patch(state: Object, change: Object, limits: Limits = NO_LIMITS) -> Object:
    """`{dropped, droppedTotal}` of the result of `patch`, or `{}` when nothing was dropped."""
    return told_dropped(_patch(state, change, limits)[1])


def unchanged(before: Object, after: Object) -> bool:
    """Whether the stored snapshot is as it was."""
    return same(before, after)


def told_dropped(names: set[tuple[str, str]]) -> Object:
    """`names` are pairs of region and field name. Distinct, ascending, at most 64 told; the total counts the distinct."""
    if not names:
        return {}
    listed = [{"region": region, "name": name, "why": "undeclared"} for region, name in sorted(names)]
    return {"dropped": listed[:64], "droppedTotal": len(listed)}


# --- one object of §6, defaults filled in ------------------------------------------------------------------------


def page_of(value: Json, limits: Limits) -> Object:
    shape(value, "", "title route params")
    page: Object = {}
    for name in ("title", "route"):
        if name in value:
            page[name] = words(value[name], limits)
    if "params" in value:
        for param in free(value["params"]).values():
            demand(isinstance(param, str | int | float), "a page param is a text, a number or a bool")
        page["params"] = normal(value["params"])
    return page


def region_of(value: Json, limits: Limits) -> Object:
    shape(value, "id title", "description parent active modal fields")
    declared = [declaration_of(entry, limits) for entry in many(value.get("fields", []))]
    distinct((entry["name"] for entry in declared), "field name")
    parent = value.get("parent")
    return {
        "id": identifier(value["id"]),
        "title": words(value["title"], limits),
        "description": words(value.get("description", ""), limits),
        "parent": None if parent is None else identifier(parent),
        "active": boolean(value.get("active", True)),
        "modal": boolean(value.get("modal", False)),
        "fields": declared,
    }


def declaration_of(value: Json, limits: Limits) -> Object:
    """A declared field: a name, or an object. Only `plain` exists so far."""
    if isinstance(value, str):
        value = {"name": value}
    shape(value, "name", "expose source maxChars")
    max_chars = integer(value.get("maxChars", limits.field_chars), 1)
    if max_chars > limits.field_chars:
        raise Refused("limit_exceeded", "maxChars above fieldChars")
    return {
        "name": field_name(value["name"]),
        "expose": one_of(value.get("expose", "plain"), "plain"),
        "source": one_of(value.get("source", "application"), "application user external"),
        "maxChars": max_chars,
    }


def capability_of(value: Json, limits: Limits) -> Object:
    """A declared capability. Which JSON Schemas are allowed as `arguments` is not judged here, but for the outermost type."""
    shape(value, "id title description appliesTo effect", "region arguments confirm idempotent")
    effect = one_of(value["effect"], "read write destructive")
    arguments = free(value.get("arguments", {"type": "object", "additionalProperties": False}))
    demand(arguments.get("type") == "object", "arguments is no object schema")
    region = value.get("region")
    return {
        "id": identifier(value["id"]),
        "title": words(value["title"], limits),
        "description": words(value["description"], limits),
        "appliesTo": one_of(value["appliesTo"], "record session"),
        "region": None if region is None else identifier(region),
        "arguments": normal(arguments),
        "effect": effect,
        "confirm": boolean(value.get("confirm", effect == "destructive")),
        "idempotent": boolean(value.get("idempotent", False)),
    }


def feedback_of(value: Json, limits: Limits) -> Object:
    shape(value, "id level message", "record region capability source")
    entry: Object = {
        "id": identifier(value["id"]),
        "level": one_of(value["level"], "error warning notice status"),
        "message": words(value["message"], limits),
    }
    for name in ("record", "region", "capability"):
        if name in value:
            entry[name] = identifier(value[name])
    entry["source"] = one_of(value.get("source", "application"), "application user external")
    return entry


def unavailable_of(value: Json, limits: Limits) -> Object:
    shape(value, "capability reason", "record")
    entry: Object = {"capability": identifier(value["capability"])}
    if "record" in value:
        entry["record"] = identifier(value["record"])
    entry["reason"] = words(value["reason"], limits)
    return entry


def scope_of(value: Json, limits: Limits) -> Object:
    for entry in free(value).values():
        words(entry, limits)
    return dict(value)


def fields_of(value: Json, region: Object) -> tuple[Object, set[str], set[tuple[str, str]]]:
    """Fields of a record after ingest under its region: what is kept, which of it was cut, what was dropped."""
    limit_of = {declared["name"]: declared["maxChars"] for declared in region["fields"]}
    kept: Object = {}
    shortened: set[str] = set()
    dropped: set[tuple[str, str]] = set()
    for name, published in free(value).items():
        if name not in limit_of:
            dropped.add((region["id"], name))
            continue
        kept[name] = cut(normal(published), limit_of[name])
        if not same(kept[name], normal(published)):
            shortened.add(name)
    return kept, shortened, dropped


def record_of(identity: str, region: str, fields: Object, shortened: set[str]) -> Object:
    record: Object = {"id": identity, "region": region, "fields": fields}
    if shortened:
        record["truncated"] = sorted(shortened)
    return record


# --- publish -----------------------------------------------------------------------------------------------------


def _publish(snapshot: Object, limits: Limits) -> tuple[Object, set[tuple[str, str]]]:
    shape(snapshot, "", "page regions records state feedback unavailable capabilities recordsTotal scope")
    state: Object = {
        "regions": [region_of(entry, limits) for entry in many(snapshot.get("regions", []))],
        "records": [],
        "state": normal(free(snapshot.get("state", {}))),
        "feedback": [feedback_of(entry, limits) for entry in many(snapshot.get("feedback", []))],
        "unavailable": [unavailable_of(entry, limits) for entry in many(snapshot.get("unavailable", []))],
        "capabilities": [capability_of(entry, limits) for entry in many(snapshot.get("capabilities", []))],
    }
    if "page" in snapshot:
        state["page"] = page_of(snapshot["page"], limits)
    if "recordsTotal" in snapshot:
        state["recordsTotal"] = integer(snapshot["recordsTotal"], 0)
    if "scope" in snapshot:
        state["scope"] = scope_of(snapshot["scope"], limits)
    regions = {region["id"]: region for region in state["regions"]}
    dropped: set[tuple[str, str]] = set()
    for entry in many(snapshot.get("records", [])):
        shape(entry, "id region", "fields")
        region = identifier(entry["region"])
        demand(region in regions, "record of an unknown region")
        fields, shortened, gone = fields_of(entry.get("fields", {}), regions[region])
        state["records"].append(record_of(identifier(entry["id"]), region, fields, shortened))
        dropped |= gone
    judge(state, limits)
    return settled(state), dropped


def settled(state: Object) -> Object:
    """The parts whose order means nothing in the order of a describe, so that equal snapshots are equal states."""
    return state | {
        "capabilities": sorted(state["capabilities"], key=lambda entry: str(entry["id"])),
        "unavailable": sorted(state["unavailable"], key=lambda entry: (entry["capability"], entry.get("record", ""))),
        "state": ascending(state["state"]),
    }


# --- patch -------------------------------------------------------------------------------------------------------


def _patch(before: Object, change: Object, limits: Limits) -> tuple[Object, set[tuple[str, str]]]:
    shape(change, "", "page state regions capabilities records feedback unavailable recordsTotal scope")
    state = {name: list(part) if isinstance(part, list) else part for name, part in before.items()}
    dropped: set[tuple[str, str]] = set()
    if "regions" in change:
        _patch_regions(state, change["regions"], limits)
    if "capabilities" in change:
        _patch_capabilities(state, change["capabilities"], limits)
    if "records" in change:
        _patch_records(state, change["records"], dropped)
    _patch_rest(state, change, limits)
    judge(state, limits)
    return settled(state), dropped


def upserts_and_removes(change: Json, extra: str = "") -> tuple[list[Any], list[str]]:
    """The two lists of a part, checked for doubled ids."""
    shape(change, "", f"upsert remove {extra}")
    upserts = many(change.get("upsert", []))
    removes = [identifier(entry) for entry in many(change.get("remove", []))]
    for entry in upserts:
        demand(isinstance(entry, dict) and "id" in entry, "id is missing")
    distinct([identifier(entry["id"]) for entry in upserts] + removes, "id in upsert and remove")
    return upserts, removes


def index_of(entries: list[Object], identity: str) -> int | None:
    """Where the entry of that id stands, or None."""
    for index, entry in enumerate(entries):
        if entry["id"] == identity:
            return index
    return None


def place_of(entries: list[Object], identity: Json) -> int:
    """Where the entry of that id stands; `invalid_params` when there is none."""
    index = index_of(entries, identifier(identity))
    demand(index is not None, "unknown id")
    assert index is not None
    return index


def _patch_regions(state: Object, change: Json, limits: Limits) -> None:
    upserts, removes = upserts_and_removes(change)
    for identity in removes:
        del state["regions"][place_of(state["regions"], identity)]
    for entry in upserts:
        index = index_of(state["regions"], entry["id"])
        if index is None:
            state["regions"].append(region_of(entry, limits))
            continue
        shape(entry, "id", "title description parent active modal")
        known = state["regions"][index]
        state["regions"][index] = region_of(known | entry, limits)
    # A region that still has records, children or feedback is refused by `judge`: something then names what is not there.


def _patch_capabilities(state: Object, change: Json, limits: Limits) -> None:
    upserts, removes = upserts_and_removes(change)
    for identity in removes:
        del state["capabilities"][place_of(state["capabilities"], identity)]
        _forget(state, "capability", identity)
    for entry in upserts:
        index = index_of(state["capabilities"], entry["id"])
        if index is None:
            state["capabilities"].append(capability_of(entry, limits))
        else:
            state["capabilities"][index] = capability_of(entry, limits)


def _forget(state: Object, member: str, identity: str) -> None:
    """With a record or capability go its `unavailable` and `feedback` entries."""
    for part in ("unavailable", "feedback"):
        state[part] = [entry for entry in state[part] if entry.get(member) != identity]


def _patch_records(state: Object, change: Json, dropped: set[tuple[str, str]]) -> None:
    upserts, removes = upserts_and_removes(change, "order")
    for identity in removes:
        del state["records"][place_of(state["records"], identity)]
        _forget(state, "record", identity)
    for entry in upserts:
        _upsert_record(state, entry, dropped)
    if "order" in change:
        order = distinct((identifier(entry) for entry in many(change["order"])), "id in order")
        known = {record["id"]: record for record in state["records"]}
        demand(set(order) == set(known), "order is not every record once")
        state["records"] = [known[identity] for identity in order]


def _upsert_record(state: Object, entry: Object, dropped: set[tuple[str, str]]) -> None:
    shape(entry, "id", "region fields unset before after")
    demand(not ("before" in entry and "after" in entry), "both before and after")
    records = state["records"]
    regions = {region["id"]: region for region in state["regions"]}
    index = index_of(records, entry["id"])
    demand(index is not None or "region" in entry, "a new record needs a region")
    old: Object = {"fields": {}} if index is None else records[index]
    region = identifier(entry.get("region", old.get("region")))
    demand(region in regions, "record of an unknown region")

    given = free(entry.get("fields", {}))
    unset = distinct((_name(name) for name in many(entry.get("unset", []))), "name in unset")
    distinct([*given, *unset], "name in fields and unset")
    fields = {name: value for name, value in old["fields"].items() if name not in unset and name not in given}
    shortened = {name for name in old.get("truncated", []) if name in fields}
    if region != old.get("region"):
        # What stays passes the new region's declarations; what was cut once stays cut.
        fields, again, gone = fields_of(fields, regions[region])
        shortened = (shortened | again) & set(fields)
        dropped |= gone
    new, cut_now, gone = fields_of(given, regions[region])
    dropped |= gone
    record = record_of(entry["id"], region, fields | new, shortened | cut_now)

    if index is not None and "before" not in entry and "after" not in entry:
        records[index] = record
        return
    if index is not None:
        del records[index]  # so a place beside itself is an unknown id
    if "before" in entry:
        records.insert(place_of(records, entry["before"]), record)
    elif "after" in entry:
        records.insert(place_of(records, entry["after"]) + 1, record)
    else:
        records.append(record)


def _name(value: Json) -> str:
    """A name in an `unset`: any text, for that of what is absent is nothing."""
    demand(isinstance(value, str), "a name is due")
    found: str = value
    return found


def _patch_rest(state: Object, change: Object, limits: Limits) -> None:
    if "page" in change:
        if isinstance(change["page"], dict) and "unset" in change["page"]:
            shape(change["page"], "unset")
            demand(change["page"]["unset"] is True, "unset is true or absent")
            state.pop("page", None)
        else:
            state["page"] = page_of(change["page"], limits)
    if "state" in change:
        shape(change["state"], "", "set unset")
        given = normal(free(change["state"].get("set", {})))
        unset = [_name(name) for name in many(change["state"].get("unset", []))]
        distinct([*given, *unset], "name in set and unset")
        state["state"] = {name: value for name, value in state["state"].items() if name not in unset} | given
    if "feedback" in change:
        state["feedback"] = [feedback_of(entry, limits) for entry in many(change["feedback"])]
    if "unavailable" in change:
        shape(change["unavailable"], "", "set unset")
        put = [unavailable_of(entry, limits) for entry in many(change["unavailable"].get("set", []))]
        gone = [shape(entry, "capability", "record") for entry in many(change["unavailable"].get("unset", []))]
        pairs = distinct((pair(entry) for entry in put + gone), "pair of capability and record")
        state["unavailable"] = [entry for entry in state["unavailable"] if pair(entry) not in pairs] + put
    if "recordsTotal" in change:
        if change["recordsTotal"] is None:
            state.pop("recordsTotal", None)
        else:
            state["recordsTotal"] = integer(change["recordsTotal"], 0)
    if "scope" in change:
        state["scope"] = scope_of(change["scope"], limits)
