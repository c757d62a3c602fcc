"""Laws 1–4 and 8 of the core as properties: our projections and observations against the naive oracle.

One example is one session: a random snapshot, several views of it (windows in the middle, ids that are not there,
narrowed scopes), then random changes. After each, every view is checked: what it says, byte for byte; whether an
`after` or a reason is due, and which; and that the replica a client keeps equals a fresh describe.
"""

import json
from random import Random
from typing import Any

import msgspec
from hypothesis import given, note, settings
from hypothesis import strategies as st

from gateway.core import model, observe, view
from gateway.core.change import difference, patched
from gateway.core.ingest import Dropped, content
from gateway.core.limits import Limits
from gateway.core.order import finish
from gateway.core.params import ChangeIn, SnapshotIn, ViewParams
from gateway.core.position import Position
from tests.conftest import EXAMPLES
from tests.oracle import alter, invent, strategies
from tests.oracle import describe as oracle
from tests.oracle import reasons as oracle_reasons
from tests.oracle import session as oracle_session
from tests.oracle.plain import Object, canonical, text
from tests.oracle.replica import apply_after, without_publisher

TARGET = view.Target("default", "unix:///var/lib/gateway/store.sock")
TARGET_TOLD = {"db_path_source": "default", "db_path_resolved": "unix:///var/lib/gateway/store.sock"}
EPOCH = "k3v9"
STEPS = 8


def as_told(described: bytes) -> bytes:
    """The same text with the oracle's spelling of exponents; the order of members is kept."""
    return text(json.loads(described)).encode()


class Watched:
    """One view of the session under test, and the replica a client of it keeps."""

    def __init__(self, asked: Object, scope: Any, snapshot: model.Snapshot, limits: Limits) -> None:
        self.asked, self.scope, self.limits = asked, scope, limits
        granted = None if scope is None else tuple(sorted(scope))
        params = msgspec.convert({"session": "s"} | asked, ViewParams)
        self.view = view.view_of(params, granted, limits)
        self.last = view.project(snapshot, self.view, limits, TARGET)
        self.replica = json.loads(view.describe(self.last, self.view, "none"))

    def told(self, state: Object, snapshot: model.Snapshot) -> bytes:
        """The oracle's describe response, as text."""
        told = oracle.describe(
            state,
            session="s",
            view_id=self.view.id(),
            view=self.asked,
            scope=self.scope,
            epoch=snapshot.position.epoch,
            revision=snapshot.position.revision,
            as_of=view.time_text(snapshot.as_of),
            target=TARGET_TOLD,
            limits=self.limits,
            publisher="none",
        )
        return text(told).encode()

    def step(self, before: Object, after: Object, snapshot: model.Snapshot, cause: str, touched: Any) -> None:
        projection = view.project(snapshot, self.view, self.limits, TARGET, self.last)
        fresh = view.describe(projection, self.view, "none")
        assert fresh == view.describe(view.project(snapshot, self.view, self.limits, TARGET), self.view, "none")
        assert as_told(fresh) == self.told(after, snapshot)
        declared = {"kind": cause} if cause else None
        due = oracle_reasons.required_reasons(before, after, declared, self.asked, self.scope, self.limits)
        found = observe.reasons(self.last, projection, cause, touched, self.limits)
        assert observe.ranked(found) == due
        if not due:
            params = observe.after_params(self.last, projection, self.view, cause, self.limits)
            assert params is not None
            assert len(params) <= self.limits.after_bytes
            self.replica = apply_after(self.replica, json.loads(params))
            assert canonical(without_publisher(self.replica)) == canonical(without_publisher(json.loads(fresh)))
        self.replica = json.loads(fresh)
        self.last = projection


def reloaded(snapshot: model.Snapshot) -> model.Snapshot:
    """The snapshot as another node would read it from the store."""
    return finish(
        model.load(
            snapshot.position,
            snapshot.as_of,
            {name: model.encode_part(name, getattr(snapshot, name)) for name in model.PARTS},
            {id: model.encode_record(record) for id, record in snapshot.records.items()},
            {id: record.score for id, record in snapshot.records.items()},
        )
    )


