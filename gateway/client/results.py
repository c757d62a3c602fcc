"""What the gateway answers and tells, typed. Each holds the object as it came: `raw`, or `params` of an event.

Members of later protocol versions are in these and nowhere else. Records, regions and capabilities are looked up by id in
mappings; no id is ever an attribute.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from gateway.client.replica import apply_after
from gateway.core.position import Position

PublisherState: TypeAlias = Literal["online", "stale", "gone", "none", "unknown"]


class DescribeResponse(msgspec.Struct, frozen=True):
    """A describe response (protocol §5): one view of one snapshot."""

    raw: dict[str, Any]

    @property
    def session(self) -> str:
        """The session's id."""
        return str(self.raw["session"])

    @property
    def view(self) -> str:
        """The view's id, the same on every connection."""
        return str(self.raw["view"])

    @property
    def position(self) -> Position:
        """Where the session stood."""
        return position(self.raw)

    @property
    def as_of(self) -> str:
        """When the revision was accepted: RFC 3339, UTC, milliseconds."""
        return str(self.raw["asOf"])

    @property
    def publisher(self) -> PublisherState:
        """Whether somebody stands behind the session."""
        state: PublisherState = self.raw["publisher"]
        return state

    @property
    def context(self) -> dict[str, Any]:
        """`page`, `regions`, `state`, `records`, … as they came."""
        context: dict[str, Any] = self.raw["context"]
        return context

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """The records of the window by id, in the publisher's order."""
        return by_id(self.context["records"])

    @property
    def record_ids(self) -> list[str]:
        """Ids of the records, up to `limits.recordIds`."""
        ids: list[str] = self.context["recordIds"]
        return ids

    @property
    def missing(self) -> list[str]:
        """Of a view of named records: those that are not there."""
        ids: list[str] = self.context.get("missing", [])
        return ids

    @property
    def regions(self) -> dict[str, dict[str, Any]]:
        """The regions by id."""
        return by_id(self.context["regions"])

    @property
    def capabilities(self) -> dict[str, dict[str, Any]]:
        """The capabilities by id."""
        return by_id(self.raw["capabilities"])

    def why_unavailable(self, capability: str, record: str | None = None) -> str | None:
        """The publisher's reason why a capability, of a record or at all, is not available; None: no reason is told here."""
        for entry in self.context["unavailable"]:
            if entry["capability"] == capability and entry.get("record") in (None, record):
                return str(entry["reason"])
        return None

    def after(self, after: dict[str, Any], publisher: str | None = None) -> "DescribeResponse":
        """The one that an `after` makes of it (§9); `publisher` as told beside it, where it was.

        Raises:
            Unfit: it leads from another position.
        """
        raw = apply_after(self.raw, after)
        return DescribeResponse(raw | {"publisher": publisher} if publisher else raw)

    @property
    def is_complete(self) -> bool:
        """Whether all there is stands here: each of the six totals is what its list holds, and nothing was cut.

        False of a window, of named records among others, and where the publisher declared more than it published.
        """
        lists = ("regions", "unavailable", "feedback", "records", "recordIds")
        return (
            len(self.raw["capabilities"]) == self.raw["capabilitiesTotal"]
            and all(len(self.context[name]) == self.context[f"{name}Total"] for name in lists)
            and not self.context.get("truncated")
            and not self.missing
        )


class After(msgspec.Struct, frozen=True):
    """What changed from `base` to `position`; `now`: the replica with it, None where a view began at a position alone."""

    method: ClassVar = "after"
    params: dict[str, Any]
    now: DescribeResponse | None = None

    @property
    def base(self) -> Position:
        """The position it leads from."""
        return Position(self.params["epoch"], self.params["base"])

    @property
    def position(self) -> Position:
        """The position it leads to."""
        return position(self.params)

    @property
    def cause(self) -> dict[str, Any] | None:
        """As the publisher declared it; None also where revisions were merged."""
        return self.params.get("cause")


class Reason(msgspec.Struct, frozen=True):
    """One of §6.3; `raw` has `publisher` or `error` where there is one."""

    kind: str
    required: bool
    raw: dict[str, Any]


class Invalidated(msgspec.Struct, frozen=True):
    """What no `after` tells, and why; where `required` a describe follows once the view is subscribed again."""

    method: ClassVar = "invalidated"
    params: dict[str, Any]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """In the protocol's order."""
        return tuple(Reason(each["kind"], each["required"], each) for each in self.params["reasons"])

    @property
    def required(self) -> bool:
        """Whether the view has no `after` until it is subscribed again."""
        return any(each["required"] for each in self.params["reasons"])

    @property
    def publisher(self) -> PublisherState | None:
        """The new value, where it is one of the reasons."""
        return next((each["publisher"] for each in self.params["reasons"] if "publisher" in each), None)


class Described(msgspec.Struct, frozen=True):
    """A describe response that replaces the replica: the first one, after a required reason, or pushed."""

    method: ClassVar = "described"
    params: dict[str, Any]

    @property
    def now(self) -> DescribeResponse:
        """The replica."""
        return DescribeResponse(self.params)

    @property
    def position(self) -> Position:
        """Where the session stands."""
        return position(self.params)


class Ended(msgspec.Struct, frozen=True):
    """The session ended; the view is subscribed again with back-off, should there be one of this id again."""

    method: ClassVar = "ended"
    params: dict[str, Any]

    @property
    def reason(self) -> str:
        """ended, expired, scope or lost."""
        return str(self.params["reason"])


class Goodbye(msgspec.Struct, frozen=True):
    """The gateway is draining; the client comes back by itself after the time it named."""

    method: ClassVar = "goodbye"
    params: dict[str, Any]


Event: TypeAlias = Described | After | Invalidated | Ended | Goodbye


class Unchanged(msgspec.Struct, frozen=True):
    """`changes`: the position asked about is the current one."""

    raw: dict[str, Any]

    @property
    def position(self) -> Position:
        """The current one."""
        return position(self.raw)


class Published(msgspec.Struct, frozen=True):
    """What became of a `publish` or `patch`.

    `unchanged`: the snapshot was that already, no revision was made. `dropped`: fields that ingest took out, at most 64 of
    `dropped_total`.
    """

    position: Position
    unchanged: bool
    dropped: tuple[dict[str, Any], ...]
    dropped_total: int
    raw: dict[str, Any]


class Listed(msgspec.Struct, frozen=True):
    """One session of `sessions`."""

    session: str
    title: str | None
    position: Position
    as_of: str
    publisher: PublisherState
    raw: dict[str, Any]


def position(told: Mapping[str, Any]) -> Position:
    """The position that an answer or notification tells."""
    return Position(told["epoch"], told["revision"])


def by_id(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries under their ids, in their order."""
    return {entry["id"]: entry for entry in entries}


def published(result: dict[str, Any]) -> Published:
    """The result of `publish` or `patch`."""
    dropped = tuple(result.get("dropped", ()))
    return Published(
        position(result), result.get("unchanged", False), dropped, result.get("droppedTotal", len(dropped)), result
    )


def listed(entry: dict[str, Any]) -> Listed:
    """One entry of the result of `sessions`."""
    return Listed(entry["session"], entry.get("title"), position(entry), entry["asOf"], entry["publisher"], entry)
