"""The store over scripts: every operation on a session is one script on that session's keys."""

import contextlib
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel

from gateway.core.errors import GatewayError
from gateway.core.limits import Limits
from gateway.core.position import Position
from gateway.store import Commit, Committed, Doubt, Entry, Gone, Listener, Listing, Log, Moved, Stored
from gateway.store.keys import SESSIONS, keys_of
from gateway.store.redis import Links, Reply
from gateway.store.scripts import CHECK, COMMIT, END, LOG, READ, SLICE, Argument, Call, Command, Script, new_epoch
from gateway.store.subscriber import ECHO_S, SILENCE_S, Subscriber

WHOLE_RECORDS: Final = 1_000  # a session of so many records comes in one script call
SLICE_RECORDS: Final = 500  # of a larger one, about so many at a time: 1–2 ms of the store, under 1 ms of the loop
SLICED_READS: Final = 4  # a session that moves during so many sliced reads is then read in one piece
DECODED_AT_ONCE: Final = 5_000  # records put into dicts before the loop gets its turn: about 2 ms
ARGUMENTS_AT_ONCE: Final = 5_000  # likewise when a commit's arguments are gathered
SWEEP_IDS: Final = 100  # sessions looked at by the node's sweep every SWEEP_S
SWEEP_S: Final = 5.0
REPAIRED_PAGES: Final = 20  # pages of dead ids one listing removes before it answers with what it has


