"""The node's one subscription link: what is watched, what is confirmed, and when to doubt.

Subscriptions are reconciled: `watch` and `unwatch` say what is wanted, one writer sends the difference, and the store's
confirmations are matched one by one with what was sent. Anything that was not asked for replaces the link; after a
replaced link has everything subscribed again the hub is told to doubt. Lost messages raise nothing anywhere, so the node
also sends itself a message when its link has been silent.
"""

import random
import secrets
import time
from collections import deque
from typing import Final

import anyio
import anyio.lowlevel
import structlog

from gateway.core.errors import GatewayError
from gateway.store import Doubt, Listener
from gateway.store.events import read_event
from gateway.store.keys import channel_of
from gateway.store.redis import LINK_ERRORS, STORE_ERRORS, Links, Subscription, unavailable
from gateway.store.scripts import Command, packed

log = structlog.get_logger(__name__)

CONFIRM_S: Final = 5.0  # for the confirmation of one subscription
SILENCE_S: Final = 2.0  # a link silent for so long is probed
ECHO_S: Final = 2.0  # a probe must be back within: a dead link is noticed after SILENCE_S + ECHO_S at the latest
BACKOFF_S: Final = (0.1, 5.0)  # first and longest pause before a new link, each times 0.5 … 1.5
TURN_S: Final = 0.005  # messages are handed on for so long before the loop gets its turn
AT_ONCE: Final = 1_000  # subscriptions sent in one write


class _Watched:
    """A channel somebody wants: `session` None is the probe's. `watchers` counts the calls of `watch`."""

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.watchers = 1
        self.confirmed = anyio.Event()


