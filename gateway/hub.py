"""The sessions this node holds: opened once, kept current, healed when something was lost, closed when nobody needs them.

Order of opening (design §3): buffer, subscribe (confirmed), read, merge by position, go live. Loss is found by position:
at the next change, by a periodic check of every session, and at once when the store's link says it may have missed
something. It is healed from the log, else by reading anew, which watchers are told as `gap`.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from gateway.core import model
from gateway.core.errors import GatewayError
from gateway.core.history import Gap, merge
from gateway.core.limits import Limits
from gateway.core.position import Position
from gateway.core.view import Target
from gateway.frames import Frame
from gateway.held import Held, load, reached, step_of, unavailable, unknown_session, unreadable
from gateway.metrics import Metrics
from gateway.replica import Replica, Step
from gateway.service import Peer
from gateway.slices import SLICE_S, sliced
from gateway.store import Changed, Ended, Event, Gone, Log, Renewed, Store, Stored

log = structlog.get_logger(__name__)

RETRY_S: Final = 1.0
"""Seconds until a session that could not be healed is tried again; the store's own link backs off by itself."""
CHECK_S: Final = 5.0
"""Seconds between two checks of a session's position, jittered by a fifth (design §3)."""
LINGER_S: Final = 30.0
"""Seconds a session nobody watches stays open after its last use: a poller's next request finds it hot."""
WAIT_S: Final = 10.0
"""Seconds a request waits for a session to be opened or healed, then `store_unavailable`."""
BUFFERED: Final = 4_096
"""Events buffered while a session is opened or healed; above that all are dropped and it is read again."""
BUFFERED_BYTES: Final = 8_388_608
"""Bytes of their content, with the same policy: as much as the log keeps by default."""
ROUNDS: Final = 4
"""Times what was buffered meanwhile is applied in slices: it is less each time, unless the node cannot keep up at all."""
LOADS: Final = 5
"""Reads of a session in one attempt to open or heal it; then `store_unavailable`, and the next check tries again."""
TASKS: Final = 16
"""Sessions opened or healed at once: far below the store's links, so that requests find one."""
ATTEMPTS: Final = 3
"""Attempts to open or heal a session that one reader waits for; then it is answered with what is known."""
TICK_S: Final = 0.5
"""Seconds between two sweeps over the sessions: checks due, idle ones closed, the publisher's state told."""


