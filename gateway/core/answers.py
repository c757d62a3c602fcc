"""What the gateway sends: results, notifications and errors of protocol §3, §4, §5 and §9, as types.

Nothing is built with these: the frames are joined from ready text. They are the source of `schemas/`, and tests hold
what was sent against them. They name what this version sends and no more; clients ignore members they do not know (§2).
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from gateway.core.errors import KINDS
from gateway.core.limits import ID_CHARS, REQUEST_ID_BYTES, Limits
from gateway.core.params import CauseKind, Closed, Epoch, FieldName, Free, Id, Natural, Positive, Revision, Source

View: TypeAlias = Annotated[str, Meta(min_length=1, max_length=ID_CHARS, description="the id of a view")]
Time: TypeAlias = Annotated[
    str,
    Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$", description="RFC 3339, UTC"),
]
Publisher: TypeAlias = Literal["online", "stale", "gone", "none", "unknown"]
ErrorKind: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": sorted(KINDS)})]


def _wire_name(name: str) -> str:
    """`agent_surface` and its members keep the seed's spelling; all others are in camel case."""
    first, *rest = name.split("_")
    return name if name == "agent_surface" else first + "".join(map(str.title, rest))


class Told(Closed, frozen=True, kw_only=True, rename=_wire_name):
    """A JSON object the gateway sends."""


# §3 errors


class ErrorData(Told, frozen=True, kw_only=True):
    """`data` of an error: programs switch on `kind`."""

    kind: ErrorKind
    error_class: Literal["permanent", "transient", "ambiguous"]
    retryable: bool
    suggestion: str | UnsetType = UNSET
    id: int | Annotated[str, Meta(max_length=REQUEST_ID_BYTES)] | UnsetType = UNSET
    suggestions: list[str] | UnsetType = UNSET
    path: Annotated[str, Meta(description="a JSON Pointer into the params")] | UnsetType = UNSET
    expected: str | UnsetType = UNSET
    grant: str | UnsetType = UNSET
    limit: Annotated[str, Meta(description="the name of the limit or of the member")] | UnsetType = UNSET
    maximum: int | UnsetType = UNSET
    given: int | UnsetType = UNSET
    epoch: Epoch | UnsetType = UNSET
    revision: Revision | UnsetType = UNSET
    retry_after_ms: Natural | UnsetType = UNSET


class Error(Told, frozen=True, kw_only=True):
    """`error` of an error reply."""

    code: int
    message: str
    data: ErrorData


# §5 the describe response


class AgentSurface(Told, frozen=True, kw_only=True, rename=None):
    """The target, what the window asked for and what it was taken from. A part of the seed's schema."""

    input_count: Natural | UnsetType = UNSET
    output_count: Natural | UnsetType = UNSET
    output_truncated: bool | UnsetType = UNSET
    dropped: Natural | UnsetType = UNSET
    max_output_bytes: Positive | UnsetType = UNSET
    db_path_source: Literal["argv", "xdg", "default"]
    db_path_dispensation: Literal["use-active"] | UnsetType = UNSET
    db_path_resolved: str | UnsetType = UNSET
    query_limited: bool | UnsetType = UNSET
    query_limit: Natural | UnsetType = UNSET
    query_limit_source: Literal["flag", "default"] | UnsetType = UNSET
    query_limit_kind: Literal["pagination"] | UnsetType = UNSET
    universe_total: Natural | UnsetType = UNSET
    filter_scope: Literal["universe", "page"] | UnsetType = UNSET
    filter_incomplete: bool | UnsetType = UNSET
    result_array_source: Literal["declared"] | UnsetType = UNSET


class Page(Told, frozen=True, kw_only=True):
    """The page; absent where it is unknown."""

    title: str | UnsetType = UNSET
    route: str | UnsetType = UNSET
    params: dict[str, str | bool | int | float] | UnsetType = UNSET


class Field(Told, frozen=True, kw_only=True):
    """A declared field of the records of a region."""

    name: FieldName
    expose: Literal["plain"]
    source: Source


class Region(Told, frozen=True, kw_only=True):
    """A region, in the publisher's order; `parent` null also where it is out of scope."""

    id: Id
    title: str
    description: str
    parent: Id | None
    active: bool
    modal: bool
    fields: list[Field]


class Capability(Told, frozen=True, kw_only=True):
    """What a caller can invoke; `arguments` is a JSON Schema."""

    id: Id
    title: str
    description: str
    applies_to: Literal["record", "session"]
    region: Id | None
    arguments: Free
    effect: Literal["read", "write", "destructive"]
    confirm: bool
    idempotent: bool


class Unavailable(Told, frozen=True, kw_only=True):
    """A capability that cannot be invoked now, on one record or, without `record`, at all."""

    capability: Id
    record: Id | UnsetType = UNSET
    reason: str


