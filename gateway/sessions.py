"""The methods of protocol §4 and §6 over the store and the core: a request in, the text of its result out. No frames."""

import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from anyio.lowlevel import checkpoint
from msgspec import UNSET, UnsetType

from gateway.core import ingest, model, observe
from gateway.core.change import difference, patched
from gateway.core.errors import GatewayError, exceeded
from gateway.core.history import walk_back
from gateway.core.limits import SESSIONS_TOLD, Limits
from gateway.core.model import Change, Snapshot, text
from gateway.core.order import Steps
from gateway.core.params import (
    Base,
    Changes,
    Closed,
    Describe,
    End,
    Patch,
    Publish,
    Since,
    Subscribe,
    Unsubscribe,
)
from gateway.core.params import Sessions as SessionsParams
from gateway.core.position import Position
from gateway.core.view import Projection, Target, View, describe, time_text, view_of
from gateway.held import Held, unknown_session
from gateway.hub import Hub
from gateway.metrics import Metrics
from gateway.replica import Resume, Step, result
from gateway.service import Peer
from gateway.slices import SLICE_S, sliced
from gateway.store import Commit, Committed, Gone, Moved, Store

COMMITS: Final = 5
"""Tries of a commit whose base moved under `"any"`; then `conflict` (design §3)."""
CATCH_UPS: Final = 5
"""Times a resume follows a session that moves while its history is being read; then `gap`."""
CUTOFF: Final = 65_536
"""Bytes of a change that travel in an event and stand in the log; above, only the position does (design §3)."""
ENCODED: Final = 1_000
"""Records of a change that are tried against `CUTOFF`; more would never pass and are not encoded for it."""
SECRET_BYTES: Final = 32