class Hub:
    """Replicas by session. `run` owns every task; all else is called from the loop that runs it."""

    def __init__(self, store: Store, limits: Limits, target: Target, metrics: Metrics, random: Random) -> None:
        self.store = store
        self.limits = limits
        self.target = target
        self.metrics = metrics
        self._random = random
        self._held: dict[str, Held] = {}
        self._tasks: TaskGroup | None = None
        self._slots = anyio.CapacityLimiter(TASKS)
        self._timers: list[tuple[float, str]] = []
        self._timer_set = anyio.Event()
        self._owed: dict[Peer, dict[str, Frame]] = {}

    async def run(self, started: Callable[[], None]) -> None:
        """Until cancelled: the store's links, checks, timers, and the tasks that open and heal."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._sweep_for_ever)
            tasks.start_soon(self._run_timers)
            await self.store.run(self._on_event, self._on_doubt, started=started)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def held(self, session: str) -> Held | None:
        """The session, if this node holds it."""
        return self._held.get(session)

    def every(self) -> list[Held]:
        """All sessions this node holds."""
        return list(self._held.values())

    def ended(self, session: str, reason: str) -> None:
        """A session was ended here: it is not answered any more, before the store's event comes."""
        held = self._held.get(session)
        if held is not None:
            self._end(held, reason)

    def drained(self, peer: Peer) -> None:
        """The peer has room again: it hears which of its sessions ended meanwhile."""
        owed = self._owed.pop(peer, {})
        for session, frame in owed.items():
            self._tell_ended(peer, session, frame)

    def leave(self, peer: Peer) -> None:
        """The connection is closed."""
        self._owed.pop(peer, None)

    # Asking

    async def open(self, session: str) -> Held:
        """The session, its replica as current as this node can make it.

        While the store is out of reach a replica known from before is what is answered (`publisher` says so).

        Raises:
            GatewayError: `unknown_session`; `store_unavailable` when it could not be read in `WAIT_S`, or the store has
                been out of reach for longer than `limits.staleReadMs`.
        """
        held = self._held.get(session)
        if held is None:
            held = self._held[session] = Held(Replica(session, self.limits, self.target, self.metrics), self.now())
            self._work(held, self._open)
        held.used = self.now()
        with anyio.move_on_after(WAIT_S):
            for _ in range(ATTEMPTS):
                if not held.working or not (held.healing or held.served < held.floor):
                    break
                if held.replica.snapshot is not None and self.publisher() == "unknown":
                    break  # nobody knows when the store answers, and the reply says so
                await held.attempt.wait()
        if held.error is not None:
            raise held.error
        if held.replica.snapshot is None or held.served < held.floor:
            raise unavailable()
        if self.store.reached_ms_ago() > self.limits.stale_read_ms:
            raise unavailable()
        return held

    async def refresh(self, held: Held) -> None:
        """Bring a replica to the store's position now, by a read that begins now; also tells `digest`.

        Raises:
            GatewayError: as `open`, but `store_unavailable` whenever the store does not answer.
        """
        held.asked += 1
        ticket = held.asked
        self._doubt(held)
        with anyio.move_on_after(WAIT_S):
            while held.working and held.served < ticket and held.error is None:
                await held.attempt.wait()
        if held.error is not None:
            raise held.error
        if held.served < ticket:
            raise unavailable()

    async def forward(self, held: Held, position: Position) -> None:
        """Return once the replica is at `position` or beyond: who was told a revision is never answered before it."""
        if not reached(held.replica, position):
            await self.refresh(held)

    def noted(self, session: str, position: Position) -> None:
        """A position was told that did not come from the replica: reads wait until the replica has it."""
        held = self._held.get(session)
        if held is not None and not (held.replica.snapshot is not None and reached(held.replica, position)):
            held.asked += 1
            held.floor = held.asked
            self._doubt(held)

    def publisher(self) -> str:
        """`unknown` while the store has not answered for `limits.leaseMs`; else `none`: no session is served yet."""
        return "unknown" if self.store.reached_ms_ago() > self.limits.lease_ms else "none"

    def advance(self, held: Held, step: Step, *, gap: bool = False) -> None:
        """Take a replica forward and tell its watchers."""
        if gap:
            self.metrics.gaps.labels("history").inc()
        held.replica.advance(step, self.now(), gap=gap)
        self.set_timer(held)

    # Events

    def _on_event(self, session: str, event: Event) -> None:
        held = self._held.get(session)
        if held is None:
            return
        if isinstance(event, Ended):
            held.over, held.dirty = event.reason, True
            self._doubt(held)  # asked of the store: the event may be of an earlier session of this id
        elif held.healing:
            self._buffer(held, event)
        else:
            self._take(held, event)

    def _buffer(self, held: Held, event: Changed | Renewed) -> None:
        held.buffered_bytes += len(event.redo or b"") if isinstance(event, Changed) else 0
        if len(held.buffer) >= BUFFERED or held.buffered_bytes > BUFFERED_BYTES:
            held.buffer.clear()
            held.buffered_bytes = 0
            held.dirty = True
        held.buffer.append(event)

    def _take(self, held: Held, event: Changed | Renewed) -> None:
        """An event while live: the next revision is applied, an old one is a repeat, anything else a gap."""
        at = held.replica.position
        if event.position.epoch == at.epoch and event.position.revision <= at.revision:
            return
        follows = event.position == Position(at.epoch, at.revision + 1)
        if isinstance(event, Changed) and follows and event.redo is not None:
            try:
                self.advance(held, step_of(held.replica, event.position, event.as_of, event.cause, event.redo))
                return
            except Exception as error:  # of this session only: the others of this node live on
                log.error("session.event_unreadable", session=held.replica.session, error=type(error).__name__)
        if not follows:
            self.metrics.gaps.labels("missed").inc()
        self._heal_soon(held)
        self._buffer(held, event)

    def _on_doubt(self) -> None:
        self.metrics.resubscribed.inc()
        for held in self._held.values():
            held.dirty = True
            self._doubt(held)

    def _doubt(self, held: Held) -> None:
        if held.replica.snapshot is not None and held.error is None:
            self._heal_soon(held)

    def _heal_soon(self, held: Held) -> None:
        held.healing = True
        if not held.working:
            self._work(held, self._heal)

    def _end(self, held: Held, reason: str) -> None:
        """Forget the session; its watchers hear why. Whoever waits for it hears that there is none."""
        frame, peers = held.replica.end(reason)
        self._drop(held, unknown_session())
        for peer in peers:
            self._tell_ended(peer, held.replica.session, frame)

    def _tell_ended(self, peer: Peer, session: str, frame: Frame) -> None:
        """Now, or when the peer has room: nothing else will ever tell it."""
        if not peer.deliver(frame):
            self._owed.setdefault(peer, {})[session] = frame

    def _drop(self, held: Held, error: GatewayError) -> None:
        held.error = error
        held.attempt.set()
        if self._held.get(held.replica.session) is held:
            del self._held[held.replica.session]
        self._unwatch(held)

    def _unwatch(self, held: Held) -> None:
        if held.watched:
            held.watched = False
            assert self._tasks is not None
            self._tasks.start_soon(self.store.unwatch, held.replica.session)

    # Opening and healing

    def _work(self, held: Held, work: Callable[[Held], Awaitable[None]]) -> None:
        assert self._tasks is not None, "the hub runs before it is asked"
        held.working = True
        held.attempt = anyio.Event()
        self._tasks.start_soon(self._guarded, held, work, held.attempt)

    async def _guarded(self, held: Held, work: Callable[[Held], Awaitable[None]], attempt: anyio.Event) -> None:
        """One task at a time for a session; what came up meanwhile is healed next, what failed a little later."""
        try:
            async with self._slots:
                await work(held)
            held.working = False
            if held.error is None and (held.healing or held.served < held.asked):
                self._heal_soon(held)
        except GatewayError as error:
            self._failed(held, error)
        except Exception as error:  # stored by another hand, or a bug: of this session only
            log.error("session.unreadable", session=held.replica.session, error=type(error).__name__)
            self._end(held, "lost")
            held.error = unreadable()
        finally:
            held.working = held.working and held.attempt is not attempt
            attempt.set()

    def _failed(self, held: Held, error: GatewayError) -> None:
        held.working = False
        held.buffer.clear()
        held.buffered_bytes = 0
        if held.replica.snapshot is None:
            self._drop(held, error)
        else:
            held.checked = self.now() - CHECK_S + RETRY_S

    async def _open(self, held: Held) -> None:
        session = held.replica.session
        await self.store.watch(session)
        held.watched = True
        for _ in range(LOADS):
            asking, held.dirty = held.asked, False
            stored = await self.store.read(session)
            if isinstance(stored, Gone):
                if held.asked == asking:
                    self._drop(held, unknown_session())
                    return
                continue
            if not await self._whole(session, stored):
                self._drop(held, unknown_session())
                return
            snapshot = await sliced(load(stored))
            if held.error is not None:  # it ended meanwhile
                self._unwatch(held)
                return
            held.replica.start(snapshot, stored.secret, stored.digest)
            if await self._go_live(held, asking):
                return
        raise unavailable()

    async def _whole(self, session: str, stored: Stored) -> bool:
        """Whether every part is there. Nothing true can be told of a session that misses one: it is ended."""
        missing = model.PARTS.keys() - stored.parts.keys()
        if missing:
            log.error("session.incomplete", session=session, parts=sorted(missing))
            await self.store.end(session, None)
        return not missing

    async def _go_live(self, held: Held, asking: int) -> bool:
        """Apply what was buffered, and what comes meanwhile; False where that leaves a gap.

        The loop has its turns in between, but for the last of `ROUNDS`: events may come faster than they are told.
        """
        rounds = 0
        while rounds == 0 or held.buffer or held.dirty:
            rounds += 1
            buffered, held.buffer, held.buffered_bytes = held.buffer, [], 0
            try:
                events = merge(held.replica.position, buffered)
            except Gap:
                return False
            if held.dirty or any(isinstance(event, Renewed) or event.redo is None for event in events):
                return False
            start = self.now()
            for event in events:
                assert isinstance(event, Changed)
                assert event.redo is not None
                self.advance(held, step_of(held.replica, event.position, event.as_of, event.cause, event.redo))
                if rounds < ROUNDS and self.now() - start > SLICE_S:
                    await checkpoint()
                    if held.error is not None:  # it ended meanwhile
                        return True
                    start = self.now()
        held.healing = False
        held.served = asking
        held.checked = self.now()
        return True

    async def _heal(self, held: Held) -> None:
        """From the log as far as it reaches, once for all watchers; else by reading anew."""
        for _ in range(LOADS):
            asking, held.dirty = held.asked, False
            kept = await self.store.log(held.replica.session, held.replica.position)
            if held.error is not None:  # it ended meanwhile
                return
            if isinstance(kept, Gone):
                self._end(held, kept.reason)
                return
            if held.over and kept.position.epoch != held.replica.position.epoch:
                self._end(held, held.over)  # and was created again
                return
            if not held.dirty:
                held.over = ""
            if not await self._follow(held, kept) and not await self._reload(held):
                return
            if await self._go_live(held, asking):
                return
        raise unavailable()

    async def _follow(self, held: Held, kept: Log) -> bool:
        """Apply the entries of the log; False where one is too large for it, or the log does not reach back."""
        start = self.now()
        for entry in kept.entries or ():
            if entry.redo is None:
                return False
            position = Position(kept.position.epoch, entry.revision)
            self.advance(held, step_of(held.replica, position, entry.as_of, entry.cause, entry.redo))
            if self.now() - start > SLICE_S:
                await checkpoint()
                start = self.now()
        if kept.entries is None:
            return False
        held.replica.digest = kept.digest
        return True

    async def _reload(self, held: Held) -> bool:
        """Read the session anew. Watchers are told `gap`, but for one revision whose cause the log knows."""
        old, session = held.replica.current, held.replica.session
        stored = await self.store.read(session)
        if isinstance(stored, Gone) or not await self._whole(session, stored):
            self._end(held, stored.reason if isinstance(stored, Gone) else "lost")
            return False
        snapshot = await sliced(load(stored))
        kept = await self.store.log(session, old.position)
        if isinstance(kept, Gone):
            self._end(held, kept.reason)
            return False
        touched = await sliced(model.differing(old, snapshot))
        if held.error is not None:
            return False
        epoch, revision = old.position
        if snapshot.position != old.position:
            # What came and went within several revisions nobody can tell: only one is known without its change.
            known = kept.entries if snapshot.position == Position(epoch, revision + 1) else None
            self.advance(held, Step(snapshot, (known[0].cause,) if known else (), touched), gap=not known)
        held.replica.secret, held.replica.digest = stored.secret, stored.digest
        return True

    # Timers and sweeps

    def set_timer(self, held: Held) -> None:
        """Something may have been held back: see that it is sent when its time has come."""
        due = held.replica.next_due
        if due is not None and not any(at <= due for at in held.timers):
            held.timers.add(due)
            heapq.heappush(self._timers, (due, held.replica.session))
            self._timer_set.set()

    async def _run_timers(self) -> None:
        """Send what paced and pushed views hold back, when its time has come."""
        while True:
            wait = self._timers[0][0] - self.now() if self._timers else None
            self._timer_set = anyio.Event()
            if wait is None or wait > 0:
                with anyio.move_on_after(wait):
                    await self._timer_set.wait()
            while self._timers and self._timers[0][0] <= self.now():
                at, session = heapq.heappop(self._timers)
                held = self._held.get(session)
                if held is not None and at in held.timers:  # else it was set for an earlier session of this id
                    held.timers.discard(at)
                    held.replica.due(self.now())
                    self.set_timer(held)

    async def _sweep_for_ever(self) -> None:
        while True:
            await anyio.sleep(TICK_S)
            self.sweep(self.now())

    def sweep(self, now: float) -> None:
        """Start the checks that are due at `now`, close who is idle, tell the publisher's state."""
        publisher = self.publisher()
        for held in list(self._held.values()):
            if held.replica.snapshot is None:
                continue
            held.replica.tell_publisher(publisher)
            if not held.replica.views and now - held.used > LINGER_S and not held.write_lock.locked():
                self._close(held)
            elif now - held.checked > CHECK_S * self._random.uniform(0.8, 1.0):
                held.checked = now
                if not held.working:
                    self._work(held, self._check)

    def _close(self, held: Held) -> None:
        self._drop(held, unavailable())

    async def _check(self, held: Held) -> None:
        """Compare positions with the store; a session that did not heal is tried again."""
        if held.healing:
            await self._heal(held)
            return
        # Not under `healing`: events go on being applied while the store is asked.
        position = await self.store.check(held.replica.session)
        if isinstance(position, Gone):
            self._end(held, position.reason)
        elif position != held.replica.position:
            held.healing = True
            await self._heal(held)