class Feedback(Told, frozen=True, kw_only=True):
    """A validation error, notice or status message."""

    id: Id
    level: Literal["error", "warning", "notice", "status"]
    message: str
    record: Id | UnsetType = UNSET
    region: Id | UnsetType = UNSET
    capability: Id | UnsetType = UNSET
    source: Source


class RecordWindow(Told, frozen=True, kw_only=True):
    """Which records are told; `next` is absent at the end."""

    offset: Natural
    limit: Positive
    returned: Natural
    total: Natural
    next: Positive | UnsetType = UNSET


class RecordIdsWindow(Told, frozen=True, kw_only=True):
    """Which ids are told where `limits.recordIds` cuts."""

    offset: Natural
    returned: Natural
    total: Natural
    next: Positive | UnsetType = UNSET


class Record(Told, frozen=True, kw_only=True):
    """A record of the window. `truncated`: the fields whose text ingest cut."""

    id: Id
    region: Id
    fields: Free
    truncated: list[FieldName] | UnsetType = UNSET


class Context(Told, frozen=True, kw_only=True):
    """One view of one snapshot. `truncated`: cut to `limits.responseBytes`."""

    page: Page | UnsetType = UNSET
    regions: list[Region]
    regions_total: Natural
    state: Free
    unavailable: list[Unavailable]
    unavailable_total: Natural
    feedback: list[Feedback]
    feedback_total: Natural
    record_window: RecordWindow
    missing: list[Id] | UnsetType = UNSET
    records: list[Record]
    records_total: Natural
    record_ids_window: RecordIdsWindow | UnsetType = UNSET
    record_ids: list[Id]
    record_ids_total: Natural
    truncated: Literal[True] | UnsetType = UNSET
    agent_surface: Annotated[AgentSurface, Meta(description="what was asked of what")]


class Stub(Told, frozen=True, kw_only=True, rename=None):
    """What stands in place of a context that does not fit even with every array empty."""

    truncated: Literal[True]
    truncated_reason: Literal["max_output_bytes"]
    max_output_bytes: Positive


class DescribeResult(Told, frozen=True, kw_only=True):
    """Capabilities and context of one position. `context` is a `Context` or a `Stub`."""

    session: Id
    view: View
    capabilities: list[Capability]
    capabilities_total: Natural
    context: Annotated[Any, Meta(extra_json_schema={"anyOf": [{"$ref": "#/$defs/Context"}, {"$ref": "#/$defs/Stub"}]})]
    epoch: Epoch
    revision: Revision
    as_of: Time
    publisher: Publisher


# §9 notifications


class CauseTold(Told, frozen=True, kw_only=True):
    """Why the publisher changed something, as it declared it."""

    kind: CauseKind


class RecordTold(Told, frozen=True, kw_only=True):
    """A known record: what changed; one that entered the window: `entered`, all its members and `at`."""

    id: Id
    entered: Literal[True] | UnsetType = UNSET
    at: Natural | UnsetType = UNSET
    region: Id | UnsetType = UNSET
    fields: Free | UnsetType = UNSET
    unset: list[FieldName] | UnsetType = UNSET
    truncated: list[FieldName] | UnsetType | None = UNSET


class IdAdded(Told, frozen=True, kw_only=True):
    """`at`: the index in the new `recordIds`."""

    id: Id
    at: Natural


class IdsTold(Told, frozen=True, kw_only=True):
    """`removed` out first, then `added` in ascending `at`."""

    removed: list[Id]
    added: list[IdAdded]


class StateTold(Told, frozen=True, kw_only=True):
    """Members of `state` set and removed."""

    set: Free
    unset: list[str]


class Totals(Told, frozen=True, kw_only=True):
    """Those of the six totals that changed."""

    capabilities_total: Natural | UnsetType = UNSET
    regions_total: Natural | UnsetType = UNSET
    unavailable_total: Natural | UnsetType = UNSET
    feedback_total: Natural | UnsetType = UNSET
    records_total: Natural | UnsetType = UNSET
    record_ids_total: Natural | UnsetType = UNSET


class After(Told, frozen=True, kw_only=True):
    """What changed in one view between the revisions `base` and `revision` of one epoch."""

    session: Id
    view: View
    epoch: Epoch
    base: Revision
    revision: Revision
    as_of: Time
    cause: CauseTold | UnsetType = UNSET
    page: Page | UnsetType = UNSET
    records: list[RecordTold] | UnsetType = UNSET
    left: list[Id] | UnsetType = UNSET
    missing: list[Id] | UnsetType = UNSET
    record_ids: IdsTold | UnsetType = UNSET
    record_window: RecordWindow | UnsetType = UNSET
    record_ids_window: RecordIdsWindow | UnsetType | None = UNSET
    state: StateTold | UnsetType = UNSET
    feedback: list[Feedback] | UnsetType = UNSET
    unavailable: list[Unavailable] | UnsetType = UNSET
    regions: list[Region] | UnsetType = UNSET
    truncated: Literal[True] | UnsetType | None = UNSET
    agent_surface: Annotated[AgentSurface, Meta(description="whole, when it changed")] | UnsetType = UNSET
    capabilities: list[Capability] | UnsetType = UNSET
    withdrawn: list[Id] | UnsetType = UNSET
    totals: Totals | UnsetType = UNSET


