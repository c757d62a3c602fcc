"""One session on this node: its snapshot, the views watched here, and the fan-out of each change to them.

Everything is synchronous: a step forward reaches every watcher before anything else happens. The cost of a step is once
per session (apply), once per view (project, observe, encode) and once per watcher (`deliver` of shared bytes). The hub
owns opening, healing and timers; it calls `advance`, `end`, `due`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from gateway.core import observe
from gateway.core.limits import Limits
from gateway.core.messages import notification
from gateway.core.model import Snapshot, differing
from gateway.core.order import finish
from gateway.core.position import Position
from gateway.core.view import Projection, Target, View, describe, project
from gateway.frames import Frame
from gateway.metrics import Metrics
from gateway.service import Peer

STEPS_KEPT: Final = 64
"""Revisions a replica remembers: a resume over fewer needs no store. They share all unchanged records."""


class Step(msgspec.Struct, frozen=True):
    """A revision as it reached this node. `touched`: ids of the records that differ from the one before."""

    snapshot: Snapshot
    causes: tuple[str, ...]
    touched: frozenset[str]

    @property
    def position(self) -> Position:
        return self.snapshot.position


class Watcher:
    """One view of one connection. `base`: the projection it was last told; None: stale, it gets no `after`."""

    __slots__ = ("base", "behind", "cause", "held", "last_sent", "pace_s", "peer", "push", "told", "untold")

    def __init__(self, peer: Peer, base: Projection, push: bool, pace_s: float, now: float) -> None:
        self.peer = peer
        self.push = push
        self.pace_s = pace_s
        self.last_sent = now
        self.behind = False
        self.untold: set[str] = set()
        self.renew(base)

    def renew(self, base: Projection) -> None:
        """The client was given a describe response: live again."""
        self.base: Projection | None = base
        self.told: set[str] = set()
        self.held = 0
        self.cause = ""

    def hold(self, cause: str) -> None:
        """One more revision to tell; a cause is told only where there is one revision."""
        self.held += 1
        self.cause = cause if self.held == 1 else ""

    def stop(self) -> None:
        """Stale: nothing held back is told any more."""
        self.base, self.held, self.cause = None, 0, ""


class LiveView:
    """A view with watchers; `projection` is of the replica's current snapshot."""

    __slots__ = ("_frames", "id", "merged", "projection", "view", "watchers")

    def __init__(self, view: View, projection: Projection) -> None:
        self.view = view
        self.id = view.id()
        self.projection = projection
        self.watchers: dict[Peer, Watcher] = {}
        self._frames: dict[tuple[int, str], Frame | None] = {}
        self.merged: dict[int, frozenset[str]] = {}  # base → reasons of all that came since, taken together

    def move(self, projection: Projection) -> None:
        self.projection = projection
        self._frames = {}
        self.merged = {}

    def described(self, publisher: str) -> Frame:
        """The describe response as a notification, made once per position."""
        key = (0, publisher)  # no revision is 0, so no `after` has this key
        frame = self._frames.get(key)
        if frame is None:
            frame = Frame(notification("described", describe(self.projection, self.view, publisher)))
            self._frames[key] = frame
        return frame

    def after(self, base: Projection, cause: str, limits: Limits) -> Frame | None:
        """The `after` from `base`, made once per base; None where it would be insufficient."""
        key = (base.snapshot.position.revision, cause)
        if key not in self._frames:
            params = observe.after_params(base, self.projection, self.view, cause, limits)
            self._frames[key] = None if params is None else Frame(notification("after", params))
        return self._frames[key]


