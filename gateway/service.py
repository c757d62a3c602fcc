"""The seam between one connection (`connection.py`) and everything behind it (`sessions.py`, `hub.py`)."""

from typing import Protocol

from gateway.core.params import Closed
from gateway.frames import Frame


class Peer(Protocol):
    """One connection, as the hub sees it.

    `name`: the connection's id, told in `hello`. `views`: the views this connection has subscribed, id → session; the
    service alone writes it.
    """

    name: str
    views: dict[str, str]

    def deliver(self, frame: Frame) -> bool:
        """Write a shared frame now, in order, without blocking.

        False, and nothing is written, when the outbox would pass `limits.outboxBytes`: the view turns `behind` and
        the connection calls `Service.drained` once its outbox is below half of that again. True on a closing
        connection too (the frame goes nowhere).
        """
        ...


class Service(Protocol):
    """Answers requests. A `GatewayError` is a refusal, anything else a bug."""

    async def call(self, peer: Peer, method: str, params: Closed) -> bytes:
        """The JSON text of `result` of any method but `hello` and `ping`.

        The caller writes the reply without giving way to the loop once this returns: a frame of a view that
        `subscribe` named may leave in the very next step.
        """
        ...

    def drained(self, peer: Peer) -> None:
        """The peer's outbox has room again: tell its views that were behind."""
        ...

    def leave(self, peer: Peer) -> None:
        """The connection is closed; idempotent."""
        ...
