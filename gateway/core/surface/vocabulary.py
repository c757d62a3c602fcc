"""The names a caller may have meant (surface behaviour §7), from a bounded sample."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from rapidfuzz.distance import JaroWinkler

from gateway.core.surface.arrays import Parts
from gateway.core.surface.facts import Facts

SAMPLE: Final = 64
"""Elements whose member names are read."""
NAMES: Final = 512
"""Names kept."""
NAME_CHARS: Final = 200
"""Code points of a name that is suggested at all: as long as an id, for names may come from users."""
FLOOR: Final = 0.6
"""The least similarity, inclusive."""
TOLD: Final = 3
"""Suggestions for one key."""


class Vocabulary(msgspec.Struct, frozen=True):
    """`partial`: there are names that were not looked at."""

    names: tuple[str, ...]
    partial: bool

    def like(self, key: str) -> list[str]:
        """The names most like a key, best first, ties by name.

        The key itself is none: a declared field that no record here carries would be the answer to its own refusal.
        """
        scored = [(-JaroWinkler.similarity(key, name), name) for name in self.names if name != key]
        return [name for score, name in sorted(scored) if -score >= FLOOR][:TOLD]


def vocabulary(parts: Parts, facts: Facts) -> Vocabulary:
    """The first-level names of the first elements, and behind them the declared synonyms; without elements, of the rest."""
    elements = parts.elements or []
    sample = elements[:SAMPLE] if elements else [parts.rest]
    names: dict[str, None] = {}
    left_out = len(elements) > SAMPLE
    for name in _every(sample, facts.synonyms if elements else ()):
        if name in names:
            continue
        if len(names) == NAMES:
            return Vocabulary(tuple(names), partial=True)
        if len(name) > NAME_CHARS:
            left_out = True
        else:
            names[name] = None
    return Vocabulary(tuple(names), left_out)


def _every(sample: list[Any], declared: Iterable[str]) -> Iterator[str]:
    for element in sample:
        if isinstance(element, dict):
            yield from element
    yield from declared