class Replica:
    """The session's current snapshot here, and who watches it."""

    def __init__(self, session: str, limits: Limits, target: Target, metrics: Metrics) -> None:
        self.session = session
        self.limits = limits
        self.target = target
        self.metrics = metrics
        self.snapshot: Snapshot | None = None
        self.steps: deque[Step] = deque(maxlen=STEPS_KEPT)
        self.views: dict[str, LiveView] = {}
        self.secret = b""
        self.digest: bytes | None = None
        self.publisher = "none"
        self.next_due: float | None = None

    @property
    def current(self) -> Snapshot:
        assert self.snapshot is not None, "asked only of an open replica"
        return self.snapshot

    @property
    def position(self) -> Position:
        return self.current.position

    def project(self, view: View) -> Projection:
        """The view of the current snapshot, for free where it is being watched."""
        live = self.views.get(view.id())
        if live is not None:
            return live.projection
        return project(self.current, view, self.limits, self.target)

    # Watchers

    def watch(self, peer: Peer, view: View, push: bool, pace_s: float, now: float) -> Projection:
        """Add or renew a watcher; the caller tells it the projection in the same step."""
        id = view.id()
        live = self.views.get(id)
        if live is None:
            live = self.views[id] = LiveView(view, self.project(view))
        watcher = live.watchers.get(peer)
        if watcher is None:
            live.watchers[peer] = Watcher(peer, live.projection, push, pace_s, now)
        else:
            watcher.push, watcher.pace_s, watcher.last_sent = push, pace_s, now
            watcher.behind = False
            watcher.untold = set()
            watcher.renew(live.projection)
        peer.views[id] = self.session
        return live.projection

    def unwatch(self, peer: Peer, view_id: str) -> bool:
        """Whether the peer had been watching it."""
        live = self.views.get(view_id)
        if live is None or live.watchers.pop(peer, None) is None:
            return False
        peer.views.pop(view_id, None)
        if not live.watchers:
            del self.views[view_id]
        return True

    # Fan-out

    def start(self, snapshot: Snapshot, secret: bytes, digest: bytes) -> None:
        """Open with what was read."""
        self.snapshot = snapshot
        self.secret, self.digest = secret, digest
        self.steps.clear()
        self.steps.append(Step(snapshot, (), frozenset()))

    def advance(self, step: Step, now: float, *, gap: bool = False) -> None:
        """Go to `step` and tell every watcher: an `after`, or why there is none. `gap`: revisions before it are unknown."""
        self.snapshot = step.snapshot
        self.digest = None
        if gap:
            self.steps.clear()
        self.steps.append(step)
        for live in list(self.views.values()):
            self._advance_view(live, step, now, gap)

    def _advance_view(self, live: LiveView, step: Step, now: float, gap: bool) -> None:
        before = live.projection
        after = project(step.snapshot, live.view, self.limits, self.target, before)
        kinds: set[str] = {"gap"} if gap else set()
        if not gap:
            for cause in step.causes or ("",):
                kinds |= observe.reasons(before, after, cause, step.touched, self.limits)
        live.move(after)
        cause = step.causes[0] if len(step.causes) == 1 else ""
        if kinds and not gap and live.after(before, cause, self.limits) is None:
            kinds.add("insufficient")  # all that apply are told
        frames: dict[frozenset[str], Frame] = {}
        for watcher in list(live.watchers.values()):
            if kinds:
                self._invalidate(live, watcher, kinds, frames, now)
            elif watcher.base is not None:
                watcher.hold(cause)
                if watcher.pace_s and now < watcher.last_sent + watcher.pace_s:
                    self._wait(watcher.last_sent + watcher.pace_s)
                else:
                    self._tell_after(live, watcher, frames, now)

    def _tell_after(self, live: LiveView, watcher: Watcher, frames: dict[frozenset[str], Frame], now: float) -> None:
        assert watcher.base is not None
        kinds = self._merged_reasons(live, watcher.base) if watcher.held > 1 else frozenset()
        frame = None if kinds else live.after(watcher.base, watcher.cause, self.limits)
        if frame is None:
            self._invalidate(live, watcher, kinds or {"insufficient"}, frames, now)
        elif watcher.peer.deliver(frame):
            watcher.base, watcher.held, watcher.cause, watcher.last_sent = live.projection, 0, "", now
            self.metrics.afters.inc()
        else:
            self._fall_behind(watcher, set())

    def _merged_reasons(self, live: LiveView, base: Projection) -> frozenset[str]:
        """Reasons that several revisions together give although none of them did: too many ids moved, say (§6.3)."""
        revision = base.snapshot.position.revision
        if revision not in live.merged:
            touched = self._touched_since(base.snapshot)
            live.merged[revision] = observe.reasons(base, live.projection, "", touched, self.limits)
        return live.merged[revision]

    def _touched_since(self, base: Snapshot) -> Iterator[str]:
        """Ids of the records that differ from `base`, and maybe of others; nothing is done before the first is asked for."""
        steps = self.since(base.position)
        if steps is None:
            yield from finish(differing(base, self.current))
        else:
            yield from frozenset().union(*[step.touched for step in steps[1:]])

    def _fall_behind(self, watcher: Watcher, kinds: set[str]) -> None:
        watcher.stop()
        watcher.behind = True
        watcher.untold |= kinds

    def _invalidate(
        self, live: LiveView, watcher: Watcher, kinds: Iterable[str], frames: dict[frozenset[str], Frame], now: float
    ) -> None:
        """Tell the kinds not yet told; the view is stale until it is described again."""
        new = frozenset(kinds) - watcher.told
        watcher.stop()
        if watcher.behind:
            watcher.untold |= new
            return
        if new:
            frame = frames.get(new)
            if frame is None:
                params = observe.invalidated_params(live.view, live.projection, new)
                frame = frames[new] = Frame(notification("invalidated", params))
            if not watcher.peer.deliver(frame):
                self._fall_behind(watcher, set(new))
                return
            watcher.told |= new
            self.metrics.invalidated(new)
        if watcher.push:
            at = watcher.last_sent + self._push_gap(watcher)
            if now >= at:
                self._push(live, watcher, now)
            else:
                self._wait(at)

    def _wait(self, at: float) -> None:
        self.next_due = at if self.next_due is None else min(at, self.next_due)

    def _push_gap(self, watcher: Watcher) -> float:
        return max(self.limits.push_min_ms / 1000, watcher.pace_s)

    def _push(self, live: LiveView, watcher: Watcher, now: float) -> None:
        if watcher.peer.deliver(live.described(self.publisher)):
            watcher.renew(live.projection)
            watcher.last_sent = now
        else:
            self._fall_behind(watcher, set())

    def due(self, now: float) -> None:
        """Send what was held back until now; `next_due` is the time to call again, None when nothing is held back."""
        self.next_due = None
        for live in list(self.views.values()):
            frames: dict[frozenset[str], Frame] = {}
            for watcher in list(live.watchers.values()):
                at = self._due_at(watcher)
                if at is not None and at <= now:
                    if watcher.base is None:
                        self._push(live, watcher, now)
                    else:
                        self._tell_after(live, watcher, frames, now)
                    at = self._due_at(watcher)
                if at is not None:
                    self._wait(at)

    def _due_at(self, watcher: Watcher) -> float | None:
        if watcher.behind:
            return None
        if watcher.base is None:
            return watcher.last_sent + self._push_gap(watcher) if watcher.push else None
        return watcher.last_sent + watcher.pace_s if watcher.held else None

    def drained(self, peer: Peer, now: float) -> None:
        """The peer's outbox has room again: its views that fell behind are told so."""
        for live in list(self.views.values()):
            watcher = live.watchers.get(peer)
            if watcher is not None and watcher.behind:
                watcher.behind = False
                kinds, watcher.untold = watcher.untold | {"behind"}, set()
                self._invalidate(live, watcher, kinds, {}, now)

    def tell_publisher(self, publisher: str) -> None:
        """The publisher's state changed: live views are told, nothing else changes for them."""
        if publisher == self.publisher:
            return
        self.publisher = publisher
        for live in self.views.values():
            frames: dict[int, Frame] = {}
            for watcher in live.watchers.values():
                if watcher.base is not None and not watcher.peer.deliver(
                    _of_publisher(live, watcher.base, publisher, frames)
                ):
                    self._fall_behind(watcher, set())

    def end(self, reason: str) -> tuple[Frame, list[Peer]]:
        """The session is over: the frame that says so, the last its views hear, and who has to hear it once."""
        params = msgspec.json.encode({"session": self.session, "reason": reason})
        frame = Frame(notification("ended", params))
        peers: dict[Peer, Any] = {}
        for id, live in self.views.items():
            for peer in live.watchers:
                peers[peer] = None
                peer.views.pop(id, None)
        self.views = {}
        return frame, list(peers)

    # Resume

    def since(self, position: Position) -> list[Step] | None:
        """The remembered steps from `position` on, that one first; None: not remembered."""
        steps = [step for step in self.steps if step.position.revision >= position.revision]
        return steps if steps and steps[0].position == position else None


