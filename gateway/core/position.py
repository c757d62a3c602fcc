"""The position of a snapshot: protocol §1."""

from typing import NamedTuple


class Position(NamedTuple):
    """`epoch`: opaque text of 1–64 characters, one lineage of revisions; `revision`: 1 … 2⁵³−1."""

    epoch: str
    revision: int
