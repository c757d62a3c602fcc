"""Protocol §6 and §6.1 for the demo's tests, as literally as they are written, and a publisher's far end made of it."""

import json
from typing import Any

from gateway.core.errors import GatewayError

MEMBERS = {"page", "state", "regions", "records", "feedback", "unavailable", "recordsTotal", "scope"}


def applied(snapshot: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The snapshot after a change. Members the board has no business with are refused, and so is what changes nothing."""
    assert set(change) <= MEMBERS
    result: dict[str, Any] = json.loads(json.dumps(snapshot))
    for upsert in change.get("regions", {}).get("upsert", []):
        [region] = [region for region in result["regions"] if region["id"] == upsert["id"]]
        assert set(upsert) <= {"id", "title", "description", "parent", "active", "modal"}
        region.update(upsert)
    records = change.get("records", {})
    assert set(records) <= {"upsert", "remove", "order"}
    removed = set(records.get("remove", []))
    assert removed <= {record["id"] for record in result["records"]}
    result["records"] = [record for record in result["records"] if record["id"] not in removed]
    for member in ("feedback", "unavailable"):
        result[member] = [entry for entry in result[member] if entry.get("record") not in removed]
    for upsert in records.get("upsert", []):
        upserted(result["records"], upsert)
    if "order" in records:
        by_id = {record["id"]: record for record in result["records"]}
        assert sorted(records["order"]) == sorted(by_id)
        result["records"] = [by_id[id] for id in records["order"]]
    put, unset = change.get("state", {}).get("set", {}), change.get("state", {}).get("unset", [])
    result["state"] = {name: value for name, value in result["state"].items() if name not in unset} | put
    result["feedback"] = change.get("feedback", result["feedback"])
    entries = {(entry["capability"], entry.get("record")): entry for entry in result["unavailable"]}
    for key in change.get("unavailable", {}).get("unset", []):
        del entries[key["capability"], key.get("record")]
    for entry in change.get("unavailable", {}).get("set", []):
        assert entries.get((entry["capability"], entry.get("record"))) != entry
        entries[entry["capability"], entry.get("record")] = entry
    result["unavailable"] = list(entries.values())
    for member in ("page", "recordsTotal", "scope"):
        assert member not in change or change[member] != result[member]
        result[member] = change.get(member, result[member])
    return result


def upserted(records: list[dict[str, Any]], upsert: dict[str, Any]) -> None:
    """One record of `records.upsert`, put into the list."""
    assert set(upsert) <= {"id", "region", "fields", "unset", "before", "after"} and len(upsert) > 1
    known = next((record for record in records if record["id"] == upsert["id"]), None)
    record = known or {"id": upsert["id"], "region": upsert["region"], "fields": {}}
    for name, value in upsert.get("fields", {}).items():
        assert record["fields"].get(name, ...) != value
        record["fields"][name] = value
    for name in upsert.get("unset", []):
        del record["fields"][name]
    places = {anchor: upsert[anchor] for anchor in ("before", "after") if anchor in upsert}
    assert len(places) <= 1
    if known is None or places:
        if known is not None:
            records.remove(known)
        at = len(records)
        for anchor, id in places.items():
            at = [record["id"] for record in records].index(id) + (anchor == "after")
        records.insert(at, record)


def canonical(snapshot: dict[str, Any]) -> str:
    """Members by name and `unavailable` ascending, for which the publisher's order does not count (protocol §5)."""
    ordered = sorted(snapshot["unavailable"], key=lambda entry: (entry["capability"], entry.get("record", "")))
    return json.dumps(snapshot | {"unavailable": ordered}, sort_keys=True)


class Gateway:
    """One session behind `request`: checks `base`, applies, counts. `refusals` are raised first, one a request."""

    def __init__(self, *refusals: Exception | None) -> None:
        self.refusals = list(refusals)
        self.snapshot: dict[str, Any] = {}
        self.revision = 0
        self.requests: list[tuple[str, dict[str, Any]]] = []

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((method, params))
        if self.refusals and (refusal := self.refusals.pop(0)):
            raise refusal
        base = {"epoch": "e1", "revision": self.revision}
        if method == "publish":
            assert params["base"] == "any"
            self.snapshot = params["snapshot"]
        elif method == "patch":
            if params["base"] != base:
                raise GatewayError("conflict", "The base does not hold.", **base)
            self.snapshot = applied(self.snapshot, params["change"])
        else:
            raise GatewayError("unknown_method", "There is no such method.")
        self.revision += 1
        return {"epoch": "e1", "revision": self.revision, "agent_surface": {}}
