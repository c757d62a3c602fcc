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
from anyio.abc import TaskGroup

from gateway.core import model
from gateway.core.errors import GatewayError
from gateway.core.history import Gap, merge
from gateway.core.limits import Limits
from gateway.core.order import Steps, finish
from gateway.core.position import Position
from gateway.core.view import Target
from gateway.metrics import Metrics
from gateway.replica import Replica, Step
from gateway.slices import sliced
from gateway.store import Changed, Ended, Event, Gone, Log, Renewed, Store, Stored

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
LOADS: Final = 5
"""Reads of a session in one attempt to open or heal it; then `store_unavailable`, and the next check tries again."""
TASKS: Final = 16
"""Sessions opened or healed at once: far below the store's links, so that requests find one."""
TICK_S: Final = 0.5
"""Seconds between two sweeps over the sessions: checks due, idle ones closed, the publisher's state told."""


class Held:
    """A session this node holds. `ready` is set while its replica can be asked."""

    def __init__(self, replica: Replica, now: float) -> None:
        self.replica = replica
        self.ready = anyio.Event()
        self.error: GatewayError | None = None
        self.buffer: list[Changed | Renewed] = []
        self.overflowed = False
        self.healing = True  # until it is ready: events are buffered
        self.working = False  # a task opens, heals or checks it
        self.watched = False
        self.used = now
        self.checked = now
        self.write_lock = anyio.Lock()


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

    async def run(self, started: Callable[[], None]) -> None:
        """Until cancelled: the store's links, checks, timers, and the tasks that open and heal."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._sweep)
            tasks.start_soon(self._run_timers)
            await self.store.run(self._on_event, self._on_doubt, started=started)

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def held(self, session: str) -> Held | None:
        """The session, if this node holds it."""
        return self._held.get(session)

    def count(self) -> int:
        """How many sessions this node holds."""
        return len(self._held)

    def ended(self, session: str, reason: str) -> None:
        """A session was ended here: it is not answered any more, before the store's event comes."""
        held = self._held.get(session)
        if held is not None:
            self._end(held, reason)

    # Asking

    async def open(self, session: str) -> Held:
        """The session's replica, current and ready.

        Raises:
            GatewayError: `unknown_session`; `store_unavailable` when it could not be read in `WAIT_S`, or the store has
                been out of reach for longer than `limits.staleReadMs`.
        """
        held = self._held.get(session)
        if held is None:
            held = self._held[session] = Held(Replica(session, self.limits, self.target, self.metrics), self.now())
            self._work(held, self._open)
        held.used = self.now()
        if not held.ready.is_set():
            await self._until_ready(held)
        if held.error is not None:
            raise held.error
        if self.store.reached_ms_ago() > self.limits.stale_read_ms:
            raise unavailable()
        return held

    async def _until_ready(self, held: Held) -> None:
        with anyio.move_on_after(WAIT_S):
            await held.ready.wait()
            return
        # Known, but its newest revision is out of reach: what is known is still the truth of its position.
        if held.replica.snapshot is None or self.store.reached_ms_ago() <= self.limits.lease_ms:
            raise unavailable()

    async def refresh(self, held: Held) -> None:
        """Bring a replica to the store's position now; also tells `digest`.

        Work that is under way may have read before this was called: it is waited for, and the store asked once more.
        """
        if held.healing:
            await self._until_ready(held)
        if held.error is None and not held.healing:
            self._doubt(held)
        await self._until_ready(held)
        if held.error is not None:
            raise held.error

    async def forward(self, held: Held, position: Position) -> None:
        """Return once the replica is at `position` or beyond: who was told a revision is never answered before it."""
        at = held.replica.position
        if at.epoch != position.epoch or at.revision < position.revision:
            await self.refresh(held)

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
            self._doubt(held)  # asked of the store: the event may be of an earlier session of this id
        elif held.healing:
            self._buffer(held, event)
        else:
            self._take(held, event)

    def _buffer(self, held: Held, event: Changed | Renewed) -> None:
        if len(held.buffer) >= BUFFERED:
            held.buffer.clear()
            held.overflowed = True
        held.buffer.append(event)

    def _take(self, held: Held, event: Changed | Renewed) -> None:
        """An event while live: the next revision is applied, an old one is a repeat, anything else a gap."""
        at = held.replica.position
        if event.position.epoch == at.epoch and event.position.revision <= at.revision:
            return
        follows = event.position == Position(at.epoch, at.revision + 1)
        if isinstance(event, Changed) and follows and event.redo is not None:
            self.advance(held, _step(held.replica, event.position, event.as_of, event.cause, event.redo))
            return
        if not follows:
            self.metrics.gaps.labels("missed").inc()
        self._heal_soon(held)
        self._buffer(held, event)

    def _on_doubt(self) -> None:
        self.metrics.resubscribed.inc()
        for held in self._held.values():
            self._doubt(held)

    def _doubt(self, held: Held) -> None:
        if held.replica.snapshot is not None:
            self._heal_soon(held)

    def _heal_soon(self, held: Held) -> None:
        if not held.healing:
            held.healing = True
            held.ready = anyio.Event()
        if not held.working:
            self._work(held, self._heal)

    def _end(self, held: Held, reason: str) -> None:
        """Forget the session; its watchers hear why. Whoever waits for it hears that there is none."""
        if self._held.get(held.replica.session) is held:
            del self._held[held.replica.session]
        held.error = unknown_session()
        held.replica.end(reason)
        held.ready.set()
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
        self._tasks.start_soon(self._guarded, held, work)

    async def _guarded(self, held: Held, work: Callable[[Held], Awaitable[None]]) -> None:
        """One task at a time for a session; what came up meanwhile is healed next, what failed a little later."""
        try:
            async with self._slots:
                await work(held)
        except GatewayError as error:
            held.working = False
            held.buffer.clear()
            held.overflowed = True
            if held.replica.snapshot is None:
                self._drop(held, error)
            else:
                held.checked = self.now() - CHECK_S + RETRY_S
            return
        held.working = False
        if held.healing and held.error is None:
            self._work(held, self._heal)

    def _drop(self, held: Held, error: GatewayError) -> None:
        held.error = error
        held.ready.set()
        if self._held.get(held.replica.session) is held:
            del self._held[held.replica.session]
        self._unwatch(held)

    async def _open(self, held: Held) -> None:
        await self.store.watch(held.replica.session)
        held.watched = True
        for _ in range(LOADS):
            stored = await self.store.read(held.replica.session)
            if isinstance(stored, Gone):
                self._drop(held, unknown_session())
                return
            snapshot = await sliced(load(stored))
            if held.error is not None:  # it ended meanwhile
                self._unwatch(held)
                return
            held.replica.start(snapshot, stored.secret, stored.digest)
            if self._go_live(held):
                return
        raise unavailable()

    def _go_live(self, held: Held) -> bool:
        """Apply what was buffered; False where that leaves a gap."""
        buffered, held.buffer = held.buffer, []
        overflowed, held.overflowed = held.overflowed, False
        try:
            events = merge(held.replica.position, buffered)
        except Gap:
            return False
        if overflowed or any(isinstance(event, Renewed) or event.redo is None for event in events):
            return False
        for event in events:
            assert isinstance(event, Changed)
            assert event.redo is not None
            self.advance(held, _step(held.replica, event.position, event.as_of, event.cause, event.redo))
        held.healing = False
        held.checked = self.now()
        held.ready.set()
        return True

    async def _heal(self, held: Held) -> None:
        """From the log where it reaches back, once for all watchers; else by reading anew."""
        for _ in range(LOADS):
            log = await self.store.log(held.replica.session, held.replica.position)
            if isinstance(log, Gone):
                self._end(held, log.reason)
                return
            if log.entries is None or any(entry.redo is None for entry in log.entries):
                if not await self._reload(held):
                    return
            else:
                self._apply_log(held, log)
            if self._go_live(held):
                return
        raise unavailable()

    def _apply_log(self, held: Held, log: Log) -> None:
        assert log.entries is not None
        for entry in log.entries:
            assert entry.redo is not None
            position = Position(log.position.epoch, entry.revision)
            self.advance(held, _step(held.replica, position, entry.as_of, entry.cause, entry.redo))
        held.replica.digest = log.digest

    async def _reload(self, held: Held) -> bool:
        """Read the session anew. Watchers are told `gap`, but where the log still knows the cause of every revision."""
        old = held.replica.current
        stored = await self.store.read(held.replica.session)
        if isinstance(stored, Gone):
            self._end(held, stored.reason)
            return False
        snapshot = await sliced(load(stored))
        log = await self.store.log(held.replica.session, old.position)
        if isinstance(log, Gone):
            self._end(held, log.reason)
            return False
        causes = (
            None if log.entries is None else [e.cause for e in log.entries if e.revision <= stored.position.revision]
        )
        known = (
            causes is not None
            and stored.position.epoch == old.position.epoch
            and len(causes) == stored.position.revision - old.position.revision
        )
        touched = await sliced(model.differing(old, snapshot))
        step = Step(snapshot, tuple(causes) if known and causes else (), touched)
        if snapshot.position != old.position:
            self.advance(held, step, gap=not known)
        held.replica.secret, held.replica.digest = stored.secret, stored.digest
        return True

    # Timers and sweeps

    def set_timer(self, held: Held) -> None:
        """Something may have been held back: see that it is sent when its time has come."""
        due = held.replica.next_due
        if due is not None:
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
                _, session = heapq.heappop(self._timers)
                held = self._held.get(session)
                if held is not None and held.replica.next_due is not None:
                    held.replica.due(self.now())
                    self.set_timer(held)

    async def _sweep(self) -> None:
        while True:
            await anyio.sleep(TICK_S)
            now, publisher = self.now(), self.publisher()
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
        del self._held[held.replica.session]
        held.error = unavailable()
        self._unwatch(held)

    async def _check(self, held: Held) -> None:
        """Compare positions with the store; a session that did not heal is tried again."""
        if held.healing:
            await self._heal(held)
            return
        # Not under `healing`: events go on being applied while the store is asked.
        position = await self.store.check(held.replica.session)
        if isinstance(position, Gone):
            self._end(held, position.reason)
        elif position != held.replica.position and not held.healing:
            held.healing = True
            held.ready = anyio.Event()
            await self._heal(held)


def load(stored: Stored) -> Steps[model.Snapshot]:
    """The snapshot of what the store keeps."""
    return model.load(stored.position, stored.as_of, stored.parts, stored.records, stored.scores)


def _step(replica: Replica, position: Position, as_of: int, cause: str, redo: bytes) -> Step:
    change = model.decode_change(redo)
    return Step(finish(model.apply(replica.current, change, position, as_of)), (cause,), change.touched())


def unknown_session() -> GatewayError:
    return GatewayError("unknown_session", "There is no such session, or it is not for you.")


def unavailable() -> GatewayError:
    return GatewayError("store_unavailable", "The store is out of reach; ask again.", retryAfterMs=1000)
