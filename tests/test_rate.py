"""The token bucket: never more than it says, and its waiting times are enough."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.rate import Bucket


def test_a_burst_then_the_rate() -> None:
    bucket = Bucket(10, 20, 0.0)
    assert [bucket.take(0.0) for _ in range(20)] == [0] * 20
    assert bucket.take(0.0) == 100
    assert bucket.take(0.05) == 50
    assert bucket.take(0.1) == 0
    assert bucket.take(0.1) == 100


def test_it_fills_up_to_the_burst_and_no_further() -> None:
    bucket = Bucket(10, 2, 0.0)
    assert [bucket.take(1_000.0) for _ in range(3)] == [0, 0, 100]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = Bucket(10, 1, 100.0)
    assert bucket.take(100.0) == 0
    assert bucket.take(0.0) > 0


@given(st.integers(1, 5_000), st.integers(1, 10), st.lists(st.floats(0, 0.5), max_size=40))
def test_who_waits_as_long_as_was_told_is_served(rate: int, factor: int, waits: list[float]) -> None:
    now, burst = 0.0, rate * factor
    bucket = Bucket(rate, burst, now)
    for _ in range(burst):
        assert bucket.take(now) == 0
    taken = burst
    for wait in waits:
        now += wait
        told = bucket.take(now)
        if told:
            now += told / 1000
            assert bucket.take(now) == 0
        taken += 1
        assert taken <= burst + now * rate + 1e-6
