"""A refusal of the layer: nothing is emitted but this (surface behaviour §6, mapping §5)."""

from typing import Any, Final

import msgspec

SUGGESTING: Final = ("key_absent", "select_unresolved")
"""Reasons whose refusal carries `suggestions`, be they empty."""

MESSAGES: Final = {
    "filter_syntax": "A filter is no key, operator and value; the operators are = == != ~.",
    "bad_value": "A knob has a value it cannot have.",
    "no_result_array": "The answer has no array, so these knobs have nothing to act on.",
    "stream_whole_set_knob": "These knobs need the whole set, and the answer is a stream of lines.",
    "stream_filter": "A stream of lines is not filtered.",
    "filter_over_page": "The query returned a page, so a filter would not see every record.",
    "count_over_page": "The query returned a page, so a count would not be of every record.",
    "key_absent": "No record here carries this key.",
    "key_envelope_only": "This key is a member beside the records, not of a record.",
    "select_unresolved": "No record here carries any of the selected keys.",
}
"""One sentence each, never with a value in it."""


class Refusal(msgspec.Struct, frozen=True):
    """Why, the knobs that were discarded, names the caller may have meant, and the facts that belong to the reason."""

    reason: str
    discarded: tuple[str, ...]
    suggestions: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    surface: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return MESSAGES[self.reason]

    def data(self) -> dict[str, Any]:
        """The members of an error beside `kind`: `discarded`, `suggestions`, the facts, `agent_surface` (protocol §3)."""
        told: dict[str, Any] = {"discarded": list(self.discarded)}
        if self.reason in SUGGESTING:
            told["suggestions"] = list(self.suggestions)
        return told | self.facts | ({"agent_surface": self.surface} if self.surface else {})
