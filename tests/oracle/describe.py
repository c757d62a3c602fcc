"""The describe response as a plain dict, members in the order of the wire (protocol §2, §5; no knobs)."""

from gateway.core.limits import Limits

from . import sight
from .plain import Object, ascending
from .sight import Scope


def describe(
    state: Object,
    *,
    session: str,
    view_id: str,
    view: Object,
    scope: Scope,
    epoch: str,
    revision: int,
    as_of: str,
    target: Object,
    limits: Limits,
    publisher: str,
) -> Object:
    """One view of one state.

    Args:
        view: the request's own members `offset` `limit` `record`, absent ones absent; valid and within the limits.
        scope: None for all, or the granted region ids.
        target: the target members of `agent_surface` (`db_path_source`, `db_path_resolved` or what stands in its place).

    The shortening of a response above `limits.responseBytes` is not in it: tests keep below.
    """
    capabilities = [capability_told(capability) for capability in sight.capabilities(state, scope)]
    return {
        "session": session,
        "view": view_id,
        "capabilities": capabilities,
        "capabilitiesTotal": len(capabilities),
        "context": context(state, view, scope, target, limits),
        "epoch": epoch,
        "revision": revision,
        "asOf": as_of,
        "publisher": publisher,
    }


def context(state: Object, view: Object, scope: Scope, target: Object, limits: Limits) -> Object:
    """The member `context` of a describe response."""
    walk = sight.walked(state, scope)
    total = len(walk)
    records_total = total
    if scope is None:
        records_total = max(total, state.get("recordsTotal", 0))

    asked = [view["record"]] if isinstance(view.get("record"), str) else view.get("record")
    if asked is None:
        offset, limit = view.get("offset", 0), view.get("limit", limits.window_default)
        window = walk[offset : offset + limit]
        record_window = windowed({"offset": offset, "limit": limit}, len(window), total)
        missing = None
    else:
        by_id = {record["id"]: record for record in walk}
        window = [by_id[identity] for identity in asked if identity in by_id]
        record_window = {"offset": 0, "limit": len(asked), "returned": len(window), "total": len(window)}
        missing = [identity for identity in asked if identity not in by_id]

    regions = [region_told(region, state, scope) for region in told_regions(state, scope)]
    feedback = sight.feedback(state, scope)
    unavailable = sight.unavailable(state, scope)
    in_window = {record["id"] for record in window}
    unavailable_told = [entry for entry in unavailable if "record" not in entry or entry["record"] in in_window]
    ids = sight.record_ids(state, view, scope, limits)

    out: Object = {}
    if "page" in state:
        out["page"] = page_told(state["page"])
    out["regions"] = regions
    out["regionsTotal"] = len(regions)
    out["state"] = ascending(state["state"])
    out["unavailable"] = unavailable_told[: limits.unavailable]
    out["unavailableTotal"] = len(unavailable)
    out["feedback"] = feedback
    out["feedbackTotal"] = len(feedback)
    out["recordWindow"] = record_window
    if missing is not None:
        out["missing"] = missing
    out["records"] = [record_told(record) for record in window]
    out["recordsTotal"] = records_total
    if len(ids) < total:
        out["recordIdsWindow"] = windowed({"offset": view.get("offset", 0)}, len(ids), total)
    out["recordIds"] = ids
    out["recordIdsTotal"] = total
    out["agent_surface"] = dict(target)
    if asked is None:
        page = offset > 0 or offset + len(window) < total or records_total > total
        out["agent_surface"] |= {
            "query_limited": True,
            "query_limit": limit,
            "query_limit_source": "flag" if "limit" in view else "default",
            "query_limit_kind": "pagination",
            "universe_total": total,
            "filter_scope": "page" if page else "universe",
        }
        if page:
            out["agent_surface"]["filter_incomplete"] = True
    return out


def windowed(head: Object, returned: int, total: int) -> Object:
    """`head` with `returned`, `total`, and `next` unless nothing comes behind."""
    window = head | {"returned": returned, "total": total}
    if head["offset"] + returned < total:
        window["next"] = head["offset"] + returned
    return window


def told_regions(state: Object, scope: Scope) -> list[Object]:
    """The regions in scope, active or not, in the publisher's order."""
    seen = sight.regions_in_scope(state, scope)
    return [region for region in state["regions"] if region["id"] in seen]


def region_told(region: Object, state: Object, scope: Scope) -> Object:
    """A region as callers see it: without `maxChars`; a parent out of scope is null."""
    seen = sight.regions_in_scope(state, scope)
    return {
        "id": region["id"],
        "title": region["title"],
        "description": region["description"],
        "parent": region["parent"] if region["parent"] in seen else None,
        "active": region["active"],
        "modal": region["modal"],
        "fields": [{name: field[name] for name in ("name", "expose", "source")} for field in region["fields"]],
    }


def capability_told(capability: Object) -> Object:
    return capability | {"arguments": ascending(capability["arguments"])}


def page_told(page: Object) -> Object:
    return page | ({"params": ascending(page["params"])} if "params" in page else {})


def record_told(record: Object) -> Object:
    return record | {"fields": ascending(record["fields"])}
