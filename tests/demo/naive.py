"""Protocol §6 and §6.1 for the demo's tests, as literally as they are written, and a publisher's far end made of it."""

import json
from typing import Any

from gateway.core.errors import GatewayError


def applied(snapshot: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The snapshot after a change. Members the board has no business with are refused."""
    assert set(change) <= {"state", "records", "feedback", "unavailable"}
    assert set(change.get("records", {})) <= {"upsert"}
    result: dict[str, Any] = json.loads(json.dumps(snapshot))
    known = {record["id"]: record for record in result["records"]}
    for upsert in change.get("records", {}).get("upsert", []):
        assert set(upsert) <= {"id", "fields", "unset"}
        fields = known[upsert["id"]]["fields"]
        fields.update(upsert.get("fields", {}))
        for name in upsert.get("unset", []):
            fields.pop(name, None)
    result["state"].update(change.get("state", {}).get("set", {}))
    for name in change.get("state", {}).get("unset", []):
        result["state"].pop(name, None)
    entries = {(entry["capability"], entry.get("record")): entry for entry in result["unavailable"]}
    for key in change.get("unavailable", {}).get("unset", []):
        entries.pop((key["capability"], key.get("record")), None)
    for entry in change.get("unavailable", {}).get("set", []):
        entries[entry["capability"], entry.get("record")] = entry
    result["unavailable"] = list(entries.values())
    result["feedback"] = change.get("feedback", result["feedback"])
    return result


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
