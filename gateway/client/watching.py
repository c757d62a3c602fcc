"""A view followed for good: its replica, its position, and what came, item by item."""

import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from gateway.client.connection import CLOSE_S, Connection, Feed, Notification
from gateway.client.errors import FAILURES, ConnectionLost, may_pass
from gateway.client.replica import Unfit
from gateway.client.results import After, Described, DescribeResponse, Ended, Event, Goodbye, Invalidated
from gateway.core.errors import GatewayError
from gateway.core.position import Position

if TYPE_CHECKING:
    from gateway.client.calls import Client

PLACE = ("view", "epoch", "revision")


def place_of(since: DescribeResponse | Mapping[str, Any]) -> dict[str, Any]:
    """`{view, epoch, revision}` as `since` takes it."""
    told = since.raw if isinstance(since, DescribeResponse) else since
    return {name: told[name] for name in PLACE}


class Subscription:
    """One view and all that is told of it; an async iterator of `Described`, `After`, `Invalidated`, `Ended`, `Goodbye`.

    It begins with a `Described` (or with what came since a position). A required reason, an `after` of another base or
    `ended` is followed by a new subscription, and so by a `Described`; a lost connection is opened again and resumed at the
    position of the last item taken. No item comes twice; where some are missing, an `Invalidated` says so before the next
    `Described`. Cancelling the wait for an item loses nothing: ask again.

    Attributes:
        now: the replica, with the last item handed out; None before the first describe and of a session that ended.
        since: `{view, epoch, revision}` of the last item taken: it moves when the next one is asked for. None: from anew.

    `async for` raises `ConnectionLost` where coming back would not help, and `GatewayError` where the first `subscribe` is
    refused, or a later one for a reason that will last (`unknown_session` will not: the session is awaited).
    """

    def __init__(
        self, client: "Client", params: dict[str, Any], since: DescribeResponse | Mapping[str, Any] | None
    ) -> None:
        self.now = since if isinstance(since, DescribeResponse) else None
        self.since: dict[str, Any] | None = place_of(since) if since else None
        self._client = client
        self._params = params
        self._pushed = params.get("deliver") == "push"
        self._back_off = client.back_off()
        self._wait_s = 0.0
        self._begun = False
        self._connection: Connection | None = None  # on which the view was subscribed last
        self._renew = True  # subscribe, then go on
        self._feed = Feed(params["session"])
        self._ready: deque[Event] = deque()  # what a subscribe reply stands for: at most three
        self._taken: Event | None = None

    @property
    def position(self) -> Position | None:
        """Where the last item taken stands."""
        return Position(self.since["epoch"], self.since["revision"]) if self.since else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        self._settle()
        while True:
            # From here to the return nothing is awaited, so no item is lost to a cancellation.
            if self._ready:
                return self._hand_out(self._ready.popleft())
            if self._renew or self._connection is None:
                await self._subscribe()
            elif (note := await self._next(self._connection)) and (event := self._judge(note)):
                return self._hand_out(event)

    async def _next(self, connection: Connection) -> Notification | None:
        try:
            return await connection.next_of(self._feed)
        except ConnectionLost as why:
            self._connection = None
            self._client.lost(connection, why)
            return None

    def _judge(self, note: Notification) -> Event | None:
        """The event a notification is, if it is one to tell; where the view must be subscribed again, it is marked so."""
        params = note.params
        match note.method:
            case "after":
                try:
                    return self._after(params)
                except Unfit:
                    self._renew = True
                    return None
            case "described":
                return Described(params)
            case "invalidated":
                told = Invalidated(params)
                if told.required and (not self._pushed or self._feed.overran):
                    self._renew = True
                return told
            case "ended":
                self._renew = True
                self._wait_s = self._back_off.wait_s()
                return Ended(params)
            case "goodbye":
                return Goodbye(params)
        return None

    def _after(self, params: dict[str, Any], publisher: str | None = None) -> After:
        """An `after` that leads on from the position taken, with the replica it makes."""
        if self.since is None or (params["epoch"], params["base"]) != (self.since["epoch"], self.since["revision"]):
            raise Unfit
        return After(params, self.now.after(params, publisher) if self.now else None)

    def _hand_out(self, event: Event) -> Event:
        """The replica moves with the item, the position behind it."""
        self._taken = event
        match event:
            case Described() | After():
                self.now = event.now
            case Invalidated() if event.publisher and self.now:
                self.now = DescribeResponse(self.now.raw | {"publisher": event.publisher})
            case Ended():
                self.now = None
        return event

    def _settle(self) -> None:
        """The consumer has taken the last item: the view stands there now."""
        event, self._taken = self._taken, None
        match event:
            case Described() | After():
                self.since = {name: event.params[name] for name in PLACE}
            case Ended():
                self.since = None
            case Invalidated() if event.required:
                self.since = None

    async def _subscribe(self) -> None:
        """Subscribe, from the position where there is one; what the reply stands for is ready then."""
        if self._wait_s:
            await self._client.sleep(self._wait_s)
            self._wait_s = 0.0
        connection = await self._client.connection()
        params = self._params | ({"since": self.since} if self.since else {})
        try:
            reply = await connection.request("subscribe", params, feed=self._feed)
        except ConnectionLost as why:
            self._client.lost(connection, why)
        except GatewayError as refused:
            if not self._begun or not (refused.kind == "unknown_session" or may_pass(refused)):
                raise
            self._wait_s = self._back_off.wait_s(refused.data.get("retryAfterMs", 0) / 1000)
            if self._client.told:
                self._client.told(refused, self._wait_s)
        else:
            self._begun = True
            self._back_off.succeeded()
            self._connection, self._renew = connection, False
            self._begin(reply)

    def _begin(self, reply: dict[str, Any]) -> None:
        """The reply as the events it stands for."""
        place = {"session": self._params["session"]} | {name: reply[name] for name in PLACE}
        if not reply["recovered"]:
            if reply.get("reasons"):
                self._ready.append(Invalidated(place | {"reasons": reply["reasons"]}))
            self._ready.append(Described(reply["describe"]))
            return
        publisher = reply.get("publisher")
        if "after" in reply:
            try:
                self._ready.append(self._after(reply["after"], publisher))
            except Unfit:
                self.since, self._renew = None, True
                reasons = [{"kind": "gap", "required": True}]  # a fault of the gateway's; it is told all the same
                self._ready.append(Invalidated(place | {"reasons": reasons}))
        elif publisher and self.now and self.now.publisher != publisher:
            reasons = [{"kind": "publisher", "required": False, "publisher": publisher}]
            self._ready.append(Invalidated(place | {"reasons": reasons}))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Tell the gateway that nothing more is wanted; at most `CLOSE_S`."""
        connection, self._connection = self._connection, None
        if connection is None or not connection.leave(self._feed):
            return
        with anyio.move_on_after(CLOSE_S, shield=True), suppress(*FAILURES):
            await connection.request("unsubscribe", {"view": self._feed.view}, timeout_s=CLOSE_S)


async def watch(
    url: str,
    session: str,
    view: Mapping[str, Any] | None = None,
    *,
    since: dict[str, Any] | None = None,
    told: Callable[[Exception, float], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    clock: Callable[[], float] = anyio.current_time,
    chance: Callable[[], float] = random.random,
) -> AsyncGenerator[Notification, None]:
    """A `Subscription` over a connection of its own, as plain notifications: what `context-gateway watch` prints.

    Args:
        view: `offset`, `limit`, `record`, `deliver`, `paceMs` of `subscribe`.
        since: `{view, epoch, revision}` to start from instead of a describe.
        told: called with the error and the seconds until the next try.

    Raises:
        ConnectionLost: the first connection failed, or coming back would not help (`final`).
        GatewayError: as `Subscription`.
    """
    from gateway.client.calls import connect

    async with connect(url, told=told, sleep=sleep, clock=clock, chance=chance) as client:
        async for event in Subscription(client, {"session": session} | dict(view or {}), since):
            yield Notification(event.method, event.params)
