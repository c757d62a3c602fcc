"""Full jitter: bounds, when it begins anew, and that a herd does not return as one."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway.client import ASKED_MAX_S, BACK_OFF_MAX_S, BACK_OFF_MIN_S, STABLE_S, BackOff


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30)), max_size=20), st.floats(0, 1000), st.floats(0, 1000))
def test_back_off_is_full_jitter_within_its_bounds(steps: list[tuple[float, int]], asked: float, jitter: float) -> None:
    """Waits are within [0, 500 ms · 2ⁿ], never above 20 s, and begin anew only after a stable time."""
    now, chance_now = 0, 0.0
    back_off = BackOff(lambda: chance_now, lambda: now)
    failures = 0
    for chance, works_s in steps:
        back_off.succeeded()
        now, chance_now = now + works_s, chance
        if works_s >= STABLE_S:
            failures = 0
        ceiling = min(BACK_OFF_MAX_S, BACK_OFF_MIN_S * 2**failures)
        assert back_off.wait_s() == chance * ceiling
        failures += 1
    wait_s, least = back_off.wait_s(asked, jitter), min(asked, ASKED_MAX_S)
    assert least <= wait_s <= least + max(min(jitter, ASKED_MAX_S), BACK_OFF_MAX_S)


def spread(waits: list[float]) -> int:
    """The most of them within any 50 ms."""
    waits = sorted(waits)
    return max(sum(1 for other in waits if wait <= other < wait + 0.05) for wait in waits)


def test_a_herd_is_spread() -> None:
    """BR-077, the client's side: 2 000 readers that lose their gateway at once, told nothing or all told the same time."""
    rng = Random(77)
    herd = [BackOff(rng.random, lambda: 0.0) for _ in range(2_000)]
    assert spread([back_off.wait_s() for back_off in herd]) < 2_000 * 0.05 / 0.5 * 1.3
    assert spread([back_off.wait_s() for back_off in herd]) < 2_000 * 0.05 / 1.0 * 1.5
    told = [back_off.wait_s(at_least_s=3.0) for back_off in herd]
    assert min(told) >= 3.0
    assert spread(told) < 2_000 * 0.05 / 2.0 * 1.7
    drained = [BackOff(rng.random, lambda: 0.0).wait_s(at_least_s=1.0, jitter_s=10.0) for _ in herd]
    assert spread(drained) < 2_000 * 0.05 / 10.0 * 2.5
