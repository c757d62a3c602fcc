"""A position is a pair and nothing more."""

from gateway.core.position import Position


def test_positions_are_equal_by_epoch_and_revision() -> None:
    assert Position("e", 1) == Position("e", 1) != Position("f", 1)
    assert Position("e", 1) != Position("e", 2)
