"""Every limit of protocol §10 under its wire name."""

import pytest

from gateway.core.limits import Limits


def test_the_defaults_are_those_of_the_protocol() -> None:
    told = Limits().wire()
    assert len(told) == 54
    assert list(told)[:4] == ["windowRecords", "windowDefault", "recordIds", "records"]
    assert (told["records"], told["responseBytes"], told["afterMoves"], told["outcomeMs"]) == (
        100_000,
        262_144,
        32,
        300_000,
    )


def test_a_limit_below_one_is_no_limit() -> None:
    with pytest.raises(ValueError, match="after_moves"):
        Limits(after_moves=0)


def test_what_a_peer_may_hold_is_the_sum_of_its_caps() -> None:
    assert Limits().peer_bytes() == 4 * 4_194_304 + 2 * 1_048_576
    assert Limits(publish_bytes=1_000, outbox_bytes=10).peer_bytes() == 4_020
