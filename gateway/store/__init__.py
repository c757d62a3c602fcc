"""The seam to Redis or Valkey: what the gateway asks of its store. Content is opaque bytes here; positions are not.

Every call may raise `GatewayError("store_unavailable", …, retryAfterMs=…)`: the store did not answer in time, refused
for a reason of its own (LOADING, READONLY, OOM, NOAUTH …) or is out of reach. No other exception crosses this seam.
A call that raised may have taken effect; repeated with the same arguments it finds what it did.

Every script compares `master_replid` first and, where it differs, begins a new epoch from the stored snapshot (§6.2);
it ends a session whose time is over, or whose keys are not all there. So any call may bring `Renewed` or `Ended` to the
nodes that watch, before it returns.

`gateway.store.opening` makes a store from a URL, `gateway.store.embedded` runs the private engine.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from gateway.core.position import Position


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is kept, of one position.

    `as_of`: ms since the Unix epoch, never before an earlier revision's. `parts`: small parts by name (page, regions,
    …). `records`: id → encoded record, in no order. `scores`: id → place, of every record; ascending scores are the
    publisher's order. `digest`: of the message that made this revision, empty where none did (a new epoch over an old
    snapshot: what names the old epoch is no repeat). `ttl_ms`: from the last revision.
    """

    position: Position
    as_of: int
    secret: bytes
    digest: bytes
    ttl_ms: int
    parts: dict[str, bytes]
    records: dict[str, bytes]
    scores: dict[str, int]


class Gone(msgspec.Struct, frozen=True):
    """There is no such session. `reason`: `ended` or `expired` for an hour after it; else `lost`.

    `lost` says that nothing is stored, or that what was stored was incomplete and has been removed. Whether there ever
    was a session the store does not know: who watched one has lost it, for anyone else it is unknown.
    """

    reason: str


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted message as writes.

    `base`: the position it was made on; None: there must be no session. `digest`: keyed, of base and content; a base
    that does not hold while the stored digest is this one is a repeat and answers the stored position. `secret` counts
    only when a session is created. `parts` with None are deleted. `redo` and `undo` (None above 64 KiB) and `cause`
    go into the log; `cause` and `redo` to the watching nodes. `ttl_ms` None keeps the session's, or is
    `limits.session_ttl_ms` for a new one.

    The caller's duties, for the store looks into nothing: `put` and `drop` share no id; every id of `put` that is new has
    a score and every id of `scores` is a record afterwards (else the session counts as incomplete: lost); scores are
    whole numbers within ±2⁵³. The title of a listing is the part named `page`.
    """

    base: Position | None
    digest: bytes
    secret: bytes
    parts: dict[str, bytes | None]
    put: dict[str, bytes]
    drop: list[str]
    scores: dict[str, int]
    cause: str
    redo: bytes | None
    undo: bytes | None
    ttl_ms: int | None


class Committed(msgspec.Struct, frozen=True):
    """`repeated`: the commit had been accepted before; nothing was written now."""

    position: Position
    as_of: int
    repeated: bool


class Moved(msgspec.Struct, frozen=True):
    """The base does not hold; `position` is the current one, None where there is no session."""

    position: Position | None


class Entry(msgspec.Struct, frozen=True):
    """One revision of the log. `redo` and `undo` are None where the entry was above the cutoff."""

    revision: int
    as_of: int
    cause: str
    redo: bytes | None
    undo: bytes | None


class Log(msgspec.Struct, frozen=True):
    """The revisions behind a position, ascending and gapless up to `position`; None: the log does not reach back.

    `digest`: of the message that made `position`, for telling a repeat from a conflict.
    """

    position: Position
    as_of: int
    entries: list[Entry] | None
    digest: bytes


class Changed(msgspec.Struct, frozen=True):
    """Event: a revision was accepted. `redo` None: too large to travel; read it."""

    position: Position
    as_of: int
    cause: str
    redo: bytes | None


class Renewed(msgspec.Struct, frozen=True):
    """Event: a new epoch began from the stored snapshot (another `master_replid`)."""

    position: Position
    as_of: int


class Ended(msgspec.Struct, frozen=True):
    """Event: the session is over; `reason`: ended, expired or lost."""

    reason: str


Event = Changed | Renewed | Ended
Listener = Callable[[str, Event], None]
"""Called on the loop with the session id and its event; must not block."""
Doubt = Callable[[], None]
"""Called on the loop when events may have been lost (link replaced, moved, silent): check every watched session."""


class Listing(msgspec.Struct, frozen=True):
    """A page of sessions, ascending by id (code points): id, position, `as_of`, the encoded part `page` or None.

    `next`: what to pass as `after` for the next page; None: this was the last.
    """

    sessions: list[tuple[str, Position, int, bytes | None]]
    next: str | None
    total: int


class Store(Protocol):
    """What `gateway.store.open_store` gives."""

    async def commit(self, session: str, commit: Commit) -> Committed | Moved:
        """Accept one message, whole or not at all; costs the same whatever the session's size."""
        ...

    async def end(self, session: str, base: Position | None) -> Position | Moved:
        """End a session; `base` None ends it whatever its position. The position it ended at; Moved(None): there was none."""
        ...

    async def read(self, session: str) -> Stored | Gone:
        """The whole session, of one position, read in slices."""
        ...

    async def log(self, session: str, since: Position) -> Log | Gone:
        """What followed `since`. `entries` None: another epoch, a position not reached yet, or not kept any more."""
        ...

    async def check(self, session: str, ttl_ms: int | None = None) -> Position | Gone:
        """The current position; begins a new epoch or ends an expired session where due.

        `ttl_ms`: the session's from now on, counted from its last revision; None keeps it.
        """
        ...

    async def sessions(self, prefix: str, after: str | None, limit: int) -> Listing:
        """At most `limit` sessions whose ids begin with `prefix`, behind `after`. `total`: of the prefix."""
        ...

    async def watch(self, session: str) -> None:
        """Return once events of the session are being delivered to the listener; needs `run`. Calls are counted."""
        ...

    async def unwatch(self, session: str) -> None:
        """Undo one `watch` that returned; after the last one no event of the session is delivered."""
        ...

    def reached_ms_ago(self) -> int:
        """Milliseconds since the store last answered (monotonic); large when it never did."""
        ...

    def ready(self) -> bool:
        """Whether the store is in reach and the last probe through the real publish path came back."""
        ...

    def links_replaced(self) -> int:
        """How often the link that brings events was lost; each time `doubt` is called once all is watched again."""
        ...

    async def run(self, listener: Listener, doubt: Doubt, *, started: Callable[[], Awaitable[None] | None]) -> None:
        """Own the links: receive events, probe, reconnect with back-off; runs until cancelled.

        `started` is called once, as soon as `watch` may be called, whether or not the store is in reach. What `listener`
        or `doubt` raises ends `run`.
        """
        ...

    async def close(self) -> None:
        """Close the idle links; cancel `run` first."""
        ...