class Sessions:
    """The service behind every connection (`gateway.service.Service`)."""

    def __init__(self, store: Store, hub: Hub, limits: Limits, target: Target, metrics: Metrics) -> None:
        self.store, self.hub, self.limits, self.target, self.metrics = store, hub, limits, target, metrics
        self._methods: dict[type[Closed], Callable[[Peer, Any], Awaitable[bytes]]] = {
            Describe: self._describe,
            Changes: self._changes,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            SessionsParams: self._sessions,
            Publish: self._publish,
            Patch: self._patch,
            End: self._end,
        }

    async def call(self, peer: Peer, method: str, params: Closed) -> bytes:
        """The text of the result; see `gateway.service.Service.call`."""
        return await self._methods[type(params)](peer, params)

    def drained(self, peer: Peer) -> None:
        """The peer's outbox has room again."""
        self.hub.drained(peer)
        for held in self._watched_by(peer):
            held.replica.drained(peer, self.hub.now())
            self.hub.set_timer(held)

    def leave(self, peer: Peer) -> None:
        """The connection is closed: nothing of it stays."""
        for view, session in list(peer.views.items()):
            held = self.hub.held(session)
            if held is not None:
                held.replica.unwatch(peer, view)
        peer.views.clear()
        self.hub.leave(peer)

    def _watched_by(self, peer: Peer) -> list[Held]:
        found = [self.hub.held(session) for session in sorted(set(peer.views.values()))]
        return [held for held in found if held is not None]

    # Reading

    async def _describe(self, peer: Peer, params: Describe) -> bytes:
        view = view_of(params, None, self.limits)
        held = await self.hub.open(params.session)
        return describe(held.replica.project(view), view, self.hub.publisher())

    async def _changes(self, peer: Peer, params: Changes) -> bytes:
        view = view_of(params, None, self.limits)
        held = await self.hub.open(params.session)
        kinds, after = await self._since(held, view, params.since)
        if held.error is not None:
            raise held.error
        head = b'"view":"%b"' % view.id().encode()
        publisher = b'"publisher":' + text(self.hub.publisher())
        if kinds:
            told = b'"kind":"invalidated",%b,%b,"reasons":%b,' % (
                head,
                self._position(held),
                observe.reasons_text(kinds),
            )
            return self._result(told + publisher)
        if after is None:
            position = self._position(held)
            return self._result(b'"kind":"unchanged",%b,%b,%b' % (head, position, publisher))
        return self._result(b'"kind":"after",%b,"after":%b,%b' % (head, after, publisher))

    async def _subscribe(self, peer: Peer, params: Subscribe) -> bytes:
        view = view_of(params, None, self.limits)
        held = await self.hub.open(params.session)
        self._check_views(peer, held, view)
        kinds: set[str] = set()
        after: bytes | None = None
        recovered = False
        if not isinstance(params.since, UnsetType):
            kinds, after = await self._since(held, view, params.since)
            recovered = not kinds
        if held.error is not None:
            raise held.error
        self._check_views(peer, held, view)
        # From here on nothing is awaited: no change can come between what is told and what is watched.
        held.replica.tell_publisher(
            self.hub.publisher()
        )  # so that what is told here is what later changes are told from
        push, pace_s = params.deliver == "push", params.pace_ms / 1000
        projection = held.replica.watch(peer, view, push, pace_s, self.hub.now())
        return self._subscribed(view, projection, recovered, after, kinds)

    def _subscribed(
        self, view: View, projection: Projection, recovered: bool, after: bytes | None, kinds: set[str]
    ) -> bytes:
        epoch, revision = projection.snapshot.position
        head = b'"view":"%b","epoch":%b,"revision":%d' % (view.id().encode(), text(epoch), revision)
        publisher = self.hub.publisher()
        if recovered:
            told = b"" if after is None else b',"after":' + after
            return self._result(head + b',"recovered":true' + told + b',"publisher":' + text(publisher))
        told = b"{" + head + b',"recovered":false,"describe":' + describe(projection, view, publisher)
        if kinds:
            told += b',"reasons":' + observe.reasons_text(kinds)
        return told + b"}"

    def _check_views(self, peer: Peer, held: Held, view: View) -> None:
        """Limits of subscriptions; a view the connection already has counts for nothing."""
        id = view.id()
        if id in peer.views:
            return
        if len(peer.views) >= self.limits.views_per_connection:
            raise exceeded("viewsPerConnection", self.limits.views_per_connection, len(peer.views) + 1)
        views = held.replica.views
        if id not in views and len(views) >= self.limits.views_per_session:
            raise exceeded("viewsPerSession", self.limits.views_per_session, len(views) + 1)

    async def _unsubscribe(self, peer: Peer, params: Unsubscribe) -> bytes:
        held = self.hub.held(peer.views.get(params.view, ""))
        if held is not None and held.replica.unwatch(peer, params.view):
            return b"{}"
        raise GatewayError("unknown_view", "This connection has not subscribed such a view.", suggestions=[])

    async def _since(self, held: Held, view: View, since: Since) -> tuple[set[str], bytes | None]:
        """What came behind a client's position: required reasons, or the merged `after` (None: nothing came)."""
        position = Position(since.epoch, since.revision)
        if since.view != view.id():
            return {"gap"}, None
        if position.epoch != held.replica.position.epoch or position.revision > held.replica.position.revision:
            await self.hub.refresh(held)  # the store is asked before a position is called ahead
        at = held.replica.position
        if position.epoch != at.epoch or position.revision > at.revision:
            return {"gap"}, None
        steps = held.replica.since(position) or await self._steps_from_log(held, position)
        if steps is None or len(steps) - 1 > self.limits.history_revisions:
            return {"gap"}, None
        return await self._resumed(held, steps, view)

    async def _resumed(self, held: Held, steps: list[Step], view: View) -> tuple[set[str], bytes | None]:
        """What came from the first of `steps` to the replica's present, in slices; nothing is awaited behind the last."""
        resume = Resume(steps[0], view, self.limits, self.target)
        start = self.hub.now()
        for _ in range(CATCH_UPS):
            for step in steps[1:]:
                resume.take(step)
                if self.hub.now() - start > SLICE_S:
                    await checkpoint()
                    start = self.hub.now()
            newer = held.replica.since(resume.position)
            if newer is None:
                break
            if len(newer) == 1:
                return resume.outcome()
            steps = newer
        return {"gap"}, None

    async def _steps_from_log(self, held: Held, since: Position) -> list[Step] | None:
        """The steps from `since` to a revision the replica remembers, walked back to by the log."""
        for _ in range(CATCH_UPS):
            log = await self.store.log(held.replica.session, since)
            if (
                isinstance(log, Gone)
                or log.entries is None
                or any(e.undo is None or e.redo is None for e in log.entries)
            ):
                return None
            await self.hub.forward(held, log.position)
            remembered = held.replica.since(log.position)
            if remembered is None:
                continue
            undos = [model.decode_change(entry.undo) for entry in log.entries if entry.undo is not None]
            snapshots = await sliced(walk_back(remembered[0].snapshot, undos))
            older = [Step(snapshots[0], (), frozenset())]
            for entry, undo, snapshot in zip(log.entries, undos, snapshots[1:], strict=True):
                at_time = msgspec.structs.replace(snapshot, as_of=entry.as_of)
                older.append(Step(at_time, (entry.cause,), undo.touched()))
            return older
        return None

    async def _sessions(self, peer: Peer, params: SessionsParams) -> bytes:
        cursor = None if isinstance(params.cursor, UnsetType) else params.cursor
        told = min(SESSIONS_TOLD, self.limits.sessions_page)
        limit = told if isinstance(params.limit, UnsetType) else params.limit
        listing = await self.store.sessions(params.prefix, cursor, limit)
        publisher = self.hub.publisher()
        for session, position, _, _ in listing.sessions:
            self.hub.noted(session, position)
        listed = [_listed(*session, publisher) for session in listing.sessions]
        members = b'"sessions":' + msgspec.json.encode(listed)
        if listing.next is not None:
            members += b',"next":' + text(listing.next)
        return self._result(members + b',"total":%d' % listing.total)

    def _position(self, held: Held) -> bytes:
        epoch, revision = held.replica.position
        return b'"epoch":%b,"revision":%d' % (text(epoch), revision)

    def _result(self, members: bytes) -> bytes:
        return result(members, self.target)

    # Writing

    async def _publish(self, peer: Peer, params: Publish) -> bytes:
        dropped = ingest.Dropped()
        clean = await sliced(ingest.content(params.snapshot, self.limits, dropped))

        def change(old: Snapshot) -> Steps[Change]:
            return difference(old, clean)

        base = _base(params.base)
        message = [b"publish", params.snapshot, params.cause, params.ttl_ms]
        ttl_ms = None if isinstance(params.ttl_ms, UnsetType) else params.ttl_ms
        return await self._write(params.session, base, params.cause, ttl_ms, message, change, dropped, create=True)

    async def _patch(self, peer: Peer, params: Patch) -> bytes:
        dropped = ingest.Dropped()

        def change(old: Snapshot) -> Steps[Change]:
            dropped.clear()  # of an earlier try, on a snapshot that may have declared other fields
            return patched(old, params.change, self.limits, dropped)

        base = _base(params.base)
        message = [b"patch", params.change, params.cause]
        return await self._write(params.session, base, params.cause, None, message, change, dropped, create=False)

    async def _write(
        self,
        session: str,
        base: Position | str | None,
        cause: Any,
        ttl_ms: int | None,
        message: list[Any],
        change: Callable[[Snapshot], Steps[Change]],
        dropped: ingest.Dropped,
        *,
        create: bool,
    ) -> bytes:
        """Make `change` on the session at `base`, or say why not; at most `COMMITS` tries where the base may move."""
        kind = "" if isinstance(cause, UnsetType) else cause.kind
        encoded = msgspec.json.encode([base, *[None if item is UNSET else item for item in message]], order="sorted")
        for _ in range(COMMITS):
            held = await self._held_or_none(session)
            if held is None:
                if base is not None and (base != "any" or not create):
                    raise unknown_session() if not create else conflict(None)
                written = await self._create(session, encoded, kind, ttl_ms, change)
            else:
                async with held.write_lock:
                    written = await self._overwrite_live(held, base, encoded, kind, ttl_ms, change)
            if written is not None:
                position, unchanged = written
                members = b'"epoch":%b,"revision":%d' % (text(position.epoch), position.revision)
                if unchanged:
                    members += b',"unchanged":true'
                for name, value in dropped.told().items():
                    members += b',"%b":' % name.encode() + msgspec.json.encode(value)
                return self._result(members)
        raise conflict(None if held is None else held.replica.position)

    async def _held_or_none(self, session: str) -> Held | None:
        try:
            return await self.hub.open(session)
        except GatewayError as error:
            if error.kind == "unknown_session":
                return None
            raise

    async def _create(
        self, session: str, encoded: bytes, cause: str, ttl_ms: int | None, change: Callable[[Snapshot], Any]
    ) -> tuple[Position, bool] | None:
        """A new session; None when somebody else created it meanwhile."""
        made = await sliced(change(model.EMPTY))
        new = await sliced(model.apply(model.EMPTY, made, Position("", 1), 0))
        secret = secrets.token_bytes(SECRET_BYTES)
        parts = {name: model.encode_part(name, getattr(new, name)) for name in model.PARTS}
        commit = await self._commit(None, made, cause, ttl_ms, parts, _digest(secret, encoded), secret)
        commit = msgspec.structs.replace(commit, undo=None)
        answer = await self.store.commit(session, commit)
        self.metrics.published("created" if isinstance(answer, Committed) else "moved")
        if isinstance(answer, Moved):
            return None
        self.hub.noted(session, answer.position)
        return answer.position, False

    async def _overwrite_live(self, held: Held, *args: Any) -> tuple[Position, bool] | None:
        """As `_overwrite`; None also where the session ended or was closed while this waited: ask anew."""
        try:
            return None if held.error is not None else await self._overwrite(held, *args)
        except GatewayError as error:
            if error is held.error:
                return None
            raise

    async def _overwrite(
        self,
        held: Held,
        base: Position | str | None,
        encoded: bytes,
        cause: str,
        ttl_ms: int | None,
        change: Callable[[Snapshot], Steps[Change]],
    ) -> tuple[Position, bool] | None:
        """One try on the replica's present: the position and whether nothing changed; None: try again.

        Raises:
            GatewayError: `conflict`; whatever `change` refuses.
        """
        replica = held.replica
        digest = _digest(replica.secret, encoded)
        if base != replica.position:
            # A repeat is one only while it is the current revision: the store is asked before it is taken for one.
            if base != "any" or replica.digest is None or hmac.compare_digest(replica.digest, digest):
                await self.hub.refresh(held)
            if replica.digest is not None and hmac.compare_digest(replica.digest, digest):
                return replica.position, False
            if base not in ("any", replica.position):
                raise conflict(replica.position)
        old = replica.current
        try:
            made = await sliced(change(old))
        except GatewayError:
            if base == "any":  # what the message names may be there by now: refused is what the store's present refuses
                await self.hub.refresh(held)
                if replica.position != old.position:
                    return None
            raise
        if made.empty() and cause not in observe.REQUIRED_CAUSES:
            position = await self.store.check(replica.session, ttl_ms)
            if position == old.position:
                return old.position, True
            await self.hub.refresh(held)
            return None
        new = await sliced(model.apply(old, made, Position(old.position.epoch, old.position.revision + 1), 0))
        parts = {name: model.encode_part(name, value) for name, value in made.parts.items()}
        commit = await self._commit(old, made, cause, ttl_ms, parts, digest, b"")
        answer = await self.store.commit(replica.session, commit)
        if isinstance(answer, Moved):
            self.metrics.published("moved")
            await self.hub.refresh(held)
            return None
        self.metrics.published("accepted")
        step = Step(
            msgspec.structs.replace(new, position=answer.position, as_of=answer.as_of), (cause,), made.touched()
        )
        follows = answer.position == Position(old.position.epoch, old.position.revision + 1)  # not so of some repeats
        if follows and replica.snapshot is old and not held.healing:
            self.hub.advance(held, step)
        else:
            await self.hub.forward(held, answer.position)
        if replica.position == answer.position:
            replica.digest = digest
        return answer.position, False

    async def _commit(
        self,
        old: Snapshot | None,
        made: Change,
        cause: str,
        ttl_ms: int | None,
        parts: dict[str, bytes],
        digest: bytes,
        secret: bytes,
    ) -> Commit:
        put: dict[str, bytes] = {}
        drop: list[str] = []
        scores = dict(made.scores)
        for id, record in made.records.items():
            if record is None:
                drop.append(id)
                continue
            put[id] = model.encode_record(record)
            before = None if old is None else old.records.get(id)
            if before is None or before.score != record.score:
                scores[id] = record.score
            if len(put) % ENCODED == 0:
                await checkpoint()
        redo = _travelling(made)
        undo = None if old is None or redo is None else _travelling(model.inverse(old, made))
        base = None if old is None else old.position
        return Commit(
            base=base,
            digest=digest,
            secret=secret,
            parts=dict(parts),
            put=put,
            drop=drop,
            scores=scores,
            cause=cause,
            redo=redo,
            undo=undo,
            ttl_ms=ttl_ms,
        )

    async def _end(self, peer: Peer, params: End) -> bytes:
        base = None if isinstance(params.base, UnsetType) else _base(params.base)
        answer = await self.store.end(params.session, base if isinstance(base, Position) else None)
        if isinstance(answer, Moved):
            if answer.position is None:
                raise unknown_session()
            self.hub.noted(params.session, answer.position)
            raise conflict(answer.position)
        self.hub.ended(params.session, "ended")
        return self._result(b"")


