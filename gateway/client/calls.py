"""The client: the calls of protocol §4 over a connection that comes back by itself."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias

import anyio

from gateway.client.backoff import BackOff
from gateway.client.connection import OPEN_S, REPLY_S, Connection, open_connection
from gateway.client.errors import ABNORMAL, ConnectionLost
from gateway.client.results import (
    After,
    DescribeResponse,
    Invalidated,
    Listed,
    Published,
    Unchanged,
    listed,
    published,
)
from gateway.client.watching import Subscription, place_of
from gateway.core.position import Position

Told: TypeAlias = Callable[[Exception, float], None]
"""Called with what went wrong and the seconds until the next try."""

Base: TypeAlias = Position | Literal["any"] | None
"""What a write replaces (§6.2): a position · `"any"` · None: there must be no session."""

PAGES_MAX: Final = 10_000  # of one listing: a gateway that never ends it would hold us for ever


class Client:
    """A gateway at one address; made by `connect`, for one event loop.

    One connection at a time. Where it is lost, the next call opens another, after the back-off and what a `goodbye`
    asked for. A call that only reads is repeated on it, within its `timeout_s`; one that writes is not: `publish`, `patch`
    and `end` raise `ConnectionLost`, and may be repeated with the same `base` (§6.2), as `Publisher` does. After a close
    that says "stay away" every call raises it.

    `server`: the result of the last `hello`, with `connection`, `limits`, …
    """

    def __init__(
        self,
        url: str,
        *,
        open_timeout_s: float,
        returns: bool,
        told: Told | None,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self.server: dict[str, Any] = {}
        self.told = told
        self.sleep = sleep
        self._url = url
        self._open_timeout_s = open_timeout_s
        self._returns = returns
        self._clock, self._chance = clock, chance
        self._back_off = self.back_off()
        self._opening = anyio.Lock()
        self._connection: Connection | None = None
        self._final: ConnectionLost | None = None
        self._wait_s = 0.0

    @property
    def ended(self) -> bool:
        """Whether no call will be answered any more."""
        return self._final is not None

    def back_off(self) -> BackOff:
        """A back-off with this client's clock and chance."""
        return BackOff(self._chance, self._clock)

    async def connection(self) -> Connection:
        """The open connection; waits for one as long as it takes.

        Raises:
            ConnectionLost: coming back would not help, or the client is closed.
        """
        while True:
            async with self._opening:
                known = self._connection
                if known is not None and not known.is_open:
                    self.lost(known, await known.drain())
                if self._final is not None:
                    raise self._final
                if self._connection is not None:
                    return self._connection
                if self._wait_s:
                    await self.sleep(self._wait_s)
                    self._wait_s = 0.0
                try:
                    await self.open()
                except ConnectionLost as broken:
                    self._judge(broken, {})

    async def open(self) -> None:
        """One try to connect and greet."""
        connection = await open_connection(self._url, timeout_s=self._open_timeout_s)
        self._connection, self.server = connection, connection.server
        self._back_off.succeeded()

    def lost(self, connection: Connection, why: ConnectionLost) -> None:
        """A connection broke: whoever finds out says so, the first one counts."""
        if connection is self._connection:
            self._connection = None
            self._judge(why, connection.goodbye)

    def _judge(self, why: ConnectionLost, goodbye: Mapping[str, Any]) -> None:
        if why.final or not self._returns:
            self._final = why
            return
        self._wait_s = self._back_off.wait_s(
            goodbye.get("reconnectAfterMs", 0) / 1000, goodbye.get("jitterMs", 0) / 1000
        )
        if self.told:
            self.told(why, self._wait_s)

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float = REPLY_S) -> dict[str, Any]:
        """One request of protocol §4 and its result, on the open connection or a new one; sent once, never repeated.

        Raises: as `Connection.request`.
        """
        connection = await self._in_time(timeout_s)
        try:
            return await connection.request(method, params, timeout_s=timeout_s)
        except ConnectionLost as why:
            self.lost(connection, why)
            raise

    async def _in_time(self, timeout_s: float) -> Connection:
        try:
            with anyio.fail_after(timeout_s):
                return await self.connection()
        except TimeoutError:
            raise ConnectionLost(ABNORMAL, "No gateway answered in time.") from None

    async def read(self, method: str, params: Mapping[str, Any], *, timeout_s: float = REPLY_S) -> dict[str, Any]:
        """A request that changes nothing: repeated on another connection where one is lost, until `timeout_s`.

        Raises:
            GatewayError: the refusal.
            ConnectionLost: coming back would not help, or no answer came in time.
        """
        deadline = anyio.current_time() + timeout_s
        while True:
            try:
                return await self.request(method, params, timeout_s=max(0.0, deadline - anyio.current_time()))
            except ConnectionLost:
                if self.ended or anyio.current_time() >= deadline:
                    raise

    async def describe(
        self,
        session: str,
        *,
        offset: int | None = None,
        limit: int | None = None,
        record: str | Sequence[str] | None = None,
        timeout_s: float = REPLY_S,
    ) -> DescribeResponse:
        """What can be done and what is there, of one position (§5)."""
        params = {"session": session} | view_params(offset, limit, record)
        return DescribeResponse(await self.read("describe", params, timeout_s=timeout_s))

    async def changes(
        self,
        session: str,
        since: DescribeResponse | Mapping[str, Any],
        *,
        offset: int | None = None,
        limit: int | None = None,
        record: str | Sequence[str] | None = None,
        timeout_s: float = REPLY_S,
    ) -> Unchanged | After | Invalidated:
        """What came since a position, for those who ask now and then; the view must be that of `since`.

        Args:
            since: a describe response (then the `After` holds the one that follows from it), or `{view, epoch, revision}`.
        """
        before = since if isinstance(since, DescribeResponse) else None
        place = place_of(since)
        params = {"session": session} | view_params(offset, limit, record) | {"since": place}
        result = await self.read("changes", params, timeout_s=timeout_s)
        if result["kind"] == "after":
            return After(result["after"], before.after(result["after"], result["publisher"]) if before else None)
        return Unchanged(result) if result["kind"] == "unchanged" else Invalidated({"session": session} | result)

    def subscribe(
        self,
        session: str,
        *,
        offset: int | None = None,
        limit: int | None = None,
        record: str | Sequence[str] | None = None,
        push: bool = False,
        pace_ms: int | None = None,
        since: DescribeResponse | Mapping[str, Any] | None = None,
    ) -> Subscription:
        """Follow a view: `async with client.subscribe(…) as view: async for event in view`. See `Subscription`.

        Args:
            push: let the gateway send the new describe behind an `invalidated`, instead of asking for it.
            pace_ms: at most one `after` in that time (0 50 100 250 500 1000 2500 5000).
            since: where an earlier subscription to the same view stood, to go on from there.
        """
        params = {"session": session} | view_params(offset, limit, record)
        if push:
            params["deliver"] = "push"
        if pace_ms is not None:
            params["paceMs"] = pace_ms
        return Subscription(self, params, since)

    async def publish(
        self,
        session: str,
        snapshot: Mapping[str, Any],
        *,
        base: Base = None,
        cause: Mapping[str, Any] | None = None,
        ttl_ms: int | None = None,
    ) -> Published:
        """Publish a whole snapshot (§6)."""
        params = {"session": session, "snapshot": snapshot, "base": wire_base(base)}
        return published(await self.request("publish", params | given(cause=cause, ttlMs=ttl_ms)))

    async def patch(
        self, session: str, change: Mapping[str, Any], *, base: Base, cause: Mapping[str, Any] | None = None
    ) -> Published:
        """Change a snapshot (§6.1): all of it, or none."""
        params = {"session": session, "change": change, "base": wire_base(base)}
        return published(await self.request("patch", params | given(cause=cause)))

    async def end(self, session: str, *, base: Base = None) -> None:
        """End a session; with a position as `base` only if it stands there."""
        await self.request("end", {"session": session} | given(base=wire_base(base)))

    async def sessions(self, prefix: str = "", *, page: int | None = None) -> AsyncIterator[Listed]:
        """All sessions whose id begins with `prefix`, ascending by id, asked for page by page as they are taken.

        Args:
            page: sessions in one answer; `limits.sessionsPage` of the gateway by default.
        """
        params = given(prefix=prefix or None, limit=page or self.server.get("limits", {}).get("sessionsPage"))
        for _ in range(PAGES_MAX):
            result = await self.read("sessions", params)
            for entry in result["sessions"]:
                yield listed(entry)
            if "next" not in result:
                return
            params["cursor"] = result["next"]

    async def ping(self) -> None:
        """Whether the gateway answers."""
        await self.read("ping", {})

    async def close(self) -> None:
        """Close for good; idempotent."""
        self._final = self._final or ConnectionLost(1000, "The client is closed.")
        if self._connection is not None:
            await self._connection.close()


