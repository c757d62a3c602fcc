"""What typed answers say of the raw ones."""

from typing import Any

import pytest

from gateway.client import DescribeResponse, Invalidated
from tests.scripted import described

CAPABILITY = {"id": "__proto__", "title": "", "appliesTo": "record"}
WHOLE: dict[str, Any] = {
    "records": [{"id": "__proto__", "region": "g", "fields": {}}, {"id": "raw", "region": "g", "fields": {}}],
    "recordsTotal": 2,
    "recordIds": ["__proto__", "raw"],
    "recordIdsTotal": 2,
    "regions": [{"id": "g"}],
    "regionsTotal": 1,
    "unavailable": [{"capability": "c", "reason": "all"}, {"capability": "d", "record": "raw", "reason": "one"}],
    "unavailableTotal": 2,
}


def response(**context: Any) -> DescribeResponse:
    return DescribeResponse(described(3, **(WHOLE | context)) | {"capabilities": [CAPABILITY], "capabilitiesTotal": 1})


def test_what_stands_in_it() -> None:
    told = response()
    assert (told.session, told.view, told.position, told.as_of) == ("s", "v", ("e", 3), "2026-12-01T00:00:00.000Z")
    assert told.publisher == "none"
    assert list(told.records) == told.record_ids == ["__proto__", "raw"]
    assert told.records["__proto__"]["region"] == "g"
    assert told.capabilities["__proto__"] == CAPABILITY
    assert list(told.regions) == ["g"]
    assert told.raw["context"] is told.context


def test_why_something_is_unavailable() -> None:
    told = response()
    assert told.why_unavailable("c") == told.why_unavailable("c", "raw") == "all"
    assert told.why_unavailable("d", "raw") == "one"
    assert told.why_unavailable("d") is told.why_unavailable("d", "other") is told.why_unavailable("x") is None


@pytest.mark.parametrize(
    "context",
    [
        {"recordsTotal": 3},
        {"recordIdsTotal": 3},
        {"regionsTotal": 2},
        {"unavailableTotal": 3},
        {"feedbackTotal": 1},
        {"truncated": {"records": 1}},
        {"missing": ["x"]},
    ],
)
def test_it_is_complete_only_when_every_total_is_met(context: dict[str, Any]) -> None:
    assert response().is_complete
    assert not response(**context).is_complete
    assert not DescribeResponse(response().raw | {"capabilitiesTotal": 2}).is_complete


def test_reasons() -> None:
    told = Invalidated(
        {
            "reasons": [
                {"kind": "modal", "required": True},
                {"kind": "publisher", "required": False, "publisher": "gone"},
            ]
        }
    )
    assert (told.required, told.publisher, [reason.kind for reason in told.reasons]) == (
        True,
        "gone",
        ["modal", "publisher"],
    )
    assert not Invalidated({"reasons": told.params["reasons"][1:]}).required
