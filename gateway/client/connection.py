"""One socket: requests and their replies, and what comes for subscribed views.

Whoever waits for a reply or a notification reads the socket, for everybody: a connection has no task of its own, a
consumer that does not read slows the gateway and not this process, and a cancelled wait loses nothing.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.protocol import State
from websockets.typing import Subprotocol

from gateway import __version__
from gateway.client.errors import ABNORMAL, SILENT, ConnectionLost, lost, refusal
from gateway.core.errors import GatewayError, exceeded
from gateway.settings import is_loopback, socket_url

PROTOCOL: Final = Subprotocol("context.v1")
OPEN_S: Final = 10.0  # until a connection is open and greeted
REPLY_S: Final = 30.0  # until a request is answered; the gateway's own waits end long before
CLOSE_S: Final = 2.0  # until the peer has answered our close, or an `unsubscribe`
PING_S: Final = 20.0  # between keep-alive pings, and until one is answered: a dead link is found within both
MESSAGE_BYTES: Final = 16_777_216  # of one message; a gateway's `responseBytes` and `afterBytes` stay far below
QUEUE_ITEMS: Final = 1_024  # of one view, not yet taken
QUEUE_BYTES: Final = 4_194_304  # of the same, as text; at either bound the view is told `behind`


class Notification(msgspec.Struct, frozen=True):
    """A message of the gateway that answers no request: protocol §9."""

    method: str
    params: dict[str, Any]


class Feed:
    """What came over one connection for one subscription and was not taken yet.

    Bounded: at `QUEUE_ITEMS` or `QUEUE_BYTES` all of it is dropped, and one `invalidated` (`behind`) takes its place, as
    the gateway does with a watcher that is too slow (§6.3). `overran`: that happened, and no describe came since.
    """

    def __init__(self, session: str) -> None:
        self.session = session
        self.view = ""
        self._items: deque[Notification] = deque()
        self._bytes = 0
        self._place: dict[str, Any] = {}
        self.overran = False

    def __len__(self) -> int:
        return len(self._items)

    def begin(self, view: str) -> None:
        """The view was subscribed (again): what came before the reply is void."""
        self.view = view
        self._clear()

    def put(self, note: Notification, size: int) -> None:
        if "revision" in note.params:
            self._place = {name: note.params[name] for name in ("epoch", "revision")}
        if self.overran and note.method in ("after", "invalidated"):
            return
        self.overran = False
        self._items.append(note)
        self._bytes += size
        if len(self._items) > QUEUE_ITEMS or (self._bytes > QUEUE_BYTES and len(self._items) > 1):
            self._clear()
            self._items.append(self._told_behind())
            self.overran = True

    def take(self) -> Notification:
        note = self._items.popleft()
        if not self._items:
            self._bytes = 0
        return note

    def _clear(self) -> None:
        self._items.clear()
        self._bytes, self.overran = 0, False

    def _told_behind(self) -> Notification:
        reasons = [{"kind": "behind", "required": True}]
        told = {"session": self.session, "view": self.view} | self._place | {"reasons": reasons}
        return Notification("invalidated", told)


class Connection:
    """An open, greeted connection; made by `open_connection`.

    `server`: the result of `hello`, with `connection`, `limits`, …; `goodbye`: the params of one, when it came.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.server: dict[str, Any] = {}
        self.goodbye: dict[str, Any] = {}
        self._socket = socket
        self._reading = anyio.Lock()
        self._sent = 0
        self._replies: dict[int, dict[str, Any] | GatewayError | None] = {}
        self._subscribing: dict[int, Feed] = {}
        self._feeds: list[Feed] = []

    @property
    def is_open(self) -> bool:
        """False once it is known to be closed; True promises nothing."""
        return self._socket.state is State.OPEN

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout_s: float = REPLY_S, feed: Feed | None = None
    ) -> dict[str, Any]:
        """One request of protocol §4 and its result. Values may be `msgspec.Raw` texts of JSON.

        Args:
            feed: of a `subscribe`: gets what comes for the view from its reply on.

        Raises:
            GatewayError: the gateway's refusal; `data` holds all members told but `kind`. Or `limit_exceeded` of our own,
                instead of a message for which the gateway would close the connection.
            ConnectionLost: closed before the reply came, or no reply in time (then it is closed here). Whether a
                write took effect is not known then; repeating it with the same `base` is safe (§6.2).
            UnicodeEncodeError: a text holds a lone surrogate; nothing was sent.
        """
        self._sent += 1
        id = self._sent
        message = msgspec.json.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        maximum = self.server.get("limits", {}).get("publishBytes")
        if maximum is not None and len(message) > maximum:
            raise exceeded("publishBytes", maximum, len(message))
        self._replies[id] = None
        if feed is not None:
            self._subscribing[id] = feed
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
            self._subscribing.pop(id, None)
        if isinstance(reply, GatewayError):
            raise reply
        assert reply is not None
        return reply

    async def next_of(self, feed: Feed) -> Notification:
        """The next item of a feed, in the order they came; `ConnectionLost` when there will be none."""
        await self._read_until(lambda: len(feed) > 0)
        return feed.take()

    def leave(self, feed: Feed) -> bool:
        """Nothing comes for this feed any more; whether it was the last of its view."""
        if feed in self._feeds:
            self._feeds.remove(feed)
        return all(other.view != feed.view for other in self._feeds)

    async def drain(self) -> ConnectionLost:
        """Of a connection that is not open: sort what had come by then; why it is lost."""
        try:
            await self._read_until(lambda: False)
        except ConnectionLost as why:
            return why
        raise AssertionError

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
                    text = await self._socket.recv()
                    message = msgspec.json.decode(text)
                except ConnectionClosed as closed:
                    raise lost(closed) from None
                except msgspec.DecodeError:
                    message = None
                if not isinstance(message, dict):
                    raise ConnectionLost(ABNORMAL, "The peer does not speak the protocol.", final=True)
                self._sort(message, len(text))

    def _sort(self, message: dict[str, Any], size: int) -> None:
        """Put a reply where its request waits, and a notification to the feeds it concerns."""
        id = message.get("id")
        if "method" in message:
            if id is None:
                self._note(Notification(message["method"], message.get("params", {})), size)
        elif "error" in message:
            error = refusal(message["error"])
            waiting = [id] if id is not None else list(self._replies)  # without an id: none of ours was understood
            for each in waiting:
                if each in self._replies:
                    self._replies[each] = error
        elif id in self._replies:
            self._replies[id] = message["result"]
            if id in self._subscribing:
                self._begin(self._subscribing[id], message["result"], size)

    def _begin(self, feed: Feed, reply: dict[str, Any], size: int) -> None:
        """Right at the reply, for frames of the view may stand right behind it.

        The gateway has one subscription for each view of a connection: others of ours on the same view go on from the
        same describe.
        """
        feed.begin(reply["view"])
        if feed not in self._feeds:
            self._feeds.append(feed)
        for other in self._feeds:
            if other is not feed and other.view == feed.view and "describe" in reply:
                other.put(Notification("described", reply["describe"]), size)

    def _note(self, note: Notification, size: int) -> None:
        if note.method == "goodbye":
            self.goodbye = note.params
        for feed in self._feeds:
            if note.method in ("after", "invalidated", "described"):
                concerns = note.params.get("view") == feed.view
            else:
                concerns = note.method == "goodbye" or note.params.get("session") == feed.session
            if concerns:
                feed.put(note, size)


async def open_connection(url: str, *, timeout_s: float = OPEN_S) -> Connection:
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
    connection = Connection(socket)
    try:
        if socket.subprotocol != PROTOCOL:
            raise ConnectionLost(ABNORMAL, "The peer does not speak the protocol.", final=True)
        hello = {"client": {"name": "context-gateway", "version": __version__}}
        connection.server = await connection.request("hello", hello, timeout_s=timeout_s)
    except BaseException:
        await connection.close()
        raise
    return connection
