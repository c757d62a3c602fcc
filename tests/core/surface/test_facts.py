"""What a command says of its own query."""

import pytest

from gateway.core.surface import Ceiling, Facts


def ceiling(limit: int, total: int | None, offset: int = 0, records_total: int | None = None) -> Ceiling:
    return Ceiling(
        limit=limit, source="flag", kind="pagination", offset=offset, total=total, records_total=records_total
    )


@pytest.mark.parametrize(
    ("query", "cut"),
    [
        (ceiling(5, 5), False),
        (ceiling(5, 6), True),
        (ceiling(9, 5), False),
        (ceiling(9, 5, offset=1), True),
        (ceiling(9, None), False),
        (ceiling(9, None, offset=1), True),
        (ceiling(9, 5, records_total=5), False),
        (ceiling(9, 5, records_total=6), True),
        (Ceiling(limit=1, source="flag", kind="top-k", offset=3, total=9), False),
    ],
)
def test_a_ceiling_cut_something_or_not(query: Ceiling, cut: bool) -> None:
    assert query.cut() is cut
    assert Facts(ceiling=query).is_page() is cut
    assert Facts(ceiling=query, shortened=True).is_page()


def test_records_by_id_are_a_page_only_when_shortened() -> None:
    assert not Facts().is_page()
    assert Facts(shortened=True).is_page()