class Reason(Told, frozen=True, kw_only=True):
    """Why no `after` tells what happened (§6.3). `required`: subscribe again."""

    kind: Literal[
        "navigation",
        "modal",
        "filter",
        "sort",
        "pagination",
        "scope",
        "availability",
        "insufficient",
        "behind",
        "gap",
        "refused",
        "publisher",
    ]
    required: bool
    publisher: Publisher | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class Invalidated(Told, frozen=True, kw_only=True):
    """With a required reason the view has no `after` until it is subscribed again."""

    session: Id
    view: View
    epoch: Epoch
    revision: Revision
    reasons: Annotated[list[Reason], Meta(min_length=1)]


class Ended(Told, frozen=True, kw_only=True):
    """The session is no more; once per session and connection."""

    session: Id
    reason: Literal["ended", "expired", "scope", "lost"]


class Goodbye(Told, frozen=True, kw_only=True):
    """The connection will be closed 1012."""

    reason: str
    reconnect_after_ms: Natural
    jitter_ms: Natural


# §4 results


class Empty(Told, frozen=True, kw_only=True):
    """Done; there is nothing to tell."""


class Server(Told, frozen=True, kw_only=True):
    name: str
    version: str


class Grant(Told, frozen=True, kw_only=True):
    """One session by its id, or all whose ids begin with `prefix`."""

    session: Id | UnsetType = UNSET
    prefix: str | UnsetType = UNSET
    can: list[Literal["describe", "invoke", "approve", "publish", "presence", "operate"]]
    regions: list[Id] | UnsetType = UNSET


class HelloResult(Told, frozen=True, kw_only=True):
    """Who answers, under which name and limits."""

    server: Server
    protocol: Literal["context.v1"]
    connection: str
    principal: str
    grants: list[Grant]
    limits: Limits


class Unchanged(Told, frozen=True, kw_only=True):
    """`since` is the current position."""

    kind: Literal["unchanged"]
    view: View
    epoch: Epoch
    revision: Revision
    publisher: Publisher
    agent_surface: AgentSurface


class ChangedAfter(Told, frozen=True, kw_only=True):
    """One `after`, merged, from `since` to the current position."""

    kind: Literal["after"]
    view: View
    after: After
    publisher: Publisher
    agent_surface: AgentSurface


class ChangedInvalidated(Told, frozen=True, kw_only=True):
    """No `after` leads from `since` to the current position."""

    kind: Literal["invalidated"]
    view: View
    epoch: Epoch
    revision: Revision
    reasons: Annotated[list[Reason], Meta(min_length=1)]
    publisher: Publisher
    agent_surface: AgentSurface


class SubscribedFresh(Told, frozen=True, kw_only=True):
    """`reasons`: why `since` was refused."""

    view: View
    epoch: Epoch
    revision: Revision
    recovered: Literal[False]
    describe: DescribeResult
    reasons: Annotated[list[Reason], Meta(min_length=1)] | UnsetType = UNSET


class SubscribedRecovered(Told, frozen=True, kw_only=True):
    """`after` is absent when `since` is the current position."""

    view: View
    epoch: Epoch
    revision: Revision
    recovered: Literal[True]
    after: After | UnsetType = UNSET
    publisher: Publisher
    agent_surface: AgentSurface


class SessionTold(Told, frozen=True, kw_only=True):
    """`title` is the page's."""

    session: Id
    title: str | UnsetType = UNSET
    epoch: Epoch
    revision: Revision
    as_of: Time
    publisher: Publisher


class SessionsResult(Told, frozen=True, kw_only=True):
    """Ascending by id; `next` is the `cursor` of the next page."""

    sessions: list[SessionTold]
    next: str | UnsetType = UNSET
    total: Natural
    agent_surface: AgentSurface


class Dropped(Told, frozen=True, kw_only=True):
    """A field that was not taken, and why."""

    region: Id | UnsetType = UNSET
    name: FieldName
    why: Literal["undeclared", "secret"]


class PublishResult(Told, frozen=True, kw_only=True):
    """The position after `publish` or `patch`; `unchanged` where it is the one before."""

    epoch: Epoch
    revision: Revision
    unchanged: Literal[True] | UnsetType = UNSET
    dropped: list[Dropped] | UnsetType = UNSET
    dropped_total: Positive | UnsetType = UNSET
    agent_surface: AgentSurface


class EndResult(Told, frozen=True, kw_only=True):
    """Ended."""

    agent_surface: AgentSurface