def _of_publisher(live: LiveView, base: Projection, publisher: str, frames: dict[int, Frame]) -> Frame:
    """Names the position the watcher was told, for an `after` held back must bring a revision above it (protocol §2)."""
    revision = base.snapshot.position.revision
    if revision not in frames:
        params = observe.invalidated_params(live.view, base, (), publisher)
        frames[revision] = Frame(notification("invalidated", params))
    return frames[revision]


def result(members: bytes, target: Target) -> bytes:
    """A result that reached the store: `members` (without braces) and the target (protocol §4, end)."""
    return b"{" + members + (b"," if members else b"") + b'"agent_surface":{' + target.members() + b"}}"


class Resume:
    """What came behind one step, for one view, taken step by step.

    Every step is judged as a live watcher's would have been, so that what came and went in between is told; and all of
    them together, for it is one `after` that would tell them.
    """

    def __init__(self, since: Step, view: View, limits: Limits, target: Target) -> None:
        self._view, self._limits, self._target = view, limits, target
        self._first = self._last = project(since.snapshot, view, limits, target)
        self._causes: list[str] = []
        self._kinds: set[str] = set()
        self._touched: set[str] = set()
        self.steps = 0

    @property
    def position(self) -> Position:
        """Of the last step taken."""
        return self._last.snapshot.position

    def take(self, step: Step) -> None:
        """The next step."""
        projection = project(step.snapshot, self._view, self._limits, self._target, self._last)
        for cause in step.causes or ("",):
            self._kinds |= observe.reasons(self._last, projection, cause, step.touched, self._limits)
        self._last = projection
        self._causes = list(step.causes)
        self._touched |= step.touched
        self.steps += 1

    def outcome(self) -> tuple[set[str], bytes | None]:
        """Required reasons, or the params of the merged `after` (None: nothing came)."""
        if not self.steps:
            return set(), None
        if self.steps > 1:
            self._kinds |= observe.reasons(self._first, self._last, "", self._touched, self._limits)
        cause = self._causes[0] if self.steps == 1 and len(self._causes) == 1 else ""
        params = observe.after_params(self._first, self._last, self._view, cause, self._limits)
        kinds = self._kinds | ({"insufficient"} if params is None else set())
        return kinds, None if kinds else params
