"""The strategies make only what the protocol accepts, and make each kind of thing at all."""

from collections import Counter
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.limits import Limits

from . import alter, invent
from .plain import canonical
from .session import patch, publish, unchanged
from .strategies import SMALL, change_for, snapshots

MANY = settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow]
)


@MANY
@given(st.data(), st.sampled_from([SMALL, Limits()]))
def test_no_change_is_refused(data: st.DataObject, limits: Limits) -> None:
    state = publish(data.draw(snapshots(limits)), limits)
    for _ in range(data.draw(st.integers(1, 4))):
        before = canonical(state)
        after = patch(state, data.draw(change_for(state, limits)), limits)
        assert canonical(state) == before, "patch changed the state it was given"
        state = after


def test_every_operation_changes_something_now_and_then() -> None:
    effective: Counter[str] = Counter()
    for seed in range(60):
        rng = Random(seed)
        state = publish(invent.snapshot(rng, 30, SMALL), SMALL)
        for name in alter.OPERATIONS:
            after = patch(state, alter.change(rng, state, [name], SMALL), SMALL)
            effective[name] += not unchanged(state, after)
    assert effective["edit_nothing"] == 0
    for name in alter.OPERATIONS.keys() - {"edit_nothing"}:
        assert effective[name] > 5, (name, effective)