def _base(base: Base | str | None) -> Position | str | None:
    return Position(base.epoch, base.revision) if isinstance(base, Base) else base


def _digest(secret: bytes, encoded: bytes) -> bytes:
    """Of a message after it was decoded, under the session's key (protocol §8.1): tells a repeat, never what it said."""
    return hmac.digest(secret, encoded, "sha256")


def _travelling(change: Change) -> bytes | None:
    """A change as text, or None where it is too large for the log and for events."""
    if len(change.records) > ENCODED:
        return None
    encoded = model.encode_change(change)
    return encoded if len(encoded) <= CUTOFF else None


def _listed(session: str, position: Position, as_of: int, page: bytes | None, publisher: str) -> dict[str, Any]:
    told: dict[str, Any] = {"session": session}
    title = None if page is None else (msgspec.json.decode(page) or {}).get("title")
    if title is not None:
        told["title"] = title
    return told | {
        "epoch": position.epoch,
        "revision": position.revision,
        "asOf": time_text(as_of),
        "publisher": publisher,
    }


def conflict(position: Position | None) -> GatewayError:
    """`base` does not hold; the current position where there is one."""
    where = {} if position is None else {"epoch": position.epoch, "revision": position.revision}
    return GatewayError("conflict", "The base is not the current position; describe again.", **where)
