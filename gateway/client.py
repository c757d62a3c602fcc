"""The async client: one connection with requests and notifications, and `watch`, which follows a view for good.

It speaks the wire and knows nothing of the gateway's inside. Whoever waits for a reply or a notification reads the
socket, so a client has no task of its own and a consumer that does not read slows the gateway, not this process.
"""

import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from gateway import __version__
from gateway.core.errors import GatewayError
from gateway.settings import is_loopback, socket_url

PROTOCOL: Final = Subprotocol("context.v1")
OPEN_S: Final = 10.0  # until a connection is open and greeted
REPLY_S: Final = 30.0  # until a request is answered; the gateway's own waits end long before
CLOSE_S: Final = 2.0  # until the peer has answered our close
PING_S: Final = 20.0  # between keep-alive pings, and until one is answered: a dead link is found within both
MESSAGE_BYTES: Final = 16_777_216  # of one message; a gateway's `responseBytes` and `afterBytes` stay far below
NOTES_MAX: Final = 1_024  # notifications kept while a reply is awaited; one more and the connection is given up
BACK_OFF_MIN_S: Final = 0.5
BACK_OFF_MAX_S: Final = 20.0
STABLE_S: Final = 10.0  # a connection that held so long begins its back-off anew
ASKED_MAX_S: Final = 300.0  # of the wait a `goodbye` or a refusal may ask for
ABNORMAL: Final = 1006  # RFC 6455 §7.1.5: no close frame came
TOO_SLOW: Final = 4001
SILENT: Final = 4004
STAY_AWAY: Final = frozenset({1000, 1003, 1007, 1009})  # §2; and all of 4500–4999


