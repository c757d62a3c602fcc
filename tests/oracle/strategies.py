"""Hypothesis strategies over `invent` and `alter`: each draws a size and a seed and builds the rest, so large examples stay cheap.

Shrinking works on the size, the list of operations and the seed.
"""

from collections.abc import Callable
from random import Random

from hypothesis import strategies as st

from gateway.core.limits import Limits

from . import alter, invent
from .plain import Object
from .sight import Scope

__all__ = ["SMALL", "causes", "change_for", "operations", "scopes_for", "snapshots", "views_for"]

SMALL = Limits(record_ids=20, window_default=4, field_chars=24, unavailable=6, after_moves=8)
"""Limits that small examples reach: `recordIdsWindow`, cut texts and `pagination` show at some twenty records."""

DEFAULT = Limits()

SEEDS = st.integers(0, 2**32 - 1)

SIZES = st.one_of(st.integers(0, 12), st.integers(0, 60), st.integers(0, 300))
"""Numbers of records: mostly few, at most 300."""


def seeds() -> st.SearchStrategy[Random]:
    """A source of whatever is not worth a draw of its own."""
    return SEEDS.map(Random)


@st.composite
def snapshots(draw: st.DrawFn, limits: Limits = DEFAULT, sizes: st.SearchStrategy[int] = SIZES) -> Object:
    """Params of a valid `publish`: `session.publish` never refuses them under these limits."""
    size = draw(sizes)
    return invent.snapshot(Random(draw(SEEDS)), size, limits)


def operations() -> st.SearchStrategy[list[str]]:
    """Which kinds of operation one change is made of, mostly one or two."""
    names = st.sampled_from(list(alter.OPERATIONS))
    return st.one_of(st.lists(names, min_size=1, max_size=2), st.lists(names, min_size=1, max_size=6))


@st.composite
def change_for(
    draw: st.DrawFn, state: Object, limits: Limits = DEFAULT, kinds: st.SearchStrategy[list[str]] | None = None
) -> Object:
    """Params of a valid `patch` of this state: `session.patch` never refuses them under these limits."""
    chosen = draw(operations() if kinds is None else kinds)
    return alter.change(Random(draw(SEEDS)), state, chosen, limits)


def views_for(state: Object, limits: Limits = DEFAULT) -> st.SearchStrategy[Object]:
    """The `offset`, `limit`, `record` of a view: in the middle, past the end, lists with ids that are not there."""
    return SEEDS.map(lambda seed: invent.view(Random(seed), state, limits))


def scopes_for(state: Object) -> st.SearchStrategy[Scope]:
    """All, two times in three; else a set of region ids."""
    narrowed: Callable[[int], Scope] = lambda seed: invent.granted(Random(seed), state)  # noqa: E731
    return st.one_of(st.none(), st.none(), SEEDS.map(narrowed))


def causes() -> st.SearchStrategy[Object | None]:
    """The `cause` of a publish or patch; None: absent."""
    return SEEDS.map(lambda seed: invent.cause(Random(seed)))
