"""The oracle's describe against what the text of protocol §5 says, worked out by hand."""

from typing import Any

import pytest

from gateway.core.limits import Limits

from .describe import describe
from .plain import Object, text
from .session import publish

TARGET = {"db_path_source": "argv", "db_path_resolved": "redis://10.0.0.5:6379/0"}

DEPARTURES: Object = {
    "capabilities": [
        {
            "id": "flight.hold",
            "title": "Hold a flight",
            "description": "…",
            "appliesTo": "record",
            "region": "board",
            "arguments": {
                "type": "object",
                "properties": {"minutes": {"type": "integer", "minimum": 1}},
                "required": ["minutes"],
                "additionalProperties": False,
            },
            "effect": "write",
        }
    ],
    "page": {"route": "/departures", "title": "Departures", "params": {"airport": "JFK"}},
    "regions": [
        {
            "id": "board",
            "title": "Board",
            "description": "Flights of the next two hours",
            "fields": ["dest", {"name": "status", "maxChars": 100}],
        }
    ],
    "state": {"filter": "all"},
    "unavailable": [{"capability": "flight.hold", "record": "UA-1545", "reason": "Departed"}],
    "feedback": [{"id": "f1", "level": "warning", "message": "…", "record": "UA-1545"}],
    "records": [
        {"id": "UA-1545", "region": "board", "fields": {"status": "Boarding", "dest": "IAH", "gate": "B7"}},
        {"id": "B6-725", "region": "board", "fields": {"dest": "BQN"}},
    ],
}

EXAMPLE = (
    '{"session":"departures","view":"v_9f2c","capabilities":[{"id":"flight.hold","title":"Hold a flight","description":"…",'
    '"appliesTo":"record","region":"board","arguments":{"additionalProperties":false,"properties":{"minutes":{"minimum":1,'
    '"type":"integer"}},"required":["minutes"],"type":"object"},"effect":"write","confirm":false,"idempotent":true}],'
    '"capabilitiesTotal":1,"context":{"page":{"title":"Departures","route":"/departures","params":{"airport":"JFK"}},'
    '"regions":[{"id":"board","title":"Board","description":"Flights of the next two hours","parent":null,"active":true,'
    '"modal":false,"fields":[{"name":"dest","expose":"plain","source":"application"},{"name":"status","expose":"plain",'
    '"source":"application"}]}],"regionsTotal":1,"state":{"filter":"all"},"unavailable":[{"capability":"flight.hold",'
    '"record":"UA-1545","reason":"Departed"}],"unavailableTotal":1,"feedback":[{"id":"f1","level":"warning","message":"…",'
    '"record":"UA-1545","source":"application"}],"feedbackTotal":1,"recordWindow":{"offset":0,"limit":1,"returned":1,'
    '"total":2,"next":1},"records":[{"id":"UA-1545","region":"board","fields":{"dest":"IAH","status":"Boarding"}}],'
    '"recordsTotal":2,"recordIds":["UA-1545","B6-725"],"recordIdsTotal":2,"agent_surface":{"db_path_source":"argv",'
    '"db_path_resolved":"redis://10.0.0.5:6379/0","query_limited":true,"query_limit":1,"query_limit_source":"flag",'
    '"query_limit_kind":"pagination","universe_total":2,"filter_scope":"page","filter_incomplete":true}},"epoch":"k3v9",'
    '"revision":42,"asOf":"2026-11-30T21:00:00.000Z","publisher":"online"}'
)


def told(snapshot: Object, view: Object, scope: set[str] | None = None, **limits: int) -> Object:
    """The describe response of a snapshot, at the position of the example."""
    bounds = Limits(**limits)
    return describe(
        publish(snapshot, bounds),
        session="departures",
        view_id="v_9f2c",
        view=view,
        scope=scope,
        epoch="k3v9",
        revision=42,
        as_of="2026-11-30T21:00:00.000Z",
        target=TARGET,
        limits=bounds,
        publisher="online",
    )


def context(snapshot: Object, view: Object, scope: set[str] | None = None, **limits: int) -> Any:
    return told(snapshot, view, scope, **limits)["context"]


def test_the_example_of_the_protocol() -> None:
    snapshot = DEPARTURES | {"capabilities": [DEPARTURES["capabilities"][0] | {"idempotent": True}]}
    assert text(told(snapshot, {"limit": 1})) == EXAMPLE


