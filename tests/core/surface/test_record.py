"""The record: its order, and the facts of store and query."""

import pytest

from gateway.core.surface import ORDER, Ceiling, Facts, Target, ordered, process
from tests.core.surface.shapes import STRUCTURE, SURFACE, Json


def test_the_order_is_that_of_the_seed() -> None:
    assert list(ORDER) == list(STRUCTURE["$defs"]["AgentSurfaceMeta"]["properties"])


def test_what_is_not_so_is_left_out_and_a_zero_is_told() -> None:
    given: Json = {"sort": None, "select": [], "count_only": False, "output_count": 0, "input_count": 0, "dropped": 0}
    assert list(ordered(given).items()) == [("input_count", 0), ("output_count", 0), ("dropped", 0)]


@pytest.mark.parametrize("source", ["argv", "xdg", "default"])
@pytest.mark.parametrize("mutates", [True, False])
@pytest.mark.parametrize("use_active", [True, False])
def test_the_dispensation_is_told_where_it_changed_something(source: str, mutates: bool, use_active: bool) -> None:
    told = process(Facts(target=Target(source, "unix:///s", use_active), mutates=mutates))  # type: ignore[arg-type]
    assert ("db_path_dispensation" in told) is (mutates and use_active and source != "argv")
    SURFACE.validate(told)


@pytest.mark.parametrize("kind", ["pagination", "top-k"])
@pytest.mark.parametrize("limit", [3, 7, 9])
@pytest.mark.parametrize("offset", [0, 2])
def test_the_scope_of_a_query(kind: str, limit: int, offset: int) -> None:
    query = Ceiling(limit=limit, source="flag", kind=kind, offset=offset, total=7)  # type: ignore[arg-type]
    told = process(Facts(ceiling=query))
    SURFACE.validate(told)
    scope = "top-k" if kind == "top-k" else "page" if offset or limit < 7 else "universe"
    assert (told["filter_scope"], told.get("filter_incomplete")) == (scope, True if scope == "page" else None)
    assert ("universe_total" in told) is (kind == "pagination")
    assert told["query_limited"] is True and told["query_limit"] == limit


def test_records_by_id_that_were_shortened_say_so_without_a_ceiling() -> None:
    assert process(Facts(shortened=True)) == {"filter_scope": "page", "filter_incomplete": True}
    assert process(Facts()) == {}