@given(st.data())
def test_views_converge_and_tell_the_truth(data: st.DataObject) -> None:
    limits = data.draw(st.sampled_from([strategies.SMALL, Limits(after_bytes=2**20, response_bytes=2**24)]))
    limits = msgspec.structs.replace(limits, after_bytes=2**22, response_bytes=2**24)
    published = data.draw(strategies.snapshots(limits))
    state = oracle_session.publish(published, limits)
    dropped = Dropped()
    clean = finish(content(msgspec.convert(published, SnapshotIn), limits, dropped))
    assert dropped.told() == oracle_session.dropped_by_publish(published, limits)
    change = finish(difference(model.EMPTY, clean))
    snapshot = finish(model.apply(model.EMPTY, change, Position(EPOCH, 1), 1_795_000_000_000))
    watched = [
        Watched(
            data.draw(strategies.views_for(state, limits)), data.draw(strategies.scopes_for(state)), snapshot, limits
        )
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    for each in watched:
        assert as_told(view.describe(each.last, each.view, "none")) == each.told(state, snapshot)
    for _ in range(data.draw(st.integers(1, STEPS))):
        whole = data.draw(st.integers(0, 5)) == 0
        dropped = Dropped()
        if whole:
            given_ = data.draw(strategies.snapshots(limits))
            after = oracle_session.publish(given_, limits)
            change = finish(difference(snapshot, finish(content(msgspec.convert(given_, SnapshotIn), limits, dropped))))
        else:
            given_ = data.draw(strategies.change_for(state, limits))
            note(given_)
            after = oracle_session.patch(state, given_, limits)
            change = finish(patched(snapshot, msgspec.convert(given_, ChangeIn), limits, dropped))
            assert dropped.told() == oracle_session.dropped_by_patch(state, given_, limits)
        assert change.empty() == oracle_session.unchanged(state, after)
        declared = data.draw(strategies.causes())
        cause = declared["kind"] if declared else ""
        position = Position(EPOCH, snapshot.position.revision + 1)
        travelled = model.decode_change(model.encode_change(change))
        new = finish(model.apply(snapshot, travelled, position, snapshot.as_of + 7))
        touched = travelled.touched()
        assert finish(model.differing(snapshot, new)) <= touched
        for each in watched:
            each.step(state, after, new, cause, touched)
        back = finish(model.apply(new, model.inverse(snapshot, change), snapshot.position, snapshot.as_of))
        again = reloaded(new)
        for each in watched:
            for one, other in ((back, snapshot), (again, new)):
                assert view.describe(view.project(one, each.view, limits, TARGET), each.view, "none") == view.describe(
                    view.project(other, each.view, limits, TARGET), each.view, "none"
                )
        state, snapshot = after, new


LONG = 300
"""Changes of one long session."""
LONG_EXAMPLES = max(1, EXAMPLES // 25)
"""Long sessions: as many changes in all as the other property makes."""


@given(strategies.seeds(), st.integers(0, 60))
@settings(max_examples=LONG_EXAMPLES)
def test_a_long_session_converges(random: Random, size: int) -> None:
    """Hundreds of changes of one session, six views at once; each step is checked as above."""
    limits = msgspec.structs.replace(strategies.SMALL, after_bytes=2**22, response_bytes=2**24)
    published = invent.snapshot(random, size, limits)
    state = oracle_session.publish(published, limits)
    clean = finish(content(msgspec.convert(published, SnapshotIn), limits, Dropped()))
    change = finish(difference(model.EMPTY, clean))
    snapshot = finish(model.apply(model.EMPTY, change, Position(EPOCH, 1), 1_795_000_000_000))
    watched = [
        Watched(invent.view(random, state, limits), None if n % 2 else invent.granted(random, state), snapshot, limits)
        for n in range(6)
    ]
    for _ in range(LONG):
        operations = random.choices(list(alter.OPERATIONS), k=random.choice([1, 1, 2, 4]))
        given_ = alter.change(random, state, operations, limits)
        after = oracle_session.patch(state, given_, limits)
        change = finish(patched(snapshot, msgspec.convert(given_, ChangeIn), limits, Dropped()))
        position = Position(EPOCH, snapshot.position.revision + 1)
        new = finish(model.apply(snapshot, change, position, snapshot.as_of + 7))
        for each in watched:
            each.step(state, after, new, "", change.touched())
        state, snapshot = after, new
