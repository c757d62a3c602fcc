"""The layer as (envelope, knobs, facts) → envelope or refusal: the vectors, and its laws against a naive recount."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.surface import ORDER, Ceiling, Facts, Refusal, Shaped, Target, parse, reshape
from gateway.core.surface.pipeline import passes
from tests.core.surface.shapes import SURFACE, Json, compact, envelopes, knob_sets, naive, shaped

DATA = Path(__file__).parents[2] / "data"
SHARED = Path(__file__).parents[4] / "shared" / "surface"
VECTORS = json.loads((DATA / "vectors-shared.json").read_text())
PAGE = Ceiling(limit=3, source="default", kind="pagination", total=7)
STORE = Target("default", "unix:///s")


def facts(context: Json) -> Facts:
    query, target = context.get("query"), context.get("target")
    if query:
        query = {name: query[name] for name in query if name != "universe_total"} | {
            "total": query.get("universe_total")
        }
    return Facts(
        declared=tuple(context.get("declared_keys", VECTORS["default_declared_keys"])),
        aliases=context.get("aliases", {}),
        ceiling=Ceiling(**query) if query else None,
        target=Target(**target) if target else None,
        mutates=context.get("mutates", False),
        streamed=context.get("streamed", False),
    )


def run(vector: Json) -> Json:
    knobs = parse(vector["knobs"])
    told = knobs if isinstance(knobs, Refusal) else reshape(vector["envelope"], knobs, facts(vector["context"]))
    if isinstance(told, Shaped):
        return {"output": told.envelope}
    return {
        "refused": {
            "reason": told.reason,
            "discarded": list(told.discarded),
            "suggestions": list(told.suggestions),
        }
    }


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: str(vector["name"]))
def test_vector(vector: Json) -> None:
    before = canonical(vector)
    told = run(vector)
    assert canonical(told) == canonical(vector["expect"])
    assert canonical(vector) == before, "what was given is not changed"
    output = told.get("output")
    if isinstance(output, dict) and "agent_surface" in output:
        SURFACE.validate(output["agent_surface"])
        assert list(output["agent_surface"]) == [name for name in ORDER if name in output["agent_surface"]]
        assert list(output)[-1] == "agent_surface"


@pytest.mark.parametrize("name", ["vectors-shared.json", "agent-surface.structure.json"])
def test_the_copies_are_of_the_shared_files(name: str) -> None:
    """Byte for byte, where the shared folder is beside the repository."""
    copied = (DATA / name).read_bytes()
    assert len(VECTORS["vectors"]) == VECTORS["count"] == 196
    assert not SHARED.exists() or (SHARED / name).read_bytes() == copied


@given(envelopes, knob_sets)
def test_the_layer_does_what_a_naive_recount_does(envelope: Json, knobs: Json) -> None:
    before = copy.deepcopy(envelope)
    told = shaped(envelope, knobs | {"allow_unknown_keys": True})
    assert canonical(envelope) == canonical(before)
    assert canonical(told) == canonical(naive(envelope, knobs))
    if "agent_surface" in told:
        SURFACE.validate(told["agent_surface"])


@given(envelopes, knob_sets, st.randoms(use_true_random=False))
def test_the_order_of_the_knobs_is_irrelevant(envelope: Json, knobs: Json, chance: Any) -> None:
    names = list(knobs)
    chance.shuffle(names)
    shuffled = {name: knobs[name] for name in names}
    one, other = run_with(envelope, knobs), run_with(envelope, shuffled)
    assert one == other


def run_with(envelope: Any, knobs: Json, known: Facts | None = None) -> Any:
    """The outcome in a form that compares with order and types."""
    parsed = parse(knobs)
    told = parsed if isinstance(parsed, Refusal) else reshape(envelope, parsed, known or Facts())
    return told if isinstance(told, Refusal) else compact(told.envelope)


@given(envelopes, knob_sets)
def test_a_failure_reaches_the_caller_untouched(envelope: Json, knobs: Json) -> None:
    known = Facts(ceiling=PAGE, target=STORE)
    for mark in ({"error": True}, {"ok": False}, {"$schema": None}):
        assert run_with(envelope | mark, knobs, known) == compact(envelope | mark)


@pytest.mark.parametrize("mark", [{"error": "true"}, {"error": {}}, {"error": 1}, {"ok": 0}, {"ok": None}])
def test_only_the_booleans_mark_a_failure(mark: Json) -> None:
    assert not passes(mark)


@given(envelopes, st.sampled_from(["page", "universe", None]))
def test_without_a_knob_nothing_but_the_record_is_added(envelope: Json, scope: str | None) -> None:
    knobs: Json = {"max_items": 0, "select": [], "count_only": False, "truncate_content": 0, "max_output_bytes": 0}
    knobs |= {"filter_scope": scope} if scope else {}
    assert shaped(envelope, knobs) == envelope
    told = shaped(envelope, knobs, Facts(target=STORE, ceiling=PAGE))
    record = told.pop("agent_surface")
    assert compact(told) == compact(envelope)
    SURFACE.validate(record)
    assert not {"input_count", "output_count", "result_array_source"} & set(record)


@pytest.mark.parametrize("value", [[1, "ä"], "text", 5, None, True, 2.5])
def test_what_is_no_object_has_no_place_for_a_record(value: Any) -> None:
    assert shaped(value, {}, Facts(target=STORE)) == value
    assert shaped(value, {"max_items": 9}, Facts(target=STORE)) == value
    told = shaped(value, {"count_only": True}, Facts(target=STORE))
    assert told["count"] == (2 if isinstance(value, list) else 1)
    assert list(told) == ["count", "agent_surface"] and "result_array_source" not in told["agent_surface"]


def test_a_bare_array_of_objects_is_projected_by_its_elements() -> None:
    assert shaped([{"a": 1, "b": 2}, {"b": 3}], {"select": ["a"]}) == [{"a": 1}, {}]


def test_an_elected_array_of_objects_is_not_blanked_by_a_key_of_the_envelope() -> None:
    envelope = {"total": 2, "checks": [{"id": 1}]}
    told = run_with(envelope, {"select": ["total"]})
    assert (told.reason, told.suggestions) == ("select_unresolved", ())
    assert shaped(envelope, {"select": ["id"]})["checks"] == [{"id": 1}]


def test_a_scalar_envelope_keeps_that_its_text_was_cut() -> None:
    told = shaped({"a": 1, "truncated": True, "b": 2}, {"select": ["a"]})
    assert (told["a"], told["truncated"], "b" in told) == (1, True, False)
    assert "truncated" not in shaped({"a": 1, "truncated": False}, {"select": ["a"]})


def test_the_receipt_of_a_write_is_never_replaced_by_a_count() -> None:
    told = shaped({"written": 2, "records": [{"id": 1}]}, {"count_only": True}, Facts(mutates=True))
    assert (told["written"], told["records"]) == (2, [{"id": 1}])
    assert "count_only" not in told["agent_surface"]


def test_a_record_of_an_earlier_shaping_gives_way_to_the_new_one() -> None:
    first = shaped({"records": [{"id": n} for n in range(5)]}, {"max_items": 3})
    second = shaped(first, {"max_items": 2, "truncate_content": 1})
    assert second["agent_surface"] == {
        "input_count": 3,
        "output_count": 2,
        "max_items": 2,
        "result_array_source": "declared",
    }


def test_no_knob_cuts_what_is_kept() -> None:
    known = Facts(kept=frozenset({"missing"}), protected=(("missing",),))
    envelope = {"missing": ["long-1", "long-2"], "records": [{"id": 1}], "regions": ["long-3", "long-4"]}
    told = shaped(envelope, {"max_items": 1, "truncate_content": 2}, known)
    assert (told["missing"], told["regions"]) == (["long-1", "long-2"], ["lo"])
    assert told["agent_surface"]["secondary_capped"] == ["regions"]


@pytest.mark.parametrize("key", ["k" * 10_000, "a." * 5_000, "records.0", "records[0]", "0", "", " ", "id.x"])
def test_keys_that_are_nowhere_are_refused_quickly(key: str) -> None:
    envelope = {"records": [{"id": "r", "name": "n"}] * 50}
    for knobs in ({"sort": key}, {"dedupe_by": key}, {"select": [key]}, {"select": [key] * 100}):
        assert isinstance(run_with(envelope, knobs), Refusal)


def test_a_thousand_filters_are_one_conjunction() -> None:
    envelope = {"records": [{"id": n} for n in range(1_001)]}
    told = shaped(envelope, {"filter": [f"id!={n}" for n in range(1_000)]})
    assert told["records"] == [{"id": 1_000}]
    assert told["agent_surface"]["filters"] == 1_000


def test_texts_are_compared_code_point_for_code_point() -> None:
    family, composed, decomposed, rtl = "👨‍👩‍👧", "é", "e\u0301", "שלום"
    envelope = {"records": [{"t": text} for text in (family, composed, decomposed, rtl)]}
    assert shaped(envelope, {"filter": ["t=é"]})["records"] == [{"t": composed}]
    assert shaped(envelope, {"filter": ["t~👩"]})["records"] == [{"t": family}]
    assert shaped(envelope, {"filter": ["t~ום"]})["records"] == [{"t": rtl}]
    assert len(shaped(envelope, {"dedupe_by": "t"})["records"]) == 4
    cut = shaped(envelope, {"truncate_content": 1})
    assert cut["records"] == [{"t": "👨"}, {"t": "é"}, {"t": "e"}, {"t": "ש"}]
    assert cut["truncated"] is True


def test_numbers_beyond_2_53_keep_every_digit() -> None:
    low, high = 2**53, 2**53 + 1
    envelope = {"records": [{"n": high}, {"n": low}, {"n": 10**300}]}
    assert [r["n"] for r in shaped(envelope, {"sort": "n"})["records"]] == [low, high, 10**300]
    assert shaped(envelope, {"filter": [f"n={high}"]})["records"] == [{"n": high}]
    assert len(shaped(envelope, {"dedupe_by": "n"})["records"]) == 3
