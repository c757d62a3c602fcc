"""A session this node holds, and what it is made of: the hub's own state of it."""

import anyio

from gateway.core import model
from gateway.core.errors import GatewayError
from gateway.core.order import Steps, finish
from gateway.core.position import Position
from gateway.replica import Replica, Step
from gateway.store import Changed, Renewed, Stored


class Held:
    """A session this node holds.

    While `healing`, events are buffered; a task is at work unless the last attempt failed. `attempt` is set when the
    task at work has ended. `asked` counts who wants what the store says from then on, `served` how many of them a read
    that began later has served; readers wait for `floor` of them: they were told a revision this node has not seen.
    `dirty`: something came that the buffer does not tell, so what is being read is read again. `over`: why the session
    is said to have ended, until the store was asked. `timers`: times at which what is held back will be looked at, each
    earlier than those set before it.
    """

    def __init__(self, replica: Replica, now: float) -> None:
        self.replica = replica
        self.error: GatewayError | None = None
        self.buffer: list[Changed | Renewed] = []
        self.buffered_bytes = 0
        self.healing = True
        self.working = False
        self.attempt = anyio.Event()
        self.asked = self.served = self.floor = 0
        self.dirty = False
        self.over = ""
        self.watched = False
        self.used = now
        self.checked = now
        self.timers: set[float] = set()
        self.write_lock = anyio.Lock()


def load(stored: Stored) -> Steps[model.Snapshot]:
    """The snapshot of what the store keeps."""
    return model.load(stored.position, stored.as_of, stored.parts, stored.records, stored.scores)


def step_of(replica: Replica, position: Position, as_of: int, cause: str, redo: bytes) -> Step:
    change = model.decode_change(redo)
    return Step(finish(model.apply(replica.current, change, position, as_of)), (cause,), change.touched())


def reached(replica: Replica, position: Position) -> bool:
    return replica.position.epoch == position.epoch and replica.position.revision >= position.revision


def unknown_session() -> GatewayError:
    return GatewayError("unknown_session", "There is no such session, or it is not for you.")


def unavailable() -> GatewayError:
    return GatewayError("store_unavailable", "The store is out of reach; ask again.", retryAfterMs=1000)


def unreadable() -> GatewayError:
    return GatewayError("internal", "What is stored of this session cannot be read.")
