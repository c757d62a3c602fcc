"""The byte ceiling: every value of it from 1 to beyond the full size (surface behaviour §5.9)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.surface import Facts, Target, stub
from gateway.core.surface.ceiling import least, within
from tests.core.surface.shapes import SURFACE, Json, compact, envelopes, knob_sets, shaped

TARGET = Target("default", "unix:///s")


def arrays(value: Any) -> int:
    """Elements of all direct arrays."""
    return sum(len(item) for item in value.values() if isinstance(item, list))


def check(whole: Json, told: Any, maximum: int) -> None:
    """What holds of every answer under a ceiling; `whole` is the answer without it."""
    assert json.loads(compact(told)) == told
    if "agent_surface" not in told:
        assert told == stub(maximum)
        return
    record, size = told["agent_surface"], len(compact(told))
    SURFACE.validate(record)
    assert size <= maximum
    gone = arrays(whole) - arrays(told)
    if not gone:
        assert told == whole
        return
    assert (record["output_truncated"], record["dropped"], record["max_output_bytes"]) == (True, gone, maximum)
    assert record["output_count"] == len(told["records"]) and told["truncated"] is True
    assert whole["records"][: len(told["records"])] == told["records"]
    assert all(told[name] in ([], whole[name]) for name in ("zones", "areas") if name in whole)
    assert told["note"] == whole["note"]


def test_every_ceiling_from_1_to_beyond_the_whole() -> None:
    records = [{"id": n, "text": "é😀" * (n % 4)} for n in range(14)]
    envelope = {"note": "n", "records": records, "zones": list(range(9)), "areas": ["x"] * 3}
    whole = shaped(envelope, {"max_items": 99}, Facts(target=TARGET))
    told = [
        shaped(envelope, {"max_items": 99, "max_output_bytes": maximum}, Facts(target=TARGET))
        for maximum in range(1, len(compact(whole)) + 120)
    ]
    for maximum, answer in enumerate(told, 1):
        check(whole, answer, maximum)
    kept = [arrays(answer) for answer in told]
    assert kept[0] == 0 and kept[-1] == arrays(whole) and told[-1] == whole
    assert {len(answer["records"]) for answer in told if "records" in answer} == set(range(15))
    assert any(answer.get("records") == [] and "agent_surface" in answer for answer in told)


@given(envelopes, knob_sets, st.integers(1, 600))
def test_any_shaped_envelope_stays_within_its_ceiling(envelope: Json, knobs: Json, maximum: int) -> None:
    knobs = knobs | {"allow_unknown_keys": True}
    whole = shaped(envelope, knobs | {"max_output_bytes": 1_000_000}, Facts(target=TARGET))
    told = shaped(envelope, knobs | {"max_output_bytes": maximum}, Facts(target=TARGET))
    if "count" in told:
        assert told == whole and len(compact(told)) <= maximum
    else:
        check(whole, told, maximum)


@given(envelopes, st.integers(1, 600), st.integers(0, 600))
def test_what_is_outside_counts_towards_the_ceiling(envelope: Json, maximum: int, outside: int) -> None:
    told = shaped(envelope, {"max_output_bytes": maximum}, Facts(outside=outside))
    if "agent_surface" in told:
        assert len(compact(told)) + outside <= maximum
        assert told["agent_surface"].get("max_output_bytes", maximum) == maximum
    else:
        assert told == stub(maximum)


def test_a_count_that_does_not_fit_is_the_stub() -> None:
    assert shaped({"records": [1]}, {"count_only": True, "max_output_bytes": 60}) == stub(60)


@pytest.mark.parametrize("maximum", range(1, 20))
def test_a_bare_array_loses_elements_from_its_end(maximum: int) -> None:
    told = shaped([1, "é", 3, [4]], {"max_output_bytes": maximum})
    fitting = [n for n in range(5) if len(compact([1, "é", 3, [4]][:n])) <= maximum]
    assert told == ([1, "é", 3, [4]][: max(fitting)] if fitting else stub(maximum))


def test_a_scalar_is_never_sliced() -> None:
    assert shaped("text", {"max_output_bytes": 6}) == "text"
    assert shaped("text", {"max_output_bytes": 5}) == stub(5)


def test_least_is_the_smallest_room_without_a_stub() -> None:
    envelope = shaped({"note": "n", "records": [1, 2, 3], "zones": [4, 5]}, {"max_items": 9})
    smallest = least(envelope, "records", 500)
    assert "agent_surface" in within(envelope, "records", 500, smallest)
    assert within(envelope, "records", 500, smallest - 1) == stub(500)


def test_an_odd_member_named_truncated_is_replaced_within_the_ceiling() -> None:
    envelope = {"truncated": 0, "note": "n", "records": list(range(40))}
    for maximum in range(150, 260):
        told = shaped(envelope, {"max_output_bytes": maximum})
        assert told == stub(maximum) or len(compact(told)) <= maximum
