"""The reshaping layer: (envelope, knobs, facts) → envelope or refusal, and the record of what was done (protocol §7).

`reshape` is the whole of it; `parse` makes its knobs from JSON. Nothing in here changes what it was given.
"""

from gateway.core.surface.ceiling import stub
from gateway.core.surface.facts import DESCRIBE, Ceiling, Facts, Target
from gateway.core.surface.knobs import Knobs, parse
from gateway.core.surface.pipeline import Shaped, reshape
from gateway.core.surface.record import ORDER, ordered, process
from gateway.core.surface.refusal import Refusal

__all__ = [
    "DESCRIBE",
    "ORDER",
    "Ceiling",
    "Facts",
    "Knobs",
    "Refusal",
    "Shaped",
    "Target",
    "ordered",
    "parse",
    "process",
    "reshape",
    "stub",
]