@asynccontextmanager
async def connect(
    url: str,
    *,
    timeout_s: float = OPEN_S,
    returns: bool = True,
    told: Told | None = None,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    clock: Callable[[], float] = anyio.current_time,
    chance: Callable[[], float] = random.random,
) -> AsyncIterator[Client]:
    """A client of the gateway at `url` (`ws://host:port`), connected and greeted.

    Args:
        timeout_s: of one try to connect.
        returns: whether another connection is opened when one is lost; else every call raises what it was lost for.
        told: called whenever the client waits before it tries again.

    Raises:
        ConnectionLost: nobody is there now, or the handshake was refused.
        GatewayError: the refusal of `hello`.
    """
    client = Client(url, open_timeout_s=timeout_s, returns=returns, told=told, sleep=sleep, clock=clock, chance=chance)
    try:
        await client.open()
        yield client
    finally:
        await client.close()


def view_params(offset: int | None, limit: int | None, record: str | Sequence[str] | None) -> dict[str, Any]:
    """The members of *view* (§4) that were given."""
    return given(
        offset=offset, limit=limit, record=record if record is None or isinstance(record, str) else list(record)
    )


def given(**members: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def wire_base(base: Base) -> Any:
    """A base as the wire has it."""
    return {"epoch": base.epoch, "revision": base.revision} if isinstance(base, Position) else base
