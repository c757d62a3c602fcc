"""Which required reasons a change has for a view (protocol §6.3), but for `insufficient`, `behind`, `gap` and `refused`."""

from bisect import bisect_left

from gateway.core.limits import Limits

from . import sight
from .plain import Object, same
from .sight import Scope

ORDER = ("navigation", "modal", "filter", "sort", "pagination", "scope", "availability")
"""The kinds of a cause that are required reasons of the same name, in the order in which reasons are told."""


def required_reasons(
    before: Object, after: Object, cause: Object | None, view: Object, scope: Scope, limits: Limits
) -> list[str]:
    """The reasons that MUST be told to this view for the step from one state to the other; `[]`: an `after` MUST come.

    `pagination` is judged on the smallest set of moved ids: with more of them told as moved, it may apply as well.
    """
    found = {cause["kind"]} if cause is not None else set()
    if navigated(before, after):
        found.add("navigation")
    if modal_regions(before, scope) != modal_regions(after, scope):
        found.add("modal")
    if pagination_forced(before, after, view, scope, limits):
        found.add("pagination")
    if ("scope" in before) != ("scope" in after) or not same(before.get("scope"), after.get("scope")):
        found.add("scope")
    if availability_changed(before, after, scope):
        found.add("availability")
    return [kind for kind in ORDER if kind in found]


def navigated(before: Object, after: Object) -> bool:
    """Route or params changed, or the page came or went."""
    if ("page" in before) != ("page" in after):
        return True
    if "page" not in before:
        return False

    def place(state: Object) -> Object:
        return {name: value for name, value in state["page"].items() if name in ("route", "params")}

    return not same(place(before), place(after))


def modal_regions(state: Object, scope: Scope) -> set[str]:
    """The visible active regions marked modal."""
    seen = sight.regions_in_scope(state, scope) & sight.active_regions(state)
    return {region["id"] for region in state["regions"] if region["id"] in seen and region["modal"]}


def pagination_forced(before: Object, after: Object, view: Object, scope: Scope, limits: Limits) -> bool:
    """Whether even the smallest `recordIds.added` and `removed` together pass `limits.afterMoves`."""
    old = sight.record_ids(before, view, scope, limits)
    new = sight.record_ids(after, view, scope, limits)
    return smallest_moves(old, new) > limits.after_moves


def smallest_moves(old: list[str], new: list[str]) -> int:
    """The least number of ids in `removed` and `added` together; an id that only moved stands in both.

    What need not move is a longest common subsequence. Ids are distinct, so that is a longest ascending run of their
    places in the old list, taken in the order of the new one.
    """
    place = {identity: index for index, identity in enumerate(old)}
    ends: list[int] = []  # ends[n]: the smallest last place of an ascending run of n + 1 places
    for index in (place[identity] for identity in new if identity in place):
        at = bisect_left(ends, index)
        ends[at : at + 1] = [index]
    return len(old) + len(new) - 2 * len(ends)


def availability_changed(before: Object, after: Object, scope: Scope) -> bool:
    """Of the visible capabilities before and after together, at least 8 and more than a quarter were touched."""
    old = {capability["id"] for capability in sight.capabilities(before, scope)}
    new = {capability["id"] for capability in sight.capabilities(after, scope)}
    entries = sight.unavailable_pairs(before, scope) ^ sight.unavailable_pairs(after, scope)
    touched = (old ^ new) | {capability for capability, _ in entries}
    return len(touched) >= 8 and len(touched) > len(old | new) / 4
