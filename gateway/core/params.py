"""What peers send: the `params` of every method of protocol §4 and the objects of §6, as frozen structs.

Unknown members are refused at every depth but the free ones (`fields`, `state`, `page.params`, `scope`, `arguments`),
which stay plain dicts here. `UNSET` is absence; null is a value and refused where it is none. Bounds that are limits of
§10 are judged by `ingest` and `view` (`limit_exceeded`), not here (`invalid_params`).
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.core.limits import ID_CHARS, RECORDS_ASKED, REVISION_MAX

NO_CONTROLS = "^(?![\\s\\S]*[\\u0000-\\u001f\\u007f])"
# A description is also what `explain` tells as `expected`.
Id: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_CHARS,
        pattern=NO_CONTROLS,
        description=f"an id: a text of 1 to {ID_CHARS} characters, none of them a control character",
    ),
]
FieldName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=ID_CHARS,
        pattern="^(?![\\s\\S]*[\\u0000-\\u001f\\u007f.=!~,])",
        description=f"a field name: a text of 1 to {ID_CHARS} characters, no control character and none of . = ! ~ ,",
    ),
]
Epoch: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Revision: TypeAlias = Annotated[int, Meta(ge=1, le=REVISION_MAX)]
Natural: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Free: TypeAlias = dict[str, Any]
Source: TypeAlias = Literal["application", "user", "external"]
CauseKind: TypeAlias = Literal[
    "navigation", "modal", "filter", "sort", "pagination", "scope", "availability", "action", "data"
]


class Closed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object of the wire that takes the members it names and no others."""


# §6 the objects of a snapshot


class PageIn(Closed, frozen=True, kw_only=True):
    """`page`: title, route, business parameters (text, number, bool)."""

    title: str | UnsetType = UNSET
    route: str | UnsetType = UNSET
    params: dict[str, str | bool | int | float] | UnsetType = UNSET


class FieldIn(Closed, frozen=True, kw_only=True):
    """A declared field. `expose` other than `plain` is refused until it is served."""

    name: FieldName
    expose: Literal["plain"] = "plain"
    source: Source = "application"
    max_chars: Positive | UnsetType = UNSET


class RegionIn(Closed, frozen=True, kw_only=True):
    """A region of a snapshot or, new, of a change."""

    id: Id
    title: str
    description: str = ""
    parent: Id | None = None
    active: bool = True
    modal: bool = False
    fields: list[FieldName | FieldIn] = []


class RecordIn(Closed, frozen=True, kw_only=True):
    """A record of a snapshot."""

    id: Id
    region: Id
    fields: Free = {}


class CapabilityIn(Closed, frozen=True, kw_only=True):
    """What a caller can invoke. `confirm` absent: true if `effect` is destructive."""

    id: Id
    title: str
    description: str
    applies_to: Literal["record", "session"]
    region: Id | None = None
    arguments: Free | UnsetType = UNSET
    effect: Literal["read", "write", "destructive"]
    confirm: bool | UnsetType = UNSET
    idempotent: bool = False


class FeedbackIn(Closed, frozen=True, kw_only=True):
    """Validation errors, notices, status messages."""

    id: Id
    level: Literal["error", "warning", "notice", "status"]
    message: str
    record: Id | UnsetType = UNSET
    region: Id | UnsetType = UNSET
    capability: Id | UnsetType = UNSET
    source: Source = "application"


class UnavailableIn(Closed, frozen=True, kw_only=True):
    """An action unavailable now, and why; without `record` for the whole session."""

    capability: Id
    record: Id | UnsetType = UNSET
    reason: str


class SnapshotIn(Closed, frozen=True, kw_only=True):
    """The snapshot of `publish`."""

    page: PageIn | UnsetType = UNSET
    regions: list[RegionIn] = []
    records: list[RecordIn] = []
    state: Free = {}
    feedback: list[FeedbackIn] = []
    unavailable: list[UnavailableIn] = []
    capabilities: list[CapabilityIn] = []
    records_total: Natural | UnsetType = UNSET
    scope: dict[str, str] | UnsetType = UNSET


# §6.1 the objects of a change


class PageChange(Closed, frozen=True, kw_only=True):
    """`page` of a change: the whole page, or `{"unset": true}` alone."""

    title: str | UnsetType = UNSET
    route: str | UnsetType = UNSET
    params: dict[str, str | bool | int | float] | UnsetType = UNSET
    unset: bool | UnsetType = UNSET


class StateChange(Closed, frozen=True, kw_only=True):
    """Members of `state` to set and to remove."""

    set: Free = {}
    unset: list[str] = []


class RegionUpsert(Closed, frozen=True, kw_only=True):
    """A known region: the members it names, never `fields`; a new one: whole."""

    id: Id
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    parent: Id | UnsetType | None = UNSET
    active: bool | UnsetType = UNSET
    modal: bool | UnsetType = UNSET
    fields: list[FieldName | FieldIn] | UnsetType = UNSET


