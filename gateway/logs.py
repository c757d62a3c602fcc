"""What a log line may tell of a bug: ids, kinds, sizes and times stand in logs, never content (protocol §8)."""

import traceback
from typing import Final

PLACES_TOLD: Final = 20
"""Innermost places of a traceback that are told."""


def trace(error: BaseException) -> list[str]:
    """Where a bug showed: of each exception behind it, the first cause first, its class and the places, innermost last.

    Without the text of the exceptions: that quotes what they stumbled over, a value of somebody's record.
    """
    told = [f"{place.filename}:{place.lineno} {place.name}" for place in traceback.extract_tb(error.__traceback__)]
    inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    return [*(trace(inner) if inner is not None else []), type(error).__name__, *told[-PLACES_TOLD:]]
