"""A view brought forward by `after`s exactly as protocol §9 orders it. Pure: no argument is changed.

What an `after` leaves alone is shared between the describe responses before and behind it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

Object = dict[str, Any]

WHOLE: Final = (
    "page",
    "regions",
    "unavailable",
    "feedback",
    "recordWindow",
    "recordIdsWindow",
    "missing",
    "truncated",
    "agent_surface",
)
"""Members of `context` that an `after` replaces whole; null removes `recordIdsWindow` and `truncated`."""


class Unfit(Exception):
    """The `after` does not fit the describe response at hand; the view must be subscribed again."""


def apply_after(describe: Object, after: Object) -> Object:
    """The describe response at `after.revision`; `publisher` stays as it was.

    Raises:
        Unfit: another view, epoch or base, or the `after` speaks of what is not there.
    """
    if any(after[name] != describe[name] for name in ("view", "epoch")) or after["base"] != describe["revision"]:
        raise Unfit("The after leads from another position.")
    context = dict(describe["context"])
    for name in WHOLE:
        if name in after:
            context[name] = after[name]
            if after[name] is None:
                del context[name]
    if "state" in after:
        context["state"] = merged(context["state"], after["state"].get("set", {}), after["state"].get("unset", ()))
    if "left" in after or "records" in after:
        context["records"] = records(context["records"], after.get("left", ()), after.get("records", ()))
    if "recordIds" in after:
        told = after["recordIds"]
        entered = [(entry["at"], entry["id"]) for entry in told.get("added", ())]
        context["recordIds"] = moved(context["recordIds"], told.get("removed", ()), entered)
    totals = dict(after.get("totals", {}))
    here = {name: totals.pop(name) for name in ("capabilitiesTotal",) if name in totals}
    if "capabilities" in after or "withdrawn" in after:
        here["capabilities"] = capabilities(
            describe["capabilities"], after.get("withdrawn", ()), after.get("capabilities", ())
        )
    here |= {"context": context | totals, "revision": after["revision"]}
    return describe | here | {name: after[name] for name in ("asOf",) if name in after}


def merged(members: Object, put: Object, unset: Iterable[str]) -> Object:
    """An object with some members put and some removed; ascending by name, as free members stand (§2)."""
    gone = set(unset)
    kept = {name: value for name, value in members.items() if name not in gone} | put
    return {name: kept[name] for name in sorted(kept)}


def moved(items: Sequence[Any], removed: Sequence[Any], entered: Iterable[tuple[int, Any]]) -> list[Any]:
    """First what leaves, then what comes, in ascending `at`, each to its index in the new list."""
    gone = set(removed)
    result = [item for item in items if item not in gone]
    if not len(items) - len(result) == len(gone) == len(removed):
        raise Unfit("What left was not there.")
    for at, item in sorted(entered, key=lambda entry: entry[0]):
        if at > len(result):
            raise Unfit("What entered has no place.")
        result.insert(at, item)
    return result


def records(known: Sequence[Object], left: Sequence[str], told: Sequence[Object]) -> list[Object]:
    """The records of the new window: `left` out, changes in, entered in ascending `at`."""
    by_id = {record["id"]: record for record in known}
    order = moved(
        [record["id"] for record in known], left, [(entry["at"], entry["id"]) for entry in told if "entered" in entry]
    )
    if len(set(order)) != len(order):
        raise Unfit("What entered was there.")
    for id in left:
        del by_id[id]
    for entry in told:
        if "entered" not in entry and entry["id"] not in by_id:
            raise Unfit("A record that changed is not there.")
        by_id[entry["id"]] = record(by_id.get(entry["id"], {}), entry)
    return [by_id[id] for id in order]


def record(known: Object, told: Object) -> Object:
    """One record after its entry: whole where it entered or is a projection, else with the members that changed."""
    if "record" in told:
        projected: Object = told["record"]
        return projected
    if "entered" in told:
        return {name: value for name, value in told.items() if name not in ("entered", "at")}
    result = known | {name: told[name] for name in ("region", "truncated") if name in told}
    if "fields" in told or "unset" in told:
        result["fields"] = merged(known["fields"], told.get("fields", {}), told.get("unset", ()))
    if result.get("truncated", ()) is None:
        del result["truncated"]
    return result


def capabilities(known: Sequence[Object], withdrawn: Iterable[str], told: Sequence[Object]) -> list[Object]:
    """New and changed ones in whole, ascending by id."""
    by_id = {capability["id"]: capability for capability in known}
    for id in withdrawn:
        if by_id.pop(id, None) is None:
            raise Unfit("A capability that was withdrawn is not there.")
    by_id |= {capability["id"]: capability for capability in told}
    return [by_id[id] for id in sorted(by_id)]
