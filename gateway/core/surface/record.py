"""`agent_surface`: what was done to an envelope, which store it is from, what its query cut (surface behaviour §8–§10)."""

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.surface.facts import Ceiling, Facts, Target

ORDER: Final = (
    "input_count",
    "output_count",
    "select",
    "filters",
    "sort",
    "dedupe_by",
    "max_items",
    "secondary_capped",
    "count_only",
    "content_truncated",
    "truncate_content",
    "output_truncated",
    "dropped",
    "max_output_bytes",
    "db_path_source",
    "db_path_dispensation",
    "db_path_resolved",
    "query_limited",
    "query_limit",
    "query_limit_source",
    "query_limit_kind",
    "universe_total",
    "filter_scope",
    "filter_incomplete",
    "key_resolution",
    "key_suggestions",
    "vocabulary_partial",
    "count_scope",
    "result_array_source",
    "resolved_keys",
    "unresolved_keys",
    "aliases_removed",
)
"""The members there can be, in the seed's order, which is the order they are told in."""


def ordered(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members in the seed's order, those left out that are None, false or an empty list; a 0 is told."""
    told = {name: members[name] for name in ORDER if name in members}
    return {name: value for name, value in told.items() if value is not None and value is not False and value != []}


def process(facts: Facts) -> dict[str, Any]:
    """The target and ceiling members: all there is without a knob, and part of every refusal."""
    target = {} if facts.target is None else _target(facts.target, facts.mutates)
    scope = "page" if facts.is_page() else None
    if facts.ceiling is not None:
        scope = "top-k" if facts.ceiling.kind == "top-k" else scope or "universe"
    seen = {"filter_scope": scope, "filter_incomplete": scope == "page"}
    return ordered(target | seen | ({} if facts.ceiling is None else _ceiling(facts.ceiling)))


def _target(target: Target, mutates: bool) -> dict[str, Any]:
    dispensed = target.use_active and mutates and target.source != "argv"
    return {
        "db_path_source": target.source,
        "db_path_dispensation": "use-active" if dispensed else None,
        "db_path_resolved": target.resolved,
    }


def _ceiling(ceiling: Ceiling) -> dict[str, Any]:
    return {
        "query_limited": True,
        "query_limit": ceiling.limit,
        "query_limit_source": ceiling.source,
        "query_limit_kind": ceiling.kind,
        "universe_total": None if ceiling.kind == "top-k" else ceiling.total,
    }