class ConnectionLost(Exception):
    """The connection is closed or could not be opened.

    Attributes:
        code: the close code (protocol §2), 1006 where none came.
        final: coming back would not help: the gateway said so by the code, or refused the handshake.
    """

    def __init__(self, code: int, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.final = final or code in STAY_AWAY or 4500 <= code <= 4999


class Notification(msgspec.Struct, frozen=True):
    """A message of the gateway that answers no request: protocol §9."""

    method: str
    params: dict[str, Any]


class Client:
    """An open connection; made by `connect`.

    `server`: the result of `hello`, with `connection`, `limits`, …
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.server: dict[str, Any] = {}
        self._socket = socket
        self._reading = anyio.Lock()
        self._sent = 0
        self._replies: dict[int, dict[str, Any] | GatewayError | None] = {}
        self._notes: deque[Notification] = deque()

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float = REPLY_S) -> dict[str, Any]:
        """One request of protocol §4 and its result. Values may be `msgspec.Raw` texts of JSON.

        Raises:
            GatewayError: the gateway's refusal; `data` holds all members told but `kind`.
            ConnectionLost: closed before the reply came, or no reply in time (then it is closed here). Whether a
                write took effect is not known then; repeating it with the same `base` is safe (§6.2).
            UnicodeEncodeError: a text holds a lone surrogate; nothing was sent.
        """
        self._sent += 1
        id = self._sent
        message = msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        self._replies[id] = None
        try:
            with anyio.fail_after(timeout_s):
                await self._send(message.decode())
                await self._read_until(lambda: self._replies[id] is not None)
            reply = self._replies[id]
        except TimeoutError:
            await self.close()
            raise ConnectionLost(SILENT, "The gateway did not answer in time.") from None
        finally:
            del self._replies[id]
        if isinstance(reply, GatewayError):
            raise reply
        assert reply is not None
        return reply

    async def receive(self) -> Notification:
        """The next notification, in the order they came; `ConnectionLost` when there will be none."""
        await self._read_until(lambda: bool(self._notes))
        return self._notes.popleft()

    async def notifications(self) -> AsyncIterator[Notification]:
        """All notifications, until `ConnectionLost` is raised."""
        while True:
            yield await self.receive()

    def forget(self, view: str) -> None:
        """Drop what came for a view and was not taken: right after the reply that subscribed it again."""
        self._notes = deque(note for note in self._notes if note.params.get("view") != view)

    async def close(self) -> None:
        """Close the connection; idempotent, at most `CLOSE_S`."""
        with anyio.CancelScope(shield=True):
            await self._socket.close()

    async def _send(self, text: str) -> None:
        try:
            await self._socket.send(text)
        except ConnectionClosed as closed:
            raise lost(closed) from None

    async def _read_until(self, done: Callable[[], bool]) -> None:
        """Read for everybody: what is another's is put where that one finds it when the lock is free."""
        while not done():
            async with self._reading:
                if done():
                    return
                try:
                    message = msgspec.json.decode(await self._socket.recv())
                except ConnectionClosed as closed:
                    raise lost(closed) from None
                except msgspec.DecodeError:
                    message = None
                if not isinstance(message, dict):
                    raise ConnectionLost(ABNORMAL, "The peer does not speak the protocol.", final=True)
                self._sort(message)
                if len(self._notes) > NOTES_MAX:
                    await self.close()
                    raise ConnectionLost(TOO_SLOW, "Notifications were not taken in time.")

    def _sort(self, message: dict[str, Any]) -> None:
        """Put a reply where its request waits, and a notification to the others."""
        id = message.get("id")
        if "method" in message:
            if id is None:
                self._notes.append(Notification(message["method"], message.get("params", {})))
        elif "error" in message:
            error = refusal(message["error"])
            waiting = [id] if id is not None else list(self._replies)  # without an id: none of ours was understood
            for each in waiting:
                if each in self._replies:
                    self._replies[each] = error
        elif id in self._replies:
            self._replies[id] = message["result"]


@asynccontextmanager
async def connect(url: str, *, timeout_s: float = OPEN_S) -> AsyncIterator[Client]:
    """A greeted connection to the gateway at `url` (`ws://host:port`, `/v1/ws` is added where there is no path).

    Raises:
        ConnectionLost: nobody is there, or the handshake was refused (`final` unless the gateway is draining or busy).
        GatewayError: the refusal of `hello`.
    """
    try:
        socket = await open_socket(
            socket_url(url),
            subprotocols=[PROTOCOL],
            compression=None,
            proxy=None if is_loopback(urlsplit(url).hostname or "") else True,
            user_agent_header=f"context-gateway/{__version__}",
            open_timeout=timeout_s,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            close_timeout=CLOSE_S,
            max_size=MESSAGE_BYTES,
        )
    except InvalidStatus as refused:
        status = refused.response.status_code
        raise ConnectionLost(
            ABNORMAL, f"The gateway refused the connection (HTTP {status}).", final=status < 500 and status != 429
        ) from None
    except (OSError, TimeoutError, InvalidHandshake, EOFError):
        raise ConnectionLost(ABNORMAL, "No gateway answers at this address.") from None
    client = Client(socket)
    try:
        if socket.subprotocol != PROTOCOL:
            raise ConnectionLost(ABNORMAL, "The peer does not speak the protocol.", final=True)
        hello = {"client": {"name": "context-gateway", "version": __version__}}
        client.server = await client.request("hello", hello, timeout_s=timeout_s)
        yield client
    finally:
        await client.close()


def lost(closed: ConnectionClosed) -> ConnectionLost:
    """Our error for a connection that is closed."""
    if closed.rcvd is None:
        return ConnectionLost(ABNORMAL, "The connection broke.")
    return ConnectionLost(closed.rcvd.code, f"The gateway closed the connection ({closed.rcvd.code}).")


def refusal(error: dict[str, Any]) -> GatewayError:
    """The `error` of a reply as it was told."""
    data = dict(error.get("data", {}))
    refused = GatewayError(data.pop("kind", "internal"), error["message"])
    refused.data = data
    return refused


class BackOff:
    """Full jitter: the n-th wait is anything up to 500 ms · 2ⁿ, at most 20 s."""

    def __init__(self, chance: Callable[[], float], clock: Callable[[], float]) -> None:
        self._chance = chance
        self._clock = clock
        self._failures = 0
        self._well_since: float | None = None

    def succeeded(self) -> None:
        """It works; once it has for `STABLE_S` the waits begin anew."""
        if self._well_since is None:
            self._well_since = self._clock()

    def wait_s(self, at_least_s: float = 0.0, jitter_s: float = 0.0) -> float:
        """Seconds to wait after a failure; never less than the peer asked for, spread over its jitter."""
        if self._well_since is not None and self._clock() - self._well_since >= STABLE_S:
            self._failures = 0
        self._well_since = None
        ceiling = min(BACK_OFF_MAX_S, BACK_OFF_MIN_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        asked = at_least_s + self._chance() * jitter_s
        return max(self._chance() * ceiling, min(asked, ASKED_MAX_S))


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
    """Follow one view for good: `described`, then each `after`, `invalidated`, `described`, `ended`, `goodbye` as it comes.

    A subscribe reply comes as the notifications it stands for: `described` with its describe response, before it
    `invalidated` where it told reasons; of a resumed view the merged `after`. What needs a new subscription (a required
    reason, an `after` of another base, `ended`) gets one; a lost connection is opened again and resumed at the position
    of the last item taken: the position moves when the consumer asks for the next one.

    Args:
        view: `offset`, `limit`, `record`, `deliver`, `paceMs` of `subscribe`.
        since: `{view, epoch, revision}` to start from instead of a describe.
        told: called with the error and the seconds until the next try.

    Raises:
        ConnectionLost: the first connection failed, or coming back would not help (`final`).
        GatewayError: the first `subscribe` was refused, or a later one for a reason that will last (`unknown_session`
            will not: the session is awaited).
    """
    following = Following(session, dict(view or {}), since, BackOff(chance, clock))
    while True:
        try:
            async with connect(url) as client:
                while True:
                    try:
                        async with aclosing(following.items(client)) as items:
                            async for note in items:
                                yield note
                    except GatewayError as refused:
                        wait_s = following.wait_after_refusal_s(refused)
                        if told:
                            told(refused, wait_s)
                        await sleep(wait_s)
        except ConnectionLost as broken:
            wait_s = following.wait_after_loss_s(broken)
            if told:
                told(broken, wait_s)
        await sleep(wait_s)


class Following:
    """Where a watched view stands, and when to try again."""

    def __init__(self, session: str, view: dict[str, Any], since: dict[str, Any] | None, back_off: BackOff) -> None:
        self._params = {"session": session} | view
        self._pushed = view.get("deliver") == "push"
        self._since = since
        self._back_off = back_off
        self._begun = False
        self._goodbye: dict[str, Any] = {}

    def wait_after_refusal_s(self, error: GatewayError) -> float:
        """Seconds until the same connection may subscribe again; raises the error where that would not help."""
        passes = error.kind == "unknown_session" or error.data.get("errorClass") == "transient"
        if not self._begun or not passes:
            raise error
        return self._back_off.wait_s(error.data.get("retryAfterMs", 0) / 1000)

    def wait_after_loss_s(self, error: ConnectionLost) -> float:
        """Seconds until the next connection; raises the error where that would not help."""
        if error.final or not self._begun:
            raise error
        goodbye, self._goodbye = self._goodbye, {}
        return self._back_off.wait_s(goodbye.get("reconnectAfterMs", 0) / 1000, goodbye.get("jitterMs", 0) / 1000)

    async def items(self, client: Client) -> AsyncGenerator[Notification, None]:
        """What the view tells over one connection, until that is lost or a subscribe is refused."""
        renew = True
        while True:
            if renew:
                for answer in await self._subscribe(client):
                    yield answer
                    self._advance(answer)
            note = await client.receive()
            tell, renew = self._judge(note)
            if tell:
                yield note
                self._advance(note)

    def _judge(self, note: Notification) -> tuple[bool, bool]:
        """Whether a notification is told, and whether the view must be subscribed (again) behind it."""
        method, params = note.method, note.params
        if method == "goodbye":
            self._goodbye = params
            return True, False
        if method == "ended":
            ours = params.get("session") == self._params["session"]
            return ours, ours
        if self._since is None or params.get("view") != self._since["view"]:
            return False, False
        if method == "after":
            fits = (params["epoch"], params["base"]) == (self._since["epoch"], self._since["revision"])
            return fits, not fits
        return True, method == "invalidated" and is_required(params) and not self._pushed

    def _advance(self, note: Notification) -> None:
        """The consumer has taken an item: the view stands there now."""
        method, params = note.method, note.params
        if method == "ended" or (method == "invalidated" and is_required(params) and not self._pushed):
            self._since = None
        elif method in ("after", "described"):
            self._since = {name: params[name] for name in ("view", "epoch", "revision")}

    async def _subscribe(self, client: Client) -> list[Notification]:
        """Subscribe, from the position where there is one; the reply as the notifications it stands for."""
        params = self._params | ({"since": self._since} if self._since else {})
        reply = await client.request("subscribe", params)
        self._begun = True
        self._back_off.succeeded()
        client.forget(reply["view"])
        if reply["recovered"]:
            return [Notification("after", reply["after"])] if "after" in reply else []
        told = [Notification("described", reply["describe"])]
        if reply.get("reasons"):
            names = ("view", "epoch", "revision", "reasons")
            params = {"session": self._params["session"]} | {name: reply[name] for name in names}
            told.insert(0, Notification("invalidated", params))
        return told


def is_required(invalidated: dict[str, Any]) -> bool:
    """Whether the view has no `after` until it is subscribed again (§6.3)."""
    return any(reason["required"] for reason in invalidated["reasons"])
