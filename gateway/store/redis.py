"""Links to one Redis or Valkey, and what goes wrong on them: the only place that imports redis.

A link carries one exchange at a time. Whatever interrupts an exchange (cancellation, deadline, error of the link) closes
the link, so an answer can never be read by another request. redis-py's own pool and retries are not used: they would
answer a cancelled exchange by a link that stays marked as in use.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

import anyio
import redis.exceptions as refused
import structlog
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.core.errors import GatewayError
from gateway.store.scripts import Argument, Call, Command, packed_in_slices

log = structlog.get_logger(__name__)

LINKS_MOST: Final = 32  # links of one process; further requests wait within their deadline
DEADLINE_S: Final = 5.0  # for one exchange, the wait for a link and one retry included
CONNECT_PAUSE_S: Final = (
    0.1  # after a link could not be made none is tried for so long: no storm on a store that refuses
)
RETRY_AFTER_MS: Final = 1_000  # told with `store_unavailable`

Reply = Any
"""What the store answers: bytes, int, None, a list of these, or (inside a list) an exception of redis-py."""

LINK_ERRORS: Final = (refused.ConnectionError, refused.TimeoutError, refused.InvalidResponse, OSError)
STORE_ERRORS: Final = (refused.RedisError, OSError)

_Link = Connection | SSLConnection | UnixDomainSocketConnection

_LOGIN = {"db", "username", "password"}
_OPTIONS: dict[type[_Link], set[str]] = {
    Connection: _LOGIN | {"host", "port"},
    SSLConnection: _LOGIN | {"host", "port"},
    UnixDomainSocketConnection: _LOGIN | {"path"},
}


def unavailable(error: BaseException) -> GatewayError:
    """`store_unavailable` for whatever the store or a link raised; the sentence holds no address and no value."""
    return GatewayError("store_unavailable", _sentence(error), retryAfterMs=RETRY_AFTER_MS)


def _sentence(error: BaseException) -> str:
    match error:
        case refused.BusyLoadingError():
            return "The store is loading its data."
        case refused.AuthenticationError() | refused.AuthorizationError() | refused.NoPermissionError():
            return "The store refuses the gateway's credentials or rights."
        case refused.ReadOnlyError():
            return "The store accepts no writes now."
        case refused.OutOfMemoryError():
            return "The store's memory is full."
        case refused.ConnectionError() | refused.InvalidResponse() | OSError():
            return "The store is out of reach."
        case refused.TimeoutError():
            return "The store did not answer in time."
    return "The store refused a command."


class Links:
    """At most `LINKS_MOST` links to one store.

    Args:
        url: `redis://`, `rediss://` or `unix://`, with user and password as redis-py reads them and, over TLS, its
            `ssl_…` options. Database 0 only: a channel is the same in all of them.

    Raises:
        ValueError: an unknown form or option. The message does not hold the URL.
    """

    def __init__(self, url: str, *, deadline_s: float = DEADLINE_S) -> None:
        self._options, self._class = _options(url)
        self._deadline_s = deadline_s
        self._idle: list[_Link] = []
        self._slots = anyio.Semaphore(LINKS_MOST)
        self._not_before = 0.0  # monotonic: links may be made again
        self._failure: BaseException = refused.ConnectionError()  # why not before
        self._told = ""  # the sentence logged last, until the store answers again
        self.in_use = 0
        self.answered_at = -1e9  # monotonic seconds of the last answer; long ago when there was none

    async def run(self, calls: Sequence[Call | Command], *, atomic: bool = False) -> list[Reply]:
        """The answers to `calls`, sent together; `atomic` (MULTI) lets nothing of others in between.

        Every call must be safe to repeat: an exchange whose link broke is sent once more on a new link.

        Raises:
            GatewayError: `store_unavailable`, also for an error among the answers.
        """
        try:
            with anyio.fail_after(self._deadline_s):
                async with self._slots:
                    replies = await self._known(calls, atomic=atomic)
        except TimeoutError:
            await self.drop_idle()  # silent links come in flocks
            raise self._noted(refused.TimeoutError()) from None
        except STORE_ERRORS as error:
            raise self._noted(error) from None
        for reply in replies:
            if isinstance(reply, Exception):
                if isinstance(reply, refused.ReadOnlyError):  # the roles were swapped: resolve the name anew
                    await self.drop_idle()
                raise self._noted(reply)
        self._told = ""
        return replies

    async def link(self) -> "Subscription":
        """A link of its own, outside the bound, for subscriptions. The caller closes it.

        Raises:
            GatewayError: `store_unavailable`.
        """
        link = self._new()
        try:
            with anyio.fail_after(self._deadline_s):
                await self._connect(link)
        except TimeoutError:
            await _cut(link)
            raise self._noted(refused.TimeoutError()) from None
        except STORE_ERRORS as error:
            await _cut(link)
            raise self._noted(error) from None
        except BaseException:
            await _cut(link)
            raise
        return Subscription(link)

    async def drop_idle(self) -> None:
        """Close the links nobody uses: after an error of one the others are not to be trusted."""
        idle, self._idle = self._idle, []
        for link in idle:
            await _cut(link)

    @property
    def well(self) -> bool:
        """Whether the last exchange succeeded."""
        return not self._told

    async def close(self) -> None:
        """Close the idle links; a link in use is closed by who uses it."""
        idle, self._idle = self._idle, []
        for link in idle:
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await link.disconnect()

    async def _known(self, calls: Sequence[Call | Command], *, atomic: bool) -> list[Reply]:
        """Send by hash; what the store does not know (NOSCRIPT) is sent whole."""
        replies = await self._twice([call.words(whole=False) for call in calls], atomic=atomic)
        unknown = [i for i, reply in enumerate(replies) if isinstance(reply, refused.NoScriptError)]
        if unknown:
            again = range(len(calls)) if atomic else unknown
            answers = await self._twice([calls[i].words(whole=True) for i in again], atomic=atomic)
            for i, answer in zip(again, answers, strict=True):
                replies[i] = answer
        return replies

    async def _twice(self, commands: list[list[Argument]], *, atomic: bool) -> list[Reply]:
        if atomic:
            commands = [["MULTI"], *commands, ["EXEC"]]
        parts = [part for words in commands for part in await packed_in_slices(words)]
        try:
            replies = await self._exchange(parts, len(commands))
        except (refused.BusyLoadingError, refused.AuthenticationError):
            raise  # an answer, though redis-py counts it among the errors of the link
        except LINK_ERRORS:
            await self.drop_idle()
            replies = await self._exchange(parts, len(commands))
        if not atomic:
            return replies
        refusal = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if refusal is not None:
            raise refusal
        done: list[Reply] = replies[-1]
        return done

    async def _exchange(self, parts: list[bytes], answers: int) -> list[Reply]:
        link = self._idle.pop() if self._idle else self._new()
        self.in_use += 1
        try:
            if not link.is_connected:
                await self._connect(link)
            await link.send_packed_command(parts, check_health=False)
            replies = [await self._reply(link) for _ in range(answers)]
        except BaseException:
            await _cut(link)
            raise
        finally:
            self.in_use -= 1
        self._idle.append(link)
        self.answered_at = time.monotonic()
        return replies

    async def _reply(self, link: _Link) -> Reply:
        try:
            return await link.read_response()
        except refused.ResponseError as error:  # the link is in order: the answer is a refusal
            return error

    async def _connect(self, link: _Link) -> None:
        if time.monotonic() < self._not_before:
            raise self._failure.with_traceback(None)
        try:
            await link.connect()  # type: ignore[no-untyped-call]
            # A short command brings the reason of a refusal; a long one without a password just loses its link.
            await link.send_command("PING", check_health=False)
            await link.read_response()
        except STORE_ERRORS as error:
            # redis-py wraps what it is told while it greets the store: the reason is inside.
            reason = error.__cause__ if isinstance(error.__cause__, refused.RedisError) else error
            self._not_before, self._failure = time.monotonic() + CONNECT_PAUSE_S, reason
            raise reason from None

    def _new(self) -> _Link:
        return self._class(
            **self._options,
            protocol=2,  # an answer is an answer: no pushes in between
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=None,  # one deadline stands around everything
        )

    def _noted(self, error: BaseException) -> GatewayError:
        sentence = _sentence(error)
        if sentence != self._told:
            self._told = sentence
            log.warning("store.unavailable", why=sentence, error=type(error).__name__)
        return unavailable(error)


def _options(url: str) -> tuple[dict[str, Any], type[_Link]]:
    """What a link is made with. redis-py's own messages may quote the URL, so none is passed on."""
    try:
        options: dict[str, Any] = dict(parse_url(url))
    except ValueError:
        raise ValueError("the store's URL cannot be read") from None
    kind: type[_Link] = options.pop("connection_class", Connection)
    known = _OPTIONS[kind]
    if not all(name in known or (kind is SSLConnection and name.startswith("ssl_")) for name in options):
        raise ValueError(f"the store's URL has an option that is not one of {', '.join(sorted(known))}")
    if options.get("db"):
        raise ValueError("the store's URL names a database: only 0 is used, for messages between nodes know none")
    if kind is UnixDomainSocketConnection and not options.get("path"):
        raise ValueError("the store's URL names no socket")
    return options, kind


class Subscription:
    """A link on which messages arrive. Nothing happens in silence: a broken link stays broken."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    async def send(self, *commands: bytes) -> None:
        """Send without waiting for an answer; raises one of `LINK_ERRORS` on a broken link."""
        if not self._link.is_connected:  # redis-py would connect again and have forgotten every subscription
            raise refused.ConnectionError("the link is closed")
        await self._link.send_packed_command(list(commands), check_health=False)

    async def receive(self) -> list[Reply]:
        """The next message, e.g. [b"smessage", channel, data]; raises one of `STORE_ERRORS`."""
        message = await self._link.read_response()
        if not isinstance(message, list):
            raise refused.InvalidResponse("a message is a list")
        return message

    async def close(self) -> None:
        """Close the link at once."""
        await _cut(self._link)


async def _cut(link: _Link) -> None:
    """Close a link, whatever state it is in and even while being cancelled; nothing waits here."""
    with anyio.CancelScope(shield=True):
        await link.disconnect(nowait=True)
