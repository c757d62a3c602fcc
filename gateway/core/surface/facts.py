"""What a command knows of its answer and the layer must be told: arrays, names, the query's ceiling, the store."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Pattern = tuple[str, ...]
"""A place in an envelope: member names, `*` for any member or element. It covers all below the place."""


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """What the query was bounded by (surface behaviour §8).

    `total`: rows it paged over, None where that cannot be counted. `records_total`: rows there are, published or not; as
    `total` when None. `maximum`: the largest `limit` a caller may name.
    """

    limit: int
    source: Literal["flag", "default"]
    kind: Literal["pagination", "top-k"]
    offset: int = 0
    total: int | None = None
    records_total: int | None = None
    maximum: int | None = None

    def everything(self) -> int | None:
        """How many rows there are, as far as it is known."""
        return self.total if self.records_total is None else self.records_total

    def cut(self) -> bool:
        """Whether rows are known that the layer did not see; of a ranking that is not asked."""
        if self.kind == "top-k":
            return False
        if self.offset > 0:
            return True
        return self.total is not None and (self.limit < self.total or (self.records_total or 0) > self.total)


class Target(msgspec.Struct, frozen=True):
    """The store this process resolved: the layer that named it and its address, without user, password and query.

    `use_active`: the caller let a change go to a target nobody named.
    """

    source: Literal["argv", "xdg", "default"]
    resolved: str
    use_active: bool = False


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What stands beside the knobs; no member is a caller's wish.

    Args:
        declared: names tried in order for the primary array.
        aliases: primary array → arrays that only restate it, removed as soon as a knob is set.
        synonyms: first segment of a key → where it stands when an element has no member of that name.
        ceiling, target: None where the command has none.
        shortened: fewer rows came than the window or the ids asked for, to keep the answer small.
        mutates: it has already changed the store, so nothing is refused and its receipt is never replaced.
        streamed: it gives one record a line.
        protected: places `truncate_content` leaves whole.
        aliased: (region, field) of records whose field holds an alias; left whole too.
        kept: arrays no knob cuts.
        outside: bytes of the message around the envelope, which count towards `max_output_bytes`.
    """

    declared: tuple[str, ...] = ("records", "results", "items")
    aliases: Mapping[str, tuple[str, ...]] = {}
    synonyms: Mapping[str, str] = {}
    ceiling: Ceiling | None = None
    target: Target | None = None
    shortened: bool = False
    mutates: bool = False
    streamed: bool = False
    protected: tuple[Pattern, ...] = ()
    aliased: frozenset[tuple[str, str]] = frozenset()
    kept: frozenset[str] = frozenset()
    outside: int = 0

    def is_page(self) -> bool:
        """Whether what the layer sees is a part of what there is."""
        return self.shortened or (self.ceiling is not None and self.ceiling.cut())


DESCRIBE: Final = Facts(
    declared=("records",),
    protected=(
        ("page", "route"),
        *[("regions", "*", name) for name in ("id", "parent")],
        *[("regions", "*", "fields", "*", name) for name in ("name", "source")],
        *[("unavailable", "*", name) for name in ("capability", "record")],
        *[("feedback", "*", name) for name in ("id", "level", "record", "region", "capability", "source")],
        ("missing",),
        *[("records", "*", name) for name in ("id", "region", "truncated")],
        ("records", "*", "fields", "*", "$placeholder"),
        ("recordIds",),
    ),
    kept=frozenset({"missing"}),
)
"""The facts all `context` objects of describe and find share: ids and the like stay whole (protocol §7), `missing` too (§5)."""
