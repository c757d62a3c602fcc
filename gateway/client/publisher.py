"""For who owns a session: say how things stand; what is sent is the smallest message that says it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

import anyio
import msgspec

from gateway.client.calls import Base, wire_base
from gateway.client.difference import difference
from gateway.client.errors import ConnectionLost, may_pass
from gateway.client.results import Published, published
from gateway.core.errors import GatewayError
from gateway.core.position import Position

if TYPE_CHECKING:
    from gateway.client.calls import Client

OnConflict: TypeAlias = Literal["stop", "overwrite"]

CONFLICTS_MAX: Final = 5  # in a row; then two publishers are at it, and one of them must be told

CAUSES: Final = (
    *("navigation", "modal", "filter", "sort", "pagination", "scope", "availability"),
    *("action", "data"),
)
"""Of §6; the stronger first. The first seven require watchers to subscribe again (§6.3)."""
REQUIRED: Final = frozenset(CAUSES[:7])


class _Message(msgspec.Struct, frozen=True):
    """A request as it is sent, and sent again as long as its answer is not known."""

    method: str
    params: dict[str, Any]
    base: Base
    state: dict[str, Any]  # what the session is once it was accepted
    number: int  # of the offer it carries
    cause: Mapping[str, Any] | None


class Publisher:
    """Keeps a session as the application says it is.

    `update` (or `offer` and, whenever it suits, `flush`) takes whole snapshots. One request is in flight; of the snapshots
    offered meanwhile only the newest is sent: as a patch where there is one and it is shorter, else whole. A request whose
    answer was lost with its connection, or to a cancellation, is sent again as it was, which is safe (§6.2), before anything
    newer. While the gateway or its store is away, `flush` waits.

    When the session went, or a new epoch began and nobody wrote in it (a restart of the store, §6.2), the snapshot is
    published anew. When somebody else wrote, `on_conflict` decides: "stop" raises the `conflict`, and goes on doing so
    until `overwrite` is called; "overwrite" publishes whole over the position that the conflict told.

    Attributes:
        last: what became of the last accepted message; None before.
    """

    def __init__(
        self,
        client: "Client",
        session: str,
        *,
        base: Base = None,
        on_conflict: OnConflict = "stop",
        ttl_ms: int | None = None,
    ) -> None:
        """`base`: what the first publish replaces; None: there must be no session. `ttl_ms`: of each publish."""
        self.last: Published | None = None
        self._client = client
        self._session = session
        self._base = base
        self._on_conflict = on_conflict
        self._ttl_ms = ttl_ms
        self._known: dict[str, Any] | None = None  # what the session is at `_base`; None: publish whole
        self._text = b"{}"  # of the newest snapshot offered
        self._cause: Mapping[str, Any] | None = None
        self._offered = self._settled = self._accepted = 0  # numbers of offers
        self._refusal: GatewayError | None = None
        self._unanswered: _Message | None = None
        self._conflicts = 0
        self._back_off = client.back_off()
        self._sending = anyio.Lock()
        self._news = anyio.Event()

    @property
    def position(self) -> Position | None:
        """Where the session stood when the last message was accepted."""
        return self.last.position if self.last else None

    def offer(self, snapshot: Mapping[str, Any], *, cause: Mapping[str, Any] | None = None) -> None:
        """How things stand now; nothing is sent yet. The snapshot may be changed afterwards: its text is taken here.

        Of offers that are sent as one, the cause of the strongest kind is told.

        Raises:
            TypeError, UnicodeEncodeError: it is no JSON.
        """
        self._text = msgspec.json.encode(snapshot)
        self._cause = stronger(self._cause, cause)
        self._offered += 1
        self._news.set()

    async def update(self, snapshot: Mapping[str, Any], *, cause: Mapping[str, Any] | None = None) -> Published:
        """Offer and flush."""
        self.offer(snapshot, cause=cause)
        told = await self.flush()
        assert told is not None
        return told

    async def flush(self) -> Published | None:
        """Return once what was offered before, or something newer, is accepted; None if nothing ever was offered.

        Raises:
            GatewayError: it was refused, by a `conflict` among others. The session is as it was; the next offer goes on.
            ConnectionLost: coming back would not help.
        """
        wanted = self._offered
        async with self._sending:
            while self._settled < wanted or self._unanswered is not None:
                await self._send()
            if self._accepted < wanted and self._refusal is not None:
                raise self._refusal
        return self.last

    async def run(self) -> NoReturn:
        """Flush whenever something was offered, for good. Raises as `flush`."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self.flush()

    def overwrite(self, base: Position | Literal["any"] = "any") -> None:
        """After a `conflict`: the next offer goes whole over `base`, knowingly."""
        self._known, self._base, self._unanswered = None, base, None

    async def _send(self) -> None:
        """One request; afterwards something is settled, or the next one will be another or has waited."""
        message = self._unanswered or self._next()
        if message is None:
            return
        self._unanswered = message
        try:
            result = await self._client.request(message.method, message.params)
        except ConnectionLost:
            if self._client.ended:
                raise
        except GatewayError as refused:
            await self._refused(message, refused)
        else:
            self._unanswered = None
            self._conflicts = 0
            self._back_off.succeeded()
            self.last = published(result)
            self._known, self._base = message.state, self.last.position
            self._settled = self._accepted = message.number

    def _next(self) -> _Message | None:
        """What says the newest snapshot; None, and settled, where the gateway knows it."""
        state = msgspec.json.decode(self._text)
        cause, self._cause = self._cause, None
        params: dict[str, Any] = {"session": self._session}
        rest = {"base": wire_base(self._base)} | ({"cause": cause} if cause else {})
        change = difference(self._known, state) if self._known is not None else None
        if change == {} and not (cause and cause.get("kind") in REQUIRED):
            self._settled = self._accepted = self._offered
            return None
        if change is not None and len(text := msgspec.json.encode(change)) < len(self._text):
            method, params = "patch", params | {"change": msgspec.Raw(text)} | rest
        else:
            method, params = "publish", params | {"snapshot": msgspec.Raw(self._text)} | rest
            if self._ttl_ms is not None:
                params["ttlMs"] = self._ttl_ms
        return _Message(method, params, self._base, state, self._offered, cause)

    async def _refused(self, message: _Message, refused: GatewayError) -> None:
        if may_pass(refused):
            await self._wait(refused)  # and then the same again
            return
        self._unanswered = None
        if refused.kind == "unknown_session" and message.method == "patch":
            self._anew(message, None)
        elif refused.kind == "conflict" and self._goes_on(message, refused):
            self._anew(message, told_position(refused))
            if self._conflicts > 1:
                await self._wait(refused)
        elif message.method == "patch" and refused.kind not in ("conflict", "internal"):
            self._anew(message, message.base)  # a patch of ours may be at fault; the snapshot itself is judged next
        else:
            self._settled, self._refusal = message.number, refused

    def _goes_on(self, message: _Message, conflict: GatewayError) -> bool:
        """Whether to publish whole over what a conflict told."""
        self._conflicts += 1
        if self._conflicts > CONFLICTS_MAX:
            self._conflicts = 0
            return False
        told = told_position(conflict)
        if isinstance(message.base, Position):
            if told is None:
                return True
            if told.epoch != message.base.epoch and told.revision == 1:
                return True
        return self._on_conflict == "overwrite"

    def _anew(self, message: _Message, base: Base) -> None:
        self._known, self._base = None, base
        self._cause = stronger(message.cause, self._cause)

    async def _wait(self, refused: GatewayError) -> None:
        wait_s = self._back_off.wait_s(refused.data.get("retryAfterMs", 0) / 1000)
        if self._client.told:
            self._client.told(refused, wait_s)
        await self._client.sleep(wait_s)


def told_position(conflict: GatewayError) -> Position | None:
    """The current position, where there is a session."""
    told = conflict.data
    return Position(told["epoch"], told["revision"]) if "epoch" in told else None


def stronger(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Of two causes that are told as one: the one whose kind stands first in `CAUSES`; the newer of equals."""
    if one is None or other is None:
        return other or one

    def place(cause: Mapping[str, Any]) -> int:
        # What is no kind is the gateway's to refuse, not ours to hide.
        return CAUSES.index(cause["kind"]) if cause.get("kind") in CAUSES else -1

    return one if place(one) < place(other) else other
