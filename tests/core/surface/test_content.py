"""Texts cut to a number of code points, and the places where they stay whole."""

from typing import Any

import pytest

from gateway.core.surface import DESCRIBE, Facts
from gateway.core.surface.content import Whole, cut, protected
from tests.core.surface.shapes import shaped

LONG = "long-text"


@pytest.mark.parametrize(
    ("value", "told", "was"),
    [
        ("abcd", "abc", True),
        ("abc", "abc", False),
        ("e\u0301e\u0301", "e\u0301e", True),
        ("👨‍👩‍👧", "👨\u200d👩", True),
        ({"abcdef": ["abcd", 12345, None, True]}, {"abcdef": ["abc", 12345, None, True]}, True),
        ([], [], False),
    ],
)
def test_values_are_cut_at_any_depth_names_and_numbers_never(value: Any, told: Any, was: bool) -> None:
    assert cut(value, 3) == (told, was)


def test_a_marked_text_comes_out_whole_and_plain() -> None:
    told, was = cut([Whole(LONG)], 1)
    assert (told, was) == ([LONG], False) and type(told[0]) is str


def test_the_protected_places_of_a_describe() -> None:
    context = {
        "page": {"title": LONG, "route": LONG},
        "regions": [{"id": LONG, "title": LONG, "parent": LONG, "fields": [{"name": LONG, "source": LONG}]}],
        "state": {"id": LONG},
        "unavailable": [{"capability": LONG, "record": LONG, "reason": LONG}],
        "feedback": [{"id": LONG, "level": LONG, "message": LONG, "record": LONG, "region": LONG, "capability": LONG}],
        "missing": [LONG],
        "records": [
            {"id": LONG, "region": LONG, "fields": {"a": LONG, "p": {"$placeholder": {"record": LONG, "field": LONG}}}}
        ],
        "recordIds": [LONG],
    }
    told = shaped(context, {"truncate_content": 2}, DESCRIBE)
    assert told["page"] == {"title": "lo", "route": LONG} and told["state"] == {"id": "lo"}
    region = {"id": LONG, "title": "lo", "parent": LONG, "fields": [{"name": LONG, "source": LONG}]}
    assert told["regions"] == [region]
    assert told["unavailable"] == [{"capability": LONG, "record": LONG, "reason": "lo"}]
    assert [name for name, value in told["feedback"][0].items() if value == "lo"] == ["message"]
    assert told["missing"] == told["recordIds"] == [LONG]
    placeholder = {"$placeholder": {"record": LONG, "field": LONG}}
    assert told["records"] == [{"id": LONG, "region": LONG, "fields": {"a": "lo", "p": placeholder}}]


def test_a_protected_text_stays_whole_wherever_select_puts_it() -> None:
    facts = Facts(protected=(("records", "*", "id"),), aliased=frozenset({("r", "who")}))
    record = {"id": LONG, "region": "r", "fields": {"who": LONG, "note": LONG}}
    told = shaped({"records": [record]}, {"select": ["id", "fields.who", "fields.note"], "truncate_content": 3}, facts)
    assert told["records"] == [{"id": LONG, "fields.who": LONG, "fields.note": "lon"}]


def test_an_alias_is_one_of_its_region_only() -> None:
    facts = Facts(aliased=frozenset({("r", "who")}))
    records: list[Any] = [{"region": region, "fields": {"who": LONG}} for region in ("r", "s")]
    told = shaped(
        {"records": [*records, 5, {"fields": LONG}, {"fields": {"who": LONG}}]}, {"truncate_content": 1}, facts
    )
    assert [r["fields"]["who"] for r in told["records"][:2]] == [LONG, "l"]
    assert told["records"][2:] == [5, {"fields": "l"}, {"fields": {"who": "l"}}]


@pytest.mark.parametrize("envelope", [5, [LONG], {"page": LONG}, {"page": [LONG]}, {"records": {"a": LONG}}, {}])
def test_places_that_are_not_there_change_nothing(envelope: Any) -> None:
    facts = Facts(protected=(("page", "route"), ("records", "*", "id", "x")), aliased=frozenset({("r", "who")}))
    assert protected(envelope, facts) == envelope


def test_nothing_is_said_where_nothing_was_cut() -> None:
    told = shaped({"a": "abc", "records": []}, {"truncate_content": 3})
    assert "truncated" not in told and not {"truncate_content", "content_truncated"} & set(told["agent_surface"])
