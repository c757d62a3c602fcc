"""The table of protocol §3, and what an error tells."""

import pytest

from gateway.core.errors import KINDS, GatewayError, exceeded, internal, invalid


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_tells_its_class_and_whether_to_try_again(kind: str) -> None:
    wire = GatewayError(kind, "A sentence.", path="/a").wire()
    code, error_class, retryable = KINDS[kind]
    assert wire == {
        "code": code,
        "message": "A sentence.",
        "data": {"kind": kind, "errorClass": error_class, "retryable": retryable, "path": "/a"},
    }


def test_refusals_of_params_name_the_place_and_of_limits_the_numbers() -> None:
    assert invalid("/a/0", "an id").wire()["data"].items() >= {"path": "/a/0", "expected": "an id"}.items()
    data = exceeded("records", 3, 4, path="/a").wire()["data"]
    assert data.items() >= {"limit": "records", "maximum": 3, "given": 4, "path": "/a"}.items()


def test_a_bug_is_ambiguous_where_it_may_have_written() -> None:
    assert internal("publish").wire()["data"] == {"kind": "internal", "errorClass": "ambiguous", "retryable": False}
    assert internal("describe").wire()["data"] == {"kind": "internal", "errorClass": "transient", "retryable": True}
