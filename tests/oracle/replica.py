"""The client's side of protocol §9: a describe response brought forward by `after`s."""

from typing import Any

from .plain import Json, Object, ascending, canonical

__all__ = ["Unfit", "apply_after", "canonical", "without_publisher"]

WHOLE = ("page", "regions", "unavailable", "feedback", "recordWindow", "missing", "agent_surface")
"""Members of `context` that an `after` replaces whole."""

REMOVABLE = ("recordIdsWindow", "truncated")
"""The same, and null removes them."""

TOTALS = ("regionsTotal", "unavailableTotal", "feedbackTotal", "recordsTotal", "recordIdsTotal")
"""The totals of `context`; `capabilitiesTotal` stands beside it."""

KNOWN = {
    *("session", "view", "epoch", "base", "revision", "asOf", "cause", "page", "records", "left", "missing"),
    *("recordIds", "recordWindow", "recordIdsWindow", "state", "feedback", "unavailable", "regions", "truncated"),
    *("agent_surface", "capabilities", "withdrawn", "totals"),
}


class Unfit(AssertionError):
    """This `after` does not fit the describe response it is applied to, or is not what §9 allows."""


def need(holds: bool, why: str) -> None:
    if not holds:
        raise Unfit(why)


def without_publisher(described: Object) -> Object:
    """What the law of §9 compares."""
    return {name: value for name, value in described.items() if name != "publisher"}


def apply_after(describe: Object, after: Object) -> Object:
    """The describe response at `after.revision`; neither argument is changed. `publisher` stays as it was.

    Strict: an `after` that names what is not there raises `Unfit` instead of being taken in some way.
    """
    need(set(after) <= KNOWN, f"unknown members {set(after) - KNOWN}")
    for name in ("session", "view", "epoch"):
        need(after[name] == describe[name], f"another {name}")
    need(after["base"] == describe["revision"], "base is not the revision at hand")
    need(after["revision"] > after["base"], "no step forward")

    context: Object = dict(describe["context"])
    for name in WHOLE:
        if name in after:
            need(after[name] is not None, f"{name} is null")
            context[name] = after[name]
    for name in REMOVABLE:
        if name in after:
            context[name] = after[name]
            if after[name] is None:
                need(name in describe["context"], f"{name} to be removed is not there")
                del context[name]
    if "state" in after:
        need(bool(after["state"]) and set(after["state"]) <= {"set", "unset"}, "state is {set, unset}")
        context["state"] = set_and_unset(
            context["state"], after["state"].get("set", {}), after["state"].get("unset", [])
        )
    context["records"] = records_after(context["records"], after.get("left", []), after.get("records", []))
    if "recordIds" in after:
        need(set(after["recordIds"]) <= {"removed", "added"}, "recordIds is {removed, added}")
        removed, added = after["recordIds"].get("removed", []), after["recordIds"].get("added", [])
        context["recordIds"] = list_after(
            context["recordIds"], removed, [(entry["at"], entry["id"]) for entry in added]
        )

    totals = dict(after.get("totals", {}))
    capabilities_total = totals.pop("capabilitiesTotal", describe["capabilitiesTotal"])
    need(set(totals) <= set(TOTALS), "an unknown total")
    return describe | {
        "capabilities": capabilities_after(
            describe["capabilities"], after.get("withdrawn", []), after.get("capabilities", [])
        ),
        "capabilitiesTotal": capabilities_total,
        "context": context | totals,
        "revision": after["revision"],
        "asOf": after["asOf"],
    }


def set_and_unset(members: Object, put: Object, unset: list[str]) -> Object:
    """An object with some members put and some removed; ascending by name, as free members stand."""
    for name in unset:
        need(name in members, f"{name} to be unset is not there")
        need(name not in put, f"{name} is both put and unset")
    kept = {name: value for name, value in members.items() if name not in unset}
    result: Object = ascending(kept | put)
    return result


def list_after(items: list[Any], removed: list[Any], added: list[tuple[int, Any]]) -> list[Any]:
    """First what leaves, then what comes, in ascending `at`, each to its index in the new list."""
    need(len(removed) == len(set(removed)), "removed twice")
    result = list(items)
    for item in removed:
        need(item in result, "what is to be removed is not there")
        result.remove(item)
    for at, item in sorted(added, key=lambda entry: entry[0]):
        need(item not in result, "added twice, or there already")
        need(0 <= at <= len(result), "at is behind the end")
        result.insert(at, item)
    return result


def records_after(records: list[Object], left: list[str], told: list[Object]) -> list[Object]:
    """The records of the new window: `left` out, changes in, entered in ascending `at`."""
    entered = [entry for entry in told if "entered" in entry]
    changed = [entry for entry in told if "entered" not in entry]
    by_id: dict[str, Object] = {record["id"]: record for record in records if record["id"] not in left}
    for entry in changed:
        need(entry["id"] in by_id, "a change of a record that is not in the window")
        by_id[entry["id"]] = record_after(by_id[entry["id"]], entry)
    for entry in entered:
        need(entry["entered"] is True and "at" in entry, "entered is true and has an at")
        need(entry["id"] not in by_id, "entered, and there already")
        by_id[entry["id"]] = {name: value for name, value in entry.items() if name not in ("entered", "at")}
    order = list_after([record["id"] for record in records], left, [(entry["at"], entry["id"]) for entry in entered])
    return [by_id[identity] for identity in order]


def record_after(record: Object, change: Object) -> Object:
    """A known record with the members that changed."""
    need(set(change) <= {"id", "region", "fields", "unset", "truncated"}, "unknown member of a record")
    result = dict(record)
    result["fields"] = set_and_unset(record["fields"], change.get("fields", {}), change.get("unset", []))
    if "region" in change:
        result["region"] = change["region"]
    if "truncated" in change:
        result["truncated"] = change["truncated"]
        if change["truncated"] is None:
            need("truncated" in record, "truncated to be removed is not there")
            del result["truncated"]
    return result


def capabilities_after(capabilities: list[Object], withdrawn: list[str], told: list[Json]) -> list[Object]:
    """New and changed ones in whole, ascending by id."""
    by_id: dict[str, Object] = {capability["id"]: capability for capability in capabilities}
    for identity in withdrawn:
        need(identity in by_id, "withdrawn, and not there")
        del by_id[identity]
    for capability in told:
        need(capability["id"] not in withdrawn, "told and withdrawn")
        by_id[capability["id"]] = capability
    return [by_id[identity] for identity in sorted(by_id)]