class Subscriber:
    """See the module. `links` makes the subscription link and sends the probes."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._probe = b"cg:{" + secrets.token_hex(10).encode() + b"}:probe"
        self._wanted: dict[bytes, _Watched] = {self._probe: _Watched(None)}
        self._dirty: dict[bytes, None] = {}  # channels whose want may differ from what was asked for
        self._asked: dict[bytes, int] = {}  # channel → number of the last SSUBSCRIBE sent for it
        self._held: set[bytes] = set()  # channels asked for and confirmed
        self._unanswered: deque[tuple[bytes, bytes, int]] = deque()  # (reply expected, channel, number)
        self._missing: set[bytes] = set()  # to be confirmed again before the hub is told to doubt
        self._doubt: Doubt = lambda: None
        self._change = anyio.Event()
        self._echo = anyio.Event()
        self._number = 0
        self._pause = BACKOFF_S[0]
        self.heard_at = -1e9  # monotonic seconds of the last message
        self.probed_well = False
        self.replaced = 0  # links lost so far

    async def watch(self, session: str) -> None:
        """Return once the store has confirmed the subscription.

        Raises:
            GatewayError: `store_unavailable` after `CONFIRM_S`; the session is then not watched.
        """
        channel = channel_of(session)
        watched = self._wanted.get(channel)
        if watched is None:
            watched = self._wanted[channel] = _Watched(session)
            if channel in self._held:  # unwatched a moment ago, and not yet unsubscribed
                watched.confirmed.set()
            self._changed(channel)
        else:
            watched.watchers += 1
        try:
            with anyio.fail_after(CONFIRM_S):
                while not watched.confirmed.is_set():
                    await watched.confirmed.wait()
        except TimeoutError as error:
            self._release(channel, watched)
            raise unavailable(error) from None
        except BaseException:
            self._release(channel, watched)
            raise

    def unwatch(self, session: str) -> None:
        """Undo one `watch`; the last one ends the subscription."""
        channel = channel_of(session)
        watched = self._wanted.get(channel)
        if watched is not None:
            self._release(channel, watched)

    def confirmed(self) -> bool:
        """Whether the node's own channel is subscribed and the last probe came back."""
        return self.probed_well and self._wanted[self._probe].confirmed.is_set()

    async def run(self, listener: Listener, doubt: Doubt) -> None:
        """Hold a link for ever; pause between links with back-off and jitter."""
        self._doubt = doubt
        while True:
            link = None
            try:
                link = await self._links.link()
                await self._use(link, listener)
            except* (*STORE_ERRORS, GatewayError) as errors:
                if link is not None:
                    self.replaced += 1
                    log.warning("store.link_lost", error=type(errors.exceptions[0]).__name__)
            finally:
                self._forget()
                if link is not None:
                    await link.close()
            await anyio.sleep(self._pause * random.uniform(0.5, 1.5))
            self._pause = min(self._pause * 2, BACKOFF_S[1])

    async def _use(self, link: Subscription, listener: Listener) -> None:
        self._dirty = dict.fromkeys(self._wanted)
        self._missing = set(self._wanted) if self.replaced else set()
        self.heard_at = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, link)
            tasks.start_soon(self._read, link, listener)
            tasks.start_soon(self._prove)

    async def _write(self, link: Subscription) -> None:
        """Send the difference between what is wanted and what was asked for."""
        while True:
            change = self._change = anyio.Event()
            commands: list[bytes] = []
            for channel in list(self._dirty)[:AT_ONCE]:
                del self._dirty[channel]
                if channel in self._wanted and channel not in self._asked:
                    self._number += 1
                    self._asked[channel] = self._number
                    self._unanswered.append((b"ssubscribe", channel, self._number))
                    commands.append(packed("SSUBSCRIBE", channel))
                elif channel in self._asked and channel not in self._wanted:
                    del self._asked[channel]
                    self._held.discard(channel)
                    self._unanswered.append((b"sunsubscribe", channel, 0))
                    commands.append(packed("SUNSUBSCRIBE", channel))
            if commands:
                await link.send(*commands)
            elif not self._dirty:
                await change.wait()

    async def _read(self, link: Subscription, listener: Listener) -> None:
        turn = time.monotonic()
        while True:
            message = await link.receive()  # does not give way while one read of the socket holds more messages
            self.heard_at = time.monotonic()
            if self.heard_at - turn > TURN_S:
                await anyio.lowlevel.checkpoint()
                turn = time.monotonic()
            kind, channel = message[0], message[1]
            if kind == b"smessage":
                self._deliver(channel, message[2], listener)
            else:
                self._answered(kind, channel)

    def _deliver(self, channel: bytes, data: bytes, listener: Listener) -> None:
        watched = self._wanted.get(channel)
        if watched is None:
            return  # unwatched a moment ago
        if watched.session is None:
            self._echo.set()
            return
        event = read_event(data)
        if event is None:
            log.warning("store.strange_message")
            self._doubt()
        else:
            listener(watched.session, event)

    def _answered(self, kind: bytes, channel: bytes) -> None:
        expected = self._unanswered.popleft() if self._unanswered else None
        if expected is None or expected[:2] != (kind, channel):
            raise LINK_ERRORS[0]("an answer nobody asked for")  # e.g. the slot moved away
        # An older subscription of a channel that was given up and asked for again proves nothing.
        if kind == b"ssubscribe" and self._asked.get(channel) == expected[2]:
            self._held.add(channel)
            watched = self._wanted.get(channel)
            if watched is not None:
                watched.confirmed.set()
            self._settled(channel)

    def _settled(self, channel: bytes) -> None:
        """One channel fewer to confirm after a lost link; doubt when it was the last one."""
        if channel in self._missing:
            self._missing.discard(channel)
            if not self._missing:
                self._doubt()

    async def _prove(self) -> None:
        """Send ourselves a message at once and whenever the link is silent; a link that does not bring it is closed."""
        with anyio.fail_after(CONFIRM_S):
            await self._wanted[self._probe].confirmed.wait()
        while True:
            self._echo = anyio.Event()
            self.probed_well = await self._echoes()
            if not self.probed_well:
                await self._links.drop_idle()
                raise LINK_ERRORS[0]("the probe did not come back")
            self._pause = BACKOFF_S[0]
            while (quiet := time.monotonic() - self.heard_at) < SILENCE_S:  # noqa: ASYNC110  # cheaper than an event a message
                await anyio.sleep(SILENCE_S - quiet)

    async def _echoes(self) -> bool:
        with anyio.move_on_after(ECHO_S):
            if (await self._links.run([Command(("SPUBLISH", self._probe, b""))]))[0]:  # else nobody hears it
                await self._echo.wait()
        return self._echo.is_set()

    def _forget(self) -> None:
        """Nothing is subscribed any more."""
        self._dirty.clear()
        self._asked.clear()
        self._held.clear()
        self._unanswered.clear()
        self.probed_well = False
        for watched in self._wanted.values():
            if watched.confirmed.is_set():  # else somebody waits for this very event
                watched.confirmed = anyio.Event()

    def _release(self, channel: bytes, watched: _Watched) -> None:
        watched.watchers -= 1
        if watched.watchers == 0 and self._wanted.get(channel) is watched:
            del self._wanted[channel]
            self._changed(channel)
            self._settled(channel)

    def _changed(self, channel: bytes) -> None:
        self._dirty[channel] = None
        self._change.set()