class RegionsChange(Closed, frozen=True, kw_only=True):
    upsert: list[RegionUpsert] = []
    remove: list[Id] = []


class CapabilitiesChange(Closed, frozen=True, kw_only=True):
    upsert: list[CapabilityIn] = []
    remove: list[Id] = []


class RecordUpsert(Closed, frozen=True, kw_only=True):
    """A known record merges `fields`; a new one needs `region`. `before`/`after` an id place it."""

    id: Id
    region: Id | UnsetType = UNSET
    fields: Free = {}
    unset: list[str] = []
    before: Id | UnsetType = UNSET
    after: Id | UnsetType = UNSET


class RecordsChange(Closed, frozen=True, kw_only=True):
    upsert: list[RecordUpsert] = []
    remove: list[Id] = []
    order: list[Id] | UnsetType = UNSET


class UnavailableKey(Closed, frozen=True, kw_only=True):
    capability: Id
    record: Id | UnsetType = UNSET


class UnavailableChange(Closed, frozen=True, kw_only=True):
    set: list[UnavailableIn] = []
    unset: list[UnavailableKey] = []


class ChangeIn(Closed, frozen=True, kw_only=True):
    """The change of `patch`: all of it applies, or none."""

    page: PageChange | UnsetType = UNSET
    state: StateChange | UnsetType = UNSET
    regions: RegionsChange | UnsetType = UNSET
    capabilities: CapabilitiesChange | UnsetType = UNSET
    records: RecordsChange | UnsetType = UNSET
    feedback: list[FeedbackIn] | UnsetType = UNSET
    unavailable: UnavailableChange | UnsetType = UNSET
    records_total: Natural | UnsetType | None = UNSET
    scope: dict[str, str] | UnsetType = UNSET


# §4 the params of the methods


class Cause(Closed, frozen=True, kw_only=True):
    """Why a publisher changed something. `invocation` is refused until there are invocations."""

    kind: CauseKind


class Base(Closed, frozen=True, kw_only=True):
    """A position named by the publisher."""

    epoch: Epoch
    revision: Revision


class Since(Closed, frozen=True, kw_only=True):
    """The position a client stands at, and the view it stands at it with."""

    view: Annotated[str, Meta(min_length=1, max_length=ID_CHARS)]
    epoch: Epoch
    revision: Revision


class Client(Closed, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=ID_CHARS)]
    version: Annotated[str, Meta(min_length=1, max_length=ID_CHARS)]


class Hello(Closed, frozen=True, kw_only=True):
    client: Client | UnsetType = UNSET


class Ping(Closed, frozen=True, kw_only=True):
    pass


class ViewParams(Closed, frozen=True, kw_only=True):
    """The members that make a view; `record` excludes `offset` and `limit`."""

    session: Id
    offset: Natural | UnsetType = UNSET
    limit: Positive | UnsetType = UNSET
    record: Id | Annotated[list[Id], Meta(min_length=1, max_length=RECORDS_ASKED)] | UnsetType = UNSET


class Describe(ViewParams, frozen=True, kw_only=True):
    pass


class Changes(ViewParams, frozen=True, kw_only=True):
    since: Since


class Subscribe(ViewParams, frozen=True, kw_only=True):
    deliver: Literal["notify", "push"] = "notify"
    pace_ms: Literal[0, 50, 100, 250, 500, 1000, 2500, 5000] = 0
    since: Since | UnsetType = UNSET


class Unsubscribe(Closed, frozen=True, kw_only=True):
    view: Annotated[str, Meta(min_length=1, max_length=ID_CHARS)]


class Sessions(Closed, frozen=True, kw_only=True):
    """`limit` absent: `limits.SESSIONS_TOLD`, or `limits.sessionsPage` where that is less."""

    prefix: Annotated[str, Meta(max_length=ID_CHARS)] = ""
    cursor: Annotated[str, Meta(min_length=1, max_length=4 * ID_CHARS)] | UnsetType = UNSET
    limit: Positive | UnsetType = UNSET


class Publish(Closed, frozen=True, kw_only=True):
    """`base`: what is replaced; null: there must be no session; `"any"`: knowingly."""

    session: Id
    snapshot: SnapshotIn
    base: Base | Literal["any"] | None
    cause: Cause | UnsetType = UNSET
    ttl_ms: Positive | UnsetType = UNSET


class Patch(Closed, frozen=True, kw_only=True):
    session: Id
    change: ChangeIn
    base: Base | Literal["any"]
    cause: Cause | UnsetType = UNSET


class End(Closed, frozen=True, kw_only=True):
    session: Id
    base: Base | Literal["any"] | UnsetType = UNSET


METHODS: dict[str, type[Closed]] = {
    "hello": Hello,
    "ping": Ping,
    "describe": Describe,
    "changes": Changes,
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "sessions": Sessions,
    "publish": Publish,
    "patch": Patch,
    "end": End,
}
"""Every method served so far and its params; any other is `unknown_method`."""

WRITES = frozenset({"publish", "patch", "end"})
