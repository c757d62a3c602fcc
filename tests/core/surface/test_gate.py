"""Refusals in their order, with what a caller needs to ask rightly; and how the keys of `select` resolve."""

from typing import Any

import pytest

from gateway.core.surface import Ceiling, Facts, Refusal, Target, parse, reshape
from gateway.core.surface.arrays import taken_apart
from gateway.core.surface.gate import place
from tests.core.surface.shapes import Json, shaped

ENVELOPE: Json = {"recordsTotal": 7, "records": [{"id": "T-1", "fields": {"status": "ok", "note": None}}]}
PAGE = Ceiling(limit=3, source="default", kind="pagination", total=7, maximum=100)
ASK: Json = {"filter": ["id=1"]}


def refusal(knobs: Json, facts: Facts | None = None, envelope: Any = ENVELOPE) -> Refusal:
    parsed = parse(knobs)
    assert not isinstance(parsed, Refusal)
    told = reshape(envelope, parsed, facts or Facts())
    assert isinstance(told, Refusal), told
    return told


def test_a_page_is_refused_with_the_facts_and_the_ways_out() -> None:
    told = refusal(ASK, Facts(ceiling=PAGE, target=Target("argv", "unix:///s")))
    assert told.data() == {
        "discarded": ["filter"],
        "limit": 3,
        "offset": 0,
        "total": 7,
        "source": "default",
        "remedies": [{"filter_scope": "page"}, {"limit": 7, "offset": 0}],
        "agent_surface": {
            "db_path_source": "argv",
            "db_path_resolved": "unix:///s",
            "query_limited": True,
            "query_limit": 3,
            "query_limit_source": "default",
            "query_limit_kind": "pagination",
            "universe_total": 7,
            "filter_scope": "page",
            "filter_incomplete": True,
        },
    }
    assert refusal({"count_only": True}, Facts(ceiling=PAGE)).reason == "count_over_page"


@pytest.mark.parametrize(
    "query",
    [
        Ceiling(limit=3, source="flag", kind="pagination", total=101, maximum=100),
        Ceiling(limit=3, source="flag", kind="pagination", total=7),
        Ceiling(limit=9, source="flag", kind="pagination", total=7, records_total=8, maximum=100),
        Ceiling(limit=9, source="flag", kind="pagination", total=0, offset=4, maximum=100),
    ],
)
def test_a_wider_limit_is_no_remedy_where_it_would_not_be_answered(query: Ceiling) -> None:
    told = refusal(ASK, Facts(ceiling=query))
    assert told.facts["remedies"] == [{"filter_scope": "page"}]
    assert told.facts["total"] == (query.records_total if query.records_total is not None else query.total)


def test_every_remedy_is_answered() -> None:
    rows = {"records": [{"id": n} for n in range(3)]}
    for remedy in refusal({"filter": ["id=1"]}, Facts(ceiling=PAGE), rows).facts["remedies"]:
        knobs = ASK | {name: remedy[name] for name in remedy if name == "filter_scope"}
        limit = remedy.get("limit", PAGE.limit)
        query = Ceiling(limit=limit, source="flag", kind="pagination", total=7, maximum=100)
        assert shaped(rows, knobs, Facts(ceiling=query))["agent_surface"]["output_count"] == 1


@pytest.mark.parametrize(
    ("knobs", "facts", "envelope", "reason", "discarded"),
    [
        (
            {"max_output_bytes": 9, "max_items": 1, "sort": "id", "dedupe_by": "id", "count_only": True} | ASK,
            Facts(streamed=True, ceiling=PAGE),
            ENVELOPE,
            "stream_whole_set_knob",
            ("count_only", "sort", "dedupe_by", "max_output_bytes", "max_items"),
        ),
        (ASK, Facts(streamed=True, ceiling=PAGE), {"n": 1}, "stream_filter", ("filter",)),
        (ASK | {"dedupe_by": "x", "sort": "y"}, Facts(ceiling=PAGE), {"n": 1}, "no_result_array", ()),
        (ASK | {"count_only": True}, Facts(ceiling=PAGE), ENVELOPE, "filter_over_page", ("filter",)),
        ({"count_only": True, "sort": "nope"}, Facts(ceiling=PAGE), ENVELOPE, "count_over_page", ("count_only",)),
        ({"filter": ["nope=1"], "sort": "nope"}, Facts(), ENVELOPE, "key_absent", ("filter",)),
        ({"sort": "recordsTotal", "dedupe_by": "nope"}, Facts(), ENVELOPE, "key_envelope_only", ("sort",)),
        ({"dedupe_by": "nope", "select": ["nope"]}, Facts(), ENVELOPE, "key_absent", ("dedupe_by",)),
        ({"select": ["nope", "recordsTotal"]}, Facts(), ENVELOPE, "select_unresolved", ("select",)),
    ],
)
def test_the_first_that_applies_answers(
    knobs: Json, facts: Facts, envelope: Json, reason: str, discarded: tuple[str, ...]
) -> None:
    told = refusal(knobs, facts, envelope)
    assert told.reason == reason
    assert told.discarded == (discarded or ("filter", "sort", "dedupe_by"))