def test_an_empty_session_answers_empty_arrays_and_zeros() -> None:
    assert text(told({}, {})) == (
        '{"session":"departures","view":"v_9f2c","capabilities":[],"capabilitiesTotal":0,"context":{"regions":[],'
        '"regionsTotal":0,"state":{},"unavailable":[],"unavailableTotal":0,"feedback":[],"feedbackTotal":0,'
        '"recordWindow":{"offset":0,"limit":8,"returned":0,"total":0},"records":[],"recordsTotal":0,"recordIds":[],'
        '"recordIdsTotal":0,"agent_surface":{"db_path_source":"argv","db_path_resolved":"redis://10.0.0.5:6379/0",'
        '"query_limited":true,"query_limit":8,"query_limit_source":"default","query_limit_kind":"pagination",'
        '"universe_total":0,"filter_scope":"universe"}},"epoch":"k3v9","revision":42,'
        '"asOf":"2026-11-30T21:00:00.000Z","publisher":"online"}'
    )


def rows(count: int, region: str = "g") -> list[Object]:
    return [{"id": f"r{number}", "region": region} for number in range(count)]


def board(count: int) -> Object:
    return {"regions": [{"id": "g", "title": "G"}], "records": rows(count)}


@pytest.mark.parametrize(
    ("view", "window", "ids", "scope"),
    [
        ({"offset": 0, "limit": 10}, {"offset": 0, "limit": 10, "returned": 10, "total": 10}, [*range(10)], "universe"),
        (
            {"offset": 0, "limit": 9},
            {"offset": 0, "limit": 9, "returned": 9, "total": 10, "next": 9},
            [*range(9)],
            "page",
        ),
        ({"offset": 1, "limit": 100}, {"offset": 1, "limit": 100, "returned": 9, "total": 10}, [*range(1, 10)], "page"),
        ({"offset": 10}, {"offset": 10, "limit": 8, "returned": 0, "total": 10}, [], "page"),
        ({"offset": 10**12}, {"offset": 10**12, "limit": 8, "returned": 0, "total": 10}, [], "page"),
    ],
)
def test_windows(view: Object, window: Object, ids: list[int], scope: str) -> None:
    found = context(board(10), view)
    assert found["recordWindow"] == window
    assert list(found["recordWindow"]) == list(window)
    assert [record["id"] for record in found["records"]] == [f"r{number}" for number in ids]
    assert found["agent_surface"]["filter_scope"] == scope
    assert found["agent_surface"].get("filter_incomplete") == (True if scope == "page" else None)
    assert "recordIdsWindow" not in found


def test_record_ids_start_at_the_offset_where_they_are_cut() -> None:
    found = context(board(10), {"offset": 3, "limit": 2}, record_ids=5)
    assert found["recordIds"] == ["r3", "r4", "r5", "r6", "r7"]
    assert text(found["recordIdsWindow"]) == '{"offset":3,"returned":5,"total":10,"next":8}'
    assert found["recordIdsTotal"] == 10
    names = list(found)
    assert names[names.index("recordsTotal") : names.index("agent_surface")] == [
        *("recordsTotal", "recordIdsWindow", "recordIds", "recordIdsTotal")
    ]
    past = context(board(10), {"offset": 11}, record_ids=5)
    assert past["recordIds"] == []
    assert past["recordIdsWindow"] == {"offset": 11, "returned": 0, "total": 10}


def test_a_view_of_records_tells_them_as_asked() -> None:
    snapshot = {
        "regions": [{"id": "g", "title": "G"}, {"id": "off", "title": "", "active": False}],
        "records": [*rows(3), {"id": "hidden", "region": "off"}],
        "recordsTotal": 9,
    }
    found = context(snapshot, {"record": ["r2", "nowhere", "hidden", "r0"]})
    assert text(found["recordWindow"]) == '{"offset":0,"limit":4,"returned":2,"total":2}'
    assert [record["id"] for record in found["records"]] == ["r2", "r0"]
    assert found["missing"] == ["nowhere", "hidden"]
    assert found["recordIds"] == ["r0", "r1", "r2"]
    assert (found["recordsTotal"], found["recordIdsTotal"]) == (9, 3)
    assert found["agent_surface"] == TARGET
    assert list(found).index("missing") == list(found).index("recordWindow") + 1
    assert context(snapshot, {"record": "r0"})["missing"] == []


def test_a_larger_declared_total_makes_what_is_published_a_page() -> None:
    found = context(board(2) | {"recordsTotal": 3}, {})
    assert found["recordsTotal"] == 3
    assert found["recordWindow"]["total"] == found["agent_surface"]["universe_total"] == 2
    assert found["agent_surface"]["filter_scope"] == "page"
    assert context(board(2) | {"recordsTotal": 1}, {})["recordsTotal"] == 2


