"""Cutting a response to a number of bytes (surface behaviour §5.9): never above the bound, and what left is told."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import bytecut

STRUCTURE = Path(__file__).parent.parent / "data" / "agent-surface.structure.json"
SCHEMA = json.loads(STRUCTURE.read_text())
SURFACE = jsonschema_rs.validator_for(SCHEMA)
ORDER = list(SCHEMA["$defs"]["AgentSurfaceMeta"]["properties"])
TARGET = {"db_path_source": "default", "db_path_resolved": "unix:///s"}
CEILING = {"query_limited": True, "query_limit": 8, "query_limit_source": "default", "query_limit_kind": "pagination"}
UNIVERSE = {"universe_total": 3, "filter_scope": "universe"}
STUB = {"truncated": True, "truncated_reason": "max_output_bytes"}

Json = dict[str, Any]


def text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def context(records: int = 3, others: int = 4, state: str = "s", missing: int | None = None) -> Json:
    """A context as the core tells it."""
    made: Json = {
        "page": {"title": "T"},
        "regions": [{"id": "board"}],
        "regionsTotal": 1,
        "state": {"s": state, "list": [1, 2]},
        "unavailable": [{"capability": "c"}] * others,
        "unavailableTotal": others,
        "feedback": [{"id": str(n)} for n in range(others)],
        "feedbackTotal": others,
        "recordWindow": {"offset": 0, "limit": 8, "returned": records, "total": records},
    }
    if missing is not None:
        made["missing"] = [f"m{n}" for n in range(missing)]
    made["records"] = [{"id": f"r{n}", "fields": {"x": "y" * (n % 5)}} for n in range(records)]
    made |= {"recordsTotal": records, "recordIds": [f"r{n}" for n in range(records)], "recordIdsTotal": records}
    return made | {"agent_surface": TARGET | (CEILING | UNIVERSE if missing is None else {})}


def cut(capabilities: list[Any], whole: Json, around: int, maximum: int) -> tuple[list[Any], Json, int]:
    """Capabilities, context, and the bytes of both and `around`."""
    told, shaped = bytecut.cut(text(capabilities), text(whole), around, maximum)
    assert text(json.loads(shaped)) == shaped
    return json.loads(told), json.loads(shaped), len(told) + len(shaped) + around


def size(capabilities: list[Any], whole: Json, around: int) -> int:
    return len(text(capabilities)) + len(text(whole)) + around


def test_the_schema_is_the_seed_of_the_surface() -> None:
    """Byte for byte, where the folder of the seeds is beside the repository."""
    assert ORDER[:2] == ["input_count", "output_count"]
    seed = Path(__file__).parents[3] / "shared" / "surface" / STRUCTURE.name
    assert not seed.exists() or seed.read_bytes() == STRUCTURE.read_bytes()


@given(
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(0, 5)),
    st.text(max_size=30),
    st.integers(1, 3000),
)
def test_within_the_bound_or_a_stub_and_every_number_is_right(
    records: int, others: int, capable: int, missing: int | None, state: str, maximum: int
) -> None:
    capabilities = [{"id": f"c{n}", "description": "d" * 40} for n in range(capable)]
    whole = context(records, others, state, missing)
    around = 200
    told, shaped, length = cut(capabilities, whole, around, maximum)
    assert told in ([], capabilities)
    if "agent_surface" not in shaped:
        assert shaped == STUB | {"max_output_bytes": maximum} and told == []
        emptied = {
            name: [] if isinstance(value, list) and name != "missing" else value for name, value in whole.items()
        }
        assert size([], emptied, around) + 200 > maximum
        return
    assert length <= maximum
    surface = shaped["agent_surface"]
    SURFACE.validate(surface)
    assert list(surface) == [name for name in ORDER if name in surface]
    assert surface.items() >= whole["agent_surface"].items()
    assert surface["input_count"] == whole["recordWindow"]["returned"]
    assert surface["output_count"] == len(shaped["records"])
    assert whole["records"][: len(shaped["records"])] == shaped["records"]
    assert all(shaped[name] == whole[name] for name in whole if not isinstance(whole[name], list | dict))
    assert all(shaped.get(name) == whole.get(name) for name in ("page", "state", "recordWindow", "missing"))
    gone = sum(len(whole[name]) - len(shaped[name]) for name in whole if isinstance(whole[name], list))
    if gone:
        assert surface["output_truncated"] is True and shaped["truncated"] is True
        assert (surface["dropped"], surface["max_output_bytes"]) == (gone, maximum)
        assert list(shaped)[-2:] == ["truncated", "agent_surface"]
    else:
        assert shaped.keys() == whole.keys() and not surface.keys() & {
            "output_truncated",
            "dropped",
            "max_output_bytes",
        }


def test_with_room_enough_everything_is_there() -> None:
    whole = context(12, 5)
    kept = []
    for maximum in range(600, size([], whole, 0) + 200):
        _, shaped, _ = cut([], whole, 0, maximum)
        kept.append(
            sum(len(value) for value in shaped.values() if isinstance(value, list)) if "records" in shaped else -1
        )
    assert kept[0] == -1 and max(kept) == kept[-1] == 12 + 12 + 5 + 5 + 1


def test_records_leave_one_by_one_before_anything_else_is_emptied() -> None:
    whole = context(12, 1)
    _, shaped, _ = cut([], whole, 0, size([], whole, 0) + 60)
    assert 0 < len(shaped["records"]) < 12
    assert len(shaped["recordIds"]) == 12 and len(shaped["feedback"]) == 1
    assert shaped["agent_surface"]["dropped"] == 12 - len(shaped["records"])


def test_capabilities_go_first_only_where_nothing_else_would_do() -> None:
    capabilities = [{"id": "c", "description": "d" * 1000}]
    whole = context(3, 4)
    bound = size([], whole, 0) + 300
    told, shaped, _ = cut(capabilities, whole, 0, bound)
    assert told == [] and shaped["records"] == whole["records"] and "truncated" not in shaped
    told, shaped, _ = cut(capabilities, context(60, 60), 0, 1000 + size([], context(0, 0), 0) + 300)
    assert told == capabilities and shaped["truncated"] is True


@pytest.mark.parametrize("maximum", [1, 10, 100])
def test_the_stub_comes_whatever_the_bound(maximum: int) -> None:
    told, shaped, _ = cut([{"id": "c"}], context(), 512, maximum)
    assert told == [] and shaped == STUB | {"max_output_bytes": maximum}