def test_page_lifts_the_page_refusals_and_nothing_else() -> None:
    lifted = {"filter_scope": "page"}
    assert refusal({"filter": ["nope=1"]} | lifted, Facts(ceiling=PAGE)).reason == "key_absent"
    assert refusal(ASK | lifted, Facts(ceiling=PAGE), {"n": 1}).reason == "no_result_array"
    assert refusal(ASK | lifted, Facts(streamed=True)).reason == "stream_filter"
    assert shaped(ENVELOPE, {"count_only": True} | lifted, Facts(ceiling=PAGE))["count"] == 1


def test_a_window_that_was_shortened_is_a_page() -> None:
    whole = Ceiling(limit=9, source="default", kind="pagination", total=7)
    assert refusal(ASK, Facts(ceiling=whole, shortened=True)).reason == "filter_over_page"


def test_the_facts_of_a_wrong_key() -> None:
    told = refusal({"filter": ["statuss=1"]}, Facts(synonyms={"status": "fields.status", "note": "fields.note"}))
    assert told.data() == {"discarded": ["filter"], "suggestions": ["status"], "key": "statuss", "array": "records"}
    assert refusal({"sort": "zzz"}).data() == {
        "discarded": ["sort"],
        "suggestions": [],
        "key": "zzz",
        "array": "records",
    }
    told = refusal({"sort": "recordsTotal"})
    assert told.data() == {"discarded": ["sort"], "key": "recordsTotal", "array": "records"}
    assert refusal({"select": ["recordsTotl"]}).data() == {
        "discarded": ["select"],
        "suggestions": [],
        "keys": ["recordsTotl"],
    }
    assert refusal({"sort": "idd"}, envelope=[{"id": 1}]).data() == {
        "discarded": ["sort"],
        "suggestions": ["id"],
        "key": "idd",
    }


def test_a_declared_field_no_record_carries_is_not_suggested_for_itself() -> None:
    told = refusal({"sort": "gate"}, Facts(synonyms={"gate": "fields.gate", "gates": "fields.gates"}))
    assert told.suggestions == ("gates",)


@pytest.mark.parametrize(
    ("key", "stands"),
    [
        ("id", "element"),
        ("fields.note", "element"),
        ("status", "element"),
        ("status.x", "absent"),
        ("records", "envelope"),
        ("recordsTotal", "envelope"),
        ("records.0", "absent"),
        ("fields.gone", "absent"),
    ],
)
def test_where_a_key_resolves(key: str, stands: str) -> None:
    facts = Facts(synonyms={"status": "fields.status"})
    assert place(key, taken_apart(ENVELOPE, facts), facts) == stands


def test_no_rows_are_no_evidence() -> None:
    told = shaped({"records": []}, {"filter": ["x=1"], "sort": "y", "dedupe_by": "z", "select": ["q"]})
    assert told["records"] == [] and "key_resolution" not in told["agent_surface"]


def test_a_select_answered_in_part_says_which_part() -> None:
    told = shaped(ENVELOPE, {"select": ["idd", "id", "zzz", "idd"]})
    record = told["agent_surface"]
    assert told["records"] == [{"id": "T-1"}]
    assert (record["key_resolution"], record["resolved_keys"]) == ("partial", ["id"])
    assert (record["unresolved_keys"], record["key_suggestions"]) == (["idd", "zzz", "idd"], ["fields", "id"])
    assert record["select"] == ["idd", "id", "zzz", "idd"] and "vocabulary_partial" not in record


def test_after_a_write_nothing_is_refused_and_nothing_resolved() -> None:
    told = shaped(ENVELOPE, {"filter": ["nope!=1"], "select": ["id", "x"]}, Facts(mutates=True, ceiling=PAGE))
    assert told["records"] == [{"id": "T-1"}] and "key_resolution" not in told["agent_surface"]
