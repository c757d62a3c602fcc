"""Refusals as data."""

from gateway.core.surface import Refusal
from gateway.core.surface.refusal import MESSAGES, SUGGESTING


def test_suggestions_are_there_for_their_reasons_only_and_then_always() -> None:
    for reason in MESSAGES:
        told = Refusal(reason, ("filter",), (), {"key": "k"}).data()
        assert list(told) == ["discarded", *(["suggestions"] if reason in SUGGESTING else []), "key"]
        assert Refusal(reason, ()).message.endswith(".")


def test_the_record_stands_last() -> None:
    told = Refusal("bad_value", ("sort",), facts={"knob": "sort"}, surface={"db_path_source": "argv"}).data()
    assert list(told) == ["discarded", "knob", "agent_surface"]
