"""The vectors of the layer: its whole behaviour as (envelope, knobs, facts) → envelope or refusal."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.core.surface import Ceiling, Facts, Refusal, Shaped, Target, parse, reshape

DATA = Path(__file__).parents[2] / "data"
VECTORS = json.loads((DATA / "vectors-shared.json").read_text())
Json = dict[str, Any]


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
    assert canonical(run(vector)) == canonical(vector["expect"])
