"""Snapshots, changes and views of the core from what a publisher or caller would send, as plain JSON values."""

import json
from typing import Any

import msgspec

from gateway.core import messages, model, view
from gateway.core.change import difference, patched
from gateway.core.errors import GatewayError
from gateway.core.ingest import Dropped, content
from gateway.core.limits import Limits
from gateway.core.messages import Refused
from gateway.core.model import Change, Snapshot
from gateway.core.order import finish
from gateway.core.params import Patch, Publish, ViewParams
from gateway.core.position import Position
from gateway.core.view import Projection, Target, View

LIMITS = Limits()
TARGET = Target("argv", "redis://localhost:6379/0")
EPOCH = "k3v9"
AS_OF = 1_795_000_000_000

Json = dict[str, Any]


def decoded(method: str, params: Json, limits: Limits = LIMITS) -> Any:
    """The params of a request as the gateway takes them; raises `GatewayError` as the caller would be told."""
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    try:
        request = messages.decode(frame, limits)
    except Refused as refused:
        raise refused.error from None
    assert request is not None
    return request.params


def change_of_publish(old: Snapshot, snapshot: Json, limits: Limits = LIMITS, dropped: Dropped | None = None) -> Change:
    params = decoded("publish", {"session": "s", "base": None, "snapshot": snapshot}, limits)
    assert isinstance(params, Publish)
    return finish(difference(old, finish(content(params.snapshot, limits, dropped or Dropped()))))


def change_of_patch(old: Snapshot, change: Json, limits: Limits = LIMITS, dropped: Dropped | None = None) -> Change:
    params = decoded("patch", {"session": "s", "base": "any", "change": change}, limits)
    assert isinstance(params, Patch)
    return finish(patched(old, params.change, limits, dropped or Dropped()))


def applied(old: Snapshot, change: Change) -> Snapshot:
    """One revision later, through the text that travels between nodes."""
    travelled = model.decode_change(model.encode_change(change))
    return finish(
        model.apply(old, travelled, Position(EPOCH, old.position.revision + 1), AS_OF + old.position.revision)
    )


def published(snapshot: Json, limits: Limits = LIMITS, old: Snapshot = model.EMPTY) -> Snapshot:
    return applied(old, change_of_publish(old, snapshot, limits))


def changed(old: Snapshot, change: Json, limits: Limits = LIMITS) -> Snapshot:
    return applied(old, change_of_patch(old, change, limits))


def viewed(scope: tuple[str, ...] | None = None, limits: Limits = LIMITS, **asked: Any) -> View:
    return view.view_of(msgspec.convert({"session": "s"} | asked, ViewParams), scope, limits)


def projected(
    snapshot: Snapshot, seen: View | None = None, limits: Limits = LIMITS, last: Projection | None = None
) -> Projection:
    return view.project(snapshot, seen or viewed(limits=limits), limits, TARGET, last)


def described(snapshot: Snapshot, seen: View | None = None, limits: Limits = LIMITS) -> Json:
    """The describe response."""
    seen = seen or viewed(limits=limits)
    told: Json = json.loads(view.describe(projected(snapshot, seen, limits), seen, "none"))
    return told


def refusal(error: GatewayError) -> tuple[str, str]:
    """Kind, and the path or else the limit."""
    data = error.wire()["data"]
    return data["kind"], data.get("path", data.get("limit"))


def ids(snapshot: Snapshot) -> list[str]:
    """All record ids in the publisher's order."""
    return [place.id for place in snapshot.order]


def board(count: int = 3, **more: Any) -> Json:
    """A snapshot of `count` flights F-0, F-1, … in the region `board`."""
    records = [
        {"id": f"F-{n}", "region": "board", "fields": {"dest": "IAH", "status": "On time"}} for n in range(count)
    ]
    regions = [{"id": "board", "title": "Board", "fields": ["dest", "status"]}]
    return {"regions": regions, "records": records} | more


def capability(id: str, **more: Any) -> Json:
    return {"id": id, "title": "T", "description": "D", "appliesTo": "record", "effect": "write"} | more
