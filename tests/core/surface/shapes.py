"""Envelopes and knobs for the laws of the layer, and the layer recounted without a thought for speed."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
from hypothesis import strategies as st

from gateway.core.surface import Facts, Refusal, parse, reshape

Json = dict[str, Any]
STRUCTURE = json.loads((Path(__file__).parents[2] / "data" / "agent-surface.structure.json").read_text())
SURFACE = jsonschema_rs.validator_for(STRUCTURE)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-20, 20),
    st.integers(-80, 80).map(lambda n: n / 4),
    st.text("ab1.=é😀\u0301", max_size=4),
)
values = st.one_of(scalars, scalars, st.lists(scalars, max_size=2), st.dictionaries(st.just("x"), scalars, max_size=1))
elements = st.one_of(
    st.dictionaries(st.sampled_from(["id", "a", "b"]), values),
    st.dictionaries(st.sampled_from(["id", "a", "b"]), values),
    scalars,
)
envelopes = st.fixed_dictionaries(
    {"note": st.text(max_size=6), "records": st.lists(elements, max_size=8)},
    optional={"zones": st.lists(values, max_size=4), "areas": st.lists(values, max_size=4), "truncated": st.booleans()},
)
keys = st.sampled_from(["id", "a", "b", "a.x", "none", "note"])
knob_sets: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "select": st.lists(keys, max_size=3),
        "filter": st.lists(
            st.tuples(keys, st.sampled_from(["=", "==", "!=", "~"]), st.text("ab1.", max_size=2)).map("".join),
            max_size=2,
        ),
        "sort": keys,
        "dedupe_by": keys,
        "max_items": st.integers(0, 6),
        "count_only": st.booleans(),
        "truncate_content": st.integers(0, 4),
    },
)


def shaped(envelope: Any, knobs: Json, facts: Facts | None = None) -> Any:
    """The envelope the layer emits; a refusal is a failure of the test."""
    parsed = parse(knobs)
    assert not isinstance(parsed, Refusal), parsed
    told = reshape(envelope, parsed, facts or Facts())
    assert not isinstance(told, Refusal), told
    return told.envelope


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def at(element: Any, key: str) -> tuple[bool, Any]:
    """Whether there is something under the key, and what."""
    for part in key.split("."):
        if not isinstance(element, dict) or part not in element:
            return False, None
        element = element[part]
    return True, element


def text(element: Any, key: str) -> str | None:
    there, value = at(element, key)
    if not there or isinstance(value, (dict, list)):
        return None
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def holds(element: Any, expression: str) -> bool:
    key, sign, value = next(
        (expression[:n], sign, expression[n + len(sign) :])
        for n in range(len(expression))
        for sign in ("==", "!=", "=", "~")
        if expression.startswith(sign, n)
    )
    own = text(element, key)
    if sign == "~":
        return own is not None and value.lower() in own.lower()
    return (own == value) == (sign != "!=")


def before(element: Any, key: str) -> tuple[int, Any]:
    there, value = at(element, key)
    if there and type(value) in (int, float):
        return 1, value
    own = text(element, key)
    return (4, 0) if not there else (3, 0) if own is None else (2, own) if own else (0, 0)


def shorter(value: Any, chars: int) -> Any:
    if isinstance(value, str):
        return value[:chars]
    if isinstance(value, dict):
        return {name: shorter(item, chars) for name, item in value.items()}
    return [shorter(item, chars) for item in value] if isinstance(value, list) else value


def naive(envelope: Json, knobs: Json) -> Json:
    """What comes of an envelope with `records` and no facts, its keys not judged."""
    on = {name: value for name, value in knobs.items() if value}
    if not on:
        return envelope
    rows = [row for row in envelope["records"] if all(holds(row, each) for each in on.get("filter", []))]
    if "sort" in on:
        rows = sorted(rows, key=lambda row: before(row, on["sort"]))
    if "dedupe_by" in on:
        texts = [text(row, on["dedupe_by"]) for row in rows]
        rows = [row for n, row in enumerate(rows) if texts[n] is None or texts[n] not in texts[:n]]
    matched, rows = len(rows), rows[: on.get("max_items", len(rows))]
    if "select" in on:
        rows = [{k: at(r, k)[1] for k in on["select"] if at(r, k)[0]} if isinstance(r, dict) else r for r in rows]
    told = {name: on[name] for name in on if name != "truncate_content"}
    told |= {"filters": len(told.pop("filter"))} if "filter" in told else {}
    told |= {"input_count": len(envelope["records"]), "output_count": len(rows), "result_array_source": "declared"}
    if "count_only" in on:
        told["count_scope"] = "emitted" if len(rows) < matched else "matched"
        return {"count": len(rows), "agent_surface": told}
    most = on.get("max_items", 99)
    capped = [name for name in ("areas", "zones") if len(envelope.get(name, [])) > most]
    told |= {"secondary_capped": capped} if capped else {}
    whole = envelope | {name: envelope[name][:most] for name in capped} | {"records": rows}
    result = shorter(whole, on["truncate_content"]) if "truncate_content" in on else whole
    if json.dumps(result) != json.dumps(whole):
        told |= {"content_truncated": True, "truncate_content": on["truncate_content"]}
        result["truncated"] = True
    return result | {"agent_surface": told}