def test_an_inactive_ancestor_hides_records() -> None:
    regions = [
        {"id": "leaf", "title": "", "parent": "middle"},
        {"id": "middle", "title": "", "parent": "root"},
        {"id": "root", "title": "", "active": False},
    ]
    found = context({"regions": regions, "records": rows(2, "leaf")}, {})
    assert found["records"] == found["recordIds"] == []
    assert (found["recordsTotal"], found["regionsTotal"]) == (0, 3)


def test_unavailable_tells_the_window_and_counts_what_may_be_seen() -> None:
    snapshot = board(3) | {
        "regions": [{"id": "g", "title": ""}, {"id": "off", "title": "", "active": False}],
        "records": [*rows(3), {"id": "hidden", "region": "off"}],
        "capabilities": [
            {"id": name, "title": "", "description": "", "appliesTo": "record", "effect": "read"} for name in ("b", "a")
        ],
        "unavailable": [
            {"capability": "b", "reason": "1"},
            {"capability": "a", "record": "r2", "reason": "2"},
            {"capability": "a", "record": "r0", "reason": "3"},
            {"capability": "a", "record": "hidden", "reason": "4"},
            {"capability": "a", "reason": "5"},
        ],
    }
    found = context(snapshot, {"limit": 1})
    assert [entry["reason"] for entry in found["unavailable"]] == ["5", "3", "1"]
    assert found["unavailableTotal"] == 4
    assert [entry["reason"] for entry in context(snapshot, {"limit": 3}, unavailable=2)["unavailable"]] == ["5", "3"]


NARROWED: Object = {
    "regions": [
        {"id": "all", "title": ""},
        {"id": "mine", "title": "", "parent": "all"},
        {"id": "below", "title": "", "parent": "mine"},
        {"id": "other", "title": ""},
    ],
    "records": [{"id": name, "region": name} for name in ("all", "below", "mine", "other")],
    "recordsTotal": 50,
    "capabilities": [
        {"id": f"c-{region}", "title": "", "description": "", "appliesTo": "record", "effect": "read", "region": region}
        for region in (None, "mine", "below", "other")
    ],
    "unavailable": [
        {"capability": "c-None", "record": "other", "reason": ""},
        {"capability": "c-None", "record": "mine", "reason": ""},
        {"capability": "c-other", "reason": ""},
        {"capability": "c-mine", "reason": ""},
    ],
    "feedback": [
        {"id": "nothing", "level": "notice", "message": ""},
        {"id": "in", "level": "notice", "message": "", "record": "below", "region": "mine", "capability": "c-None"},
        {"id": "region", "level": "notice", "message": "", "record": "below", "region": "other"},
        {"id": "capability", "level": "notice", "message": "", "capability": "c-other"},
        {"id": "record", "level": "notice", "message": "", "record": "all"},
    ],
}


def test_a_narrowed_view_holds_its_regions_and_what_names_nothing_else() -> None:
    found = told(NARROWED, {}, {"mine", "no such region"})
    assert [entry["id"] for entry in found["capabilities"]] == ["c-None", "c-below", "c-mine"]
    assert found["capabilitiesTotal"] == 3
    inner = found["context"]
    assert [(entry["id"], entry["parent"]) for entry in inner["regions"]] == [("mine", None), ("below", "mine")]
    assert inner["recordIds"] == ["below", "mine"]
    assert [(entry["capability"], entry.get("record")) for entry in inner["unavailable"]] == [
        ("c-None", "mine"),
        ("c-mine", None),
    ]
    assert [entry["id"] for entry in inner["feedback"]] == ["nothing", "in"]
    totals = ("regionsTotal", "unavailableTotal", "feedbackTotal", "recordsTotal", "recordIdsTotal")
    assert [inner[name] for name in totals] == [2, 2, 2, 2, 2]
    assert inner["agent_surface"]["filter_scope"] == "universe"


def test_a_view_narrowed_to_nothing() -> None:
    found = told(NARROWED, {"record": "mine"}, set())
    assert [entry["id"] for entry in found["capabilities"]] == ["c-None"]
    assert found["context"]["missing"] == ["mine"]
    assert [entry["id"] for entry in found["context"]["feedback"]] == ["nothing"]
    assert found["context"]["regions"] == found["context"]["recordIds"] == found["context"]["unavailable"] == []