class ScriptedStore:
    """A `Store` on one Redis or Valkey; see `gateway.store.Store` for what each call gives.

    A read holds the store for one slice at a time. Only a session of more than `WHOLE_RECORDS` records that moves
    during `SLICED_READS` reads is read in one transaction, which holds the store for about 1 µs a record.
    """

    def __init__(self, links: Links, limits: Limits) -> None:
        self._links = links
        self._limits = limits
        self._subscriber = Subscriber(links)

    async def commit(self, session: str, commit: Commit) -> Committed | Moved:
        """One script. A new session enters the list of sessions afterwards; `check` mends that should it fail."""
        reply = await self._script(COMMIT, session, await self._commit_args(session, commit))
        if reply[0] == b"moved":
            return _moved(reply)
        position = Position(reply[1].decode(), int(reply[2]))
        if commit.base is None:
            await self._mend([Command(("ZADD", SESSIONS, 0, session))])
        return Committed(position, int(reply[3]), reply[0] == b"repeated")

    async def end(self, session: str, base: Position | None) -> Position | Moved:
        """One script; then the session leaves the list."""
        epoch, revision = base or ("", 0)
        reply = await self._script(END, session, [epoch, revision, secrets.token_bytes(16)])
        if reply[0] == b"moved":
            return _moved(reply)
        await self._mend([Command(("ZREM", SESSIONS, session))])
        return Position(reply[1].decode(), int(reply[2]))

    async def read(self, session: str) -> Stored | Gone:
        """One script call up to `WHOLE_RECORDS` records, else slices that are begun anew when the session moves."""
        for _ in range(SLICED_READS):
            reply = await self._script(READ, session, [WHOLE_RECORDS])
            if reply[0] == b"gone":
                return Gone(reply[1].decode())
            if int(reply[5]) <= WHOLE_RECORDS:
                return await _stored(reply, reply[6], reply[7])
            stored = await self._read_sliced(session, reply)
            if stored is not None:
                return stored
        keys = keys_of(session)
        reply, records, order = await self._links.run(
            [
                Call(READ, keys, [new_epoch(), -1]),
                Command(("HGETALL", keys[1])),
                Command(("ZRANGE", keys[2], 0, -1, "WITHSCORES")),
            ],
            atomic=True,
        )
        if reply[0] == b"gone":
            return Gone(reply[1].decode())
        return await _stored(reply, records, order)

    async def log(self, session: str, since: Position) -> Log | Gone:
        """One script; the reply is bounded by `historyBytes`."""
        reply = await self._script(LOG, session, [since.epoch, since.revision])
        if reply[0] == b"gone":
            return Gone(reply[1].decode())
        position = Position(reply[1].decode(), int(reply[2]))
        entries = [_entry(name, fields) for name, fields in reply[6]] if reply[5] == b"1" else None
        return Log(position, int(reply[3]), entries, reply[4])

    async def check(self, session: str, ttl_ms: int | None = None) -> Position | Gone:
        """One script; the list of sessions is mended where it says otherwise."""
        replies = await self._links.run(
            [_check(session, page=False, ttl_ms=ttl_ms), Command(("ZSCORE", SESSIONS, session))]
        )
        reply, listed = replies[0], replies[1] is not None
        if reply[0] == b"gone":
            if listed:
                await self._leave([session])
            return Gone(reply[1].decode())
        if not listed:
            await self._mend([Command(("ZADD", SESSIONS, 0, session))])
        return Position(reply[1].decode(), int(reply[2]))

    async def sessions(self, prefix: str, after: str | None, limit: int) -> Listing:
        """Ids are looked at one by one, so a page is never of sessions that are over; such ids leave the list here."""
        first = b"[" + prefix.encode() if prefix else b"-"
        last = b"(" + prefix.encode() + b"\xff" if prefix else b"+"  # no UTF-8 text holds the byte 0xff
        start = b"(" + after.encode() if after is not None and after >= prefix else first
        found: list[tuple[str, Position, int, bytes | None]] = []
        seen: str | None = None
        for _ in range(REPAIRED_PAGES):
            wanted = limit + 1 - len(found)
            ids = await self._one(Command(("ZRANGEBYLEX", SESSIONS, start, last, "LIMIT", 0, wanted)))
            names = [name.decode() for name in ids]
            replies = await self._links.run([_check(name, page=True) for name in names]) if names else []
            dead = []
            for name, reply in zip(names, replies, strict=True):
                if reply[0] == b"gone":
                    dead.append(name)
                else:
                    found.append((name, Position(reply[1].decode(), int(reply[2])), int(reply[3]), reply[4]))
            if dead:
                await self._leave(dead)
            seen = found[limit - 1][0] if len(found) > limit else None
            if seen is not None or len(names) < wanted:
                break
            seen, start = names[-1], b"(" + ids[-1]
        total: int = await self._one(Command(("ZLEXCOUNT", SESSIONS, first, last)))
        return Listing(found[:limit], seen, total)

    async def watch(self, session: str) -> None:
        """Return once events of the session are being delivered; `run` must be running."""
        await self._subscriber.watch(session)

    async def unwatch(self, session: str) -> None:
        """Undo one `watch`. Nothing is waited for."""
        self._subscriber.unwatch(session)

    def reached_ms_ago(self) -> int:
        """Milliseconds since a command was answered or a message came."""
        return int((time.monotonic() - max(self._links.answered_at, self._subscriber.heard_at)) * 1000)

    def ready(self) -> bool:
        """Whether the last exchange succeeded, and the last probe came back on a link that has not been silent since."""
        quiet = time.monotonic() - self._subscriber.heard_at
        return self._links.well and self._subscriber.confirmed() and quiet < 2 * (SILENCE_S + ECHO_S)

    def links_replaced(self) -> int:
        """How often the subscription link was lost so far."""
        return self._subscriber.replaced

    async def run(self, listener: Listener, doubt: Doubt, *, started: Callable[[], Awaitable[None] | None]) -> None:
        """Own the subscription link and the sweep. `started` is called at once, whether or not the store is in reach."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._subscriber.run, listener, doubt)
            tasks.start_soon(self._sweep)
            waiting = started()
            if waiting is not None:
                await waiting

    async def close(self) -> None:
        """Close the links. End `run` first."""
        await self._links.close()

    async def _sweep(self) -> None:
        """Walk the list of sessions, slowly and for ever: what expired leaves although nobody asks for it."""
        after: str | None = None
        while True:
            await anyio.sleep(SWEEP_S * random.uniform(0.5, 1.5))
            try:
                after = (await self.sessions("", after, SWEEP_IDS)).next
            except GatewayError:
                continue

    async def _read_sliced(self, session: str, head: Reply) -> Stored | None:
        """The session in slices; None when it moved meanwhile or is gone."""
        records: dict[str, bytes] = {}
        scores: dict[str, int] = {}
        cursor = b"0"
        while True:
            reply = await self._script(SLICE, session, [cursor, SLICE_RECORDS])
            if reply[0] == b"gone" or reply[1:3] != head[1:3]:
                return None
            cursor, found, places = reply[3:6]
            ids = [name.decode() for name in found[::2]]
            records.update(zip(ids, found[1::2], strict=True))
            scores.update(zip(ids, map(_score, places), strict=True))
            if cursor == b"0":
                return _with_meta(head, records, scores)
            await anyio.lowlevel.checkpoint()

    async def _leave(self, dead: list[str]) -> None:
        """Take ids off the list, and put back what was created again meanwhile."""
        try:
            replies = await self._links.run(
                [Command(("ZREM", SESSIONS, *dead)), *(_check(name, page=False) for name in dead)]
            )
        except GatewayError:
            return
        alive = [name for name, reply in zip(dead, replies[1:], strict=True) if reply[0] == b"here"]
        if alive:
            await self._mend([Command(("ZADD", SESSIONS, 0, name)) for name in alive])

    async def _mend(self, commands: list[Command]) -> None:
        """Write to the list of sessions; a failure is healed by the next `check` or listing."""
        with contextlib.suppress(GatewayError):
            await self._links.run(commands)

    async def _script(self, script: Script, session: str, args: list[Argument]) -> Reply:
        return await self._one(Call(script, keys_of(session), [new_epoch(), *args]))

    async def _one(self, call: Call | Command) -> Reply:
        return (await self._links.run([call]))[0]

    async def _commit_args(self, session: str, commit: Commit) -> list[Argument]:
        base = commit.base or ("", 0)
        put_parts = [(f"p:{name}", part) for name, part in commit.parts.items() if part is not None]
        drop_parts = [f"p:{name}" for name, part in commit.parts.items() if part is None]
        limits = self._limits
        args: list[Argument] = [base[0], base[1], commit.digest, session, commit.secret]
        args += ["" if commit.ttl_ms is None else commit.ttl_ms, limits.session_ttl_ms, commit.cause]
        args += ["0", b""] if commit.redo is None else ["1", commit.redo]
        args += ["0", b""] if commit.undo is None else ["1", commit.undo]
        args += [limits.history_revisions, limits.history_ms, limits.history_bytes]
        args += [len(put_parts), len(drop_parts), len(commit.put), len(commit.drop), len(commit.scores)]
        for pair in put_parts:
            args += pair
        args += drop_parts
        for start, pair in enumerate(commit.put.items()):
            args += pair
            if start % ARGUMENTS_AT_ONCE == ARGUMENTS_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
        args += commit.drop
        for start, (name, score) in enumerate(commit.scores.items()):
            args += (score, name)
            if start % ARGUMENTS_AT_ONCE == ARGUMENTS_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
        return args


def _check(session: str, *, page: bool, ttl_ms: int | None = None) -> Call:
    return Call(CHECK, keys_of(session), [new_epoch(), "1" if page else "0", "" if ttl_ms is None else ttl_ms])


def _moved(reply: Reply) -> Moved:
    return Moved(Position(reply[1].decode(), int(reply[2])) if len(reply) > 1 else None)


def _entry(name: bytes, flat: list[bytes]) -> Entry:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    revision = int(name.split(b"-")[0])
    return Entry(revision, int(fields[b"a"]), fields[b"c"].decode(), fields.get(b"r"), fields.get(b"u"))


def _score(text: bytes) -> int:
    return int(float(text))  # the store may write 1e+15; whole numbers up to 2⁵³ are exact


async def _stored(head: Reply, records: list[bytes], order: list[bytes]) -> Stored:
    """`head` is an answer of `read`; `records` and `order` are flat pairs."""
    kept: dict[str, bytes] = {}
    scores: dict[str, int] = {}
    for start in range(0, len(records), DECODED_AT_ONCE * 2):
        names, values = (records[start + i : start + DECODED_AT_ONCE * 2 : 2] for i in (0, 1))
        kept.update(zip([name.decode() for name in names], values, strict=True))
        await anyio.lowlevel.checkpoint()
    for start in range(0, len(order), DECODED_AT_ONCE * 2):
        names, places = (order[start + i : start + DECODED_AT_ONCE * 2 : 2] for i in (0, 1))
        scores.update(zip([name.decode() for name in names], map(_score, places), strict=True))
        await anyio.lowlevel.checkpoint()
    return _with_meta(head, kept, scores)


def _with_meta(head: Reply, records: dict[str, bytes], scores: dict[str, int]) -> Stored:
    meta: dict[bytes, bytes] = dict(zip(head[4][::2], head[4][1::2], strict=True))
    return Stored(
        position=Position(head[1].decode(), int(head[2])),
        as_of=int(head[3]),
        secret=meta[b"secret"],
        digest=meta[b"digest"],
        ttl_ms=int(meta[b"ttl"]),
        parts={name[2:].decode(): part for name, part in meta.items() if name.startswith(b"p:")},
        records=records,
        scores=scores,
    )
