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
