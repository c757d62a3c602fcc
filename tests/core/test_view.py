"""What a view says, recounted from what was published and from what was told (law 3), and held within `responseBytes`."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import view
from gateway.core.limits import Limits
from tests.core.build import (
    EPOCH,
    TARGET,
    Json,
    board,
    capability,
    changed,
    described,
    projected,
    published,
    viewed,
)
from tests.core.test_bytecut import ORDER, SCHEMA
from tests.oracle import session as oracle_session
from tests.oracle import strategies

SURFACE = jsonschema_rs.validator_for(SCHEMA)
LIMITS = Limits(record_ids=20, window_default=4, unavailable=6, field_chars=24)


def check_numbers(given: Json, asked: Json, scope: Any, told: Json, limits: Limits) -> None:
    """Every total, window and scope of a describe response, counted again from the published snapshot."""
    regions = {region["id"]: region for region in given.get("regions", [])}

    def line(id: Any) -> list[str]:
        return [] if id is None else [id, *line(regions[id].get("parent"))]

    seen = {id for id in regions if scope is None or set(line(id)) & set(scope)}
    shown = {id for id in seen if all(regions[above].get("active", True) for above in line(id))}
    walk = [record["id"] for record in given.get("records", []) if record["region"] in shown]
    homes = {record["id"]: record["region"] for record in given.get("records", [])}
    known = {c["id"] for c in given.get("capabilities", []) if scope is None or c.get("region") in seen | {None}}
    context, surface = told["context"], told["context"].get("agent_surface")
    assert told["capabilitiesTotal"] == len(known) and len(told["capabilities"]) in (0, len(known))
    if surface is None:
        assert context.keys() == {"truncated", "truncated_reason", "max_output_bytes"}
        return
    cut = context.get("truncated", False)
    window, returned = context["recordWindow"], surface.get("input_count", len(context["records"]))
    assert context["regionsTotal"] == len(seen)
    assert context["feedbackTotal"] == sum(
        entry.get("region") in seen | {None}
        and homes.get(entry.get("record")) in seen | {None}
        and entry.get("capability") in known | {None}
        for entry in given.get("feedback", [])
    )
    assert context["unavailableTotal"] == sum(
        entry["capability"] in known and ("record" not in entry or entry["record"] in walk)
        for entry in given.get("unavailable", [])
    )
    assert context["recordIdsTotal"] == len(walk)
    assert context["recordsTotal"] == max(len(walk), given.get("recordsTotal", 0) if scope is None else 0)
    assert window["returned"] == returned
    assert window.get("next") == (
        window["offset"] + returned if window["offset"] + returned < window["total"] else None
    )
    ids = [record["id"] for record in context["records"]]
    if "record" in asked:
        wanted = [asked["record"]] if isinstance(asked["record"], str) else asked["record"]
        assert context["missing"] == [id for id in wanted if id not in walk]
        found = [id for id in wanted if id in walk]
        assert (window["offset"], window["limit"], window["total"]) == (0, len(wanted), len(found))
        assert ids == found[: len(ids)] and not any(name.startswith("query_") for name in surface)
        page = returned < len(found)
        assert surface.get("filter_scope") == ("page" if page else None)
    else:
        offset, limit = asked.get("offset", 0), asked.get("limit", limits.window_default)
        assert (window["offset"], window["limit"], window["total"]) == (offset, limit, len(walk))
        assert ids == walk[offset : offset + limit][: len(ids)]
        page = offset > 0 or offset + returned < max(len(walk), context["recordsTotal"])
        assert surface["filter_scope"] == ("page" if page else "universe")
        assert (surface["query_limit"], surface["universe_total"]) == (limit, len(walk))
        assert surface["query_limit_source"] == ("flag" if "limit" in asked else "default")
    assert surface.get("filter_incomplete") == (True if page else None)
    start = 0 if len(walk) <= limits.record_ids else asked.get("offset", 0)
    whole = walk[start : start + limits.record_ids]
    assert context["recordIds"] == whole or (cut and context["recordIds"] == [])
    past = {"next": start + len(whole)} if start + len(whole) < len(walk) else {}
    expected = {"offset": start, "returned": len(whole), "total": len(walk)} | past
    assert context.get("recordIdsWindow") == (expected if len(walk) > limits.record_ids else None)
    if not cut:
        in_window = [
            e for e in given.get("unavailable", []) if e["capability"] in known and e.get("record", ids) in [*ids, ids]
        ]
        assert len(context["unavailable"]) == min(len(in_window), limits.unavailable)
        assert len(context["feedback"]) == context["feedbackTotal"] and returned == len(ids)
    assert ("input_count" in surface) == ("output_count" in surface)
    assert surface.get("output_count", len(ids)) == len(ids)


@given(st.data(), st.one_of(st.just(2**24), st.integers(1, 12_000)))
def test_every_number_can_be_counted_again(data: st.DataObject, response_bytes: int) -> None:
    limits = msgspec.structs.replace(LIMITS, response_bytes=response_bytes)
    given_ = data.draw(strategies.snapshots(limits, st.integers(0, 60)))
    state = oracle_session.publish(given_, limits)
    asked, scope = data.draw(strategies.views_for(state, limits)), data.draw(strategies.scopes_for(state))
    snapshot = published(given_, limits)
    seen = viewed(None if scope is None else tuple(sorted(scope)), limits, **asked)
    text = view.describe(projected(snapshot, seen, limits), seen, "unknown")
    told = json.loads(text)
    check_numbers(given_, asked, scope, told, limits)
    if "agent_surface" in told["context"]:
        assert len(text) <= response_bytes
        SURFACE.validate(told["context"]["agent_surface"])
        assert list(told["context"]["agent_surface"]) == [n for n in ORDER if n in told["context"]["agent_surface"]]
    again = projected(published(given_, limits), seen, limits)
    assert view.describe(again, seen, "unknown") == text


def test_the_response_is_that_of_the_protocol_member_for_member() -> None:
    snapshot = published(
        {
            "page": {"title": "Departures", "route": "/departures", "params": {"airport": "JFK"}},
            "regions": [{"id": "board", "title": "Board", "description": "Next", "fields": ["status", "dest"]}],
            "records": [
                {"id": "UA-1545", "region": "board", "fields": {"status": "Boarding", "dest": "IAH"}},
                {"id": "B6-725", "region": "board"},
            ],
            "state": {"filter": "all"},
            "capabilities": [capability("flight.hold", region="board")],
            "unavailable": [{"capability": "flight.hold", "record": "UA-1545", "reason": "Departed"}],
            "feedback": [{"id": "f1", "level": "warning", "message": "m", "record": "UA-1545"}],
        }
    )
    seen = viewed(limit=1)
    told = json.loads(view.describe(projected(snapshot, seen), seen, "online"))
    assert list(told) == [
        *("session", "view", "capabilities", "capabilitiesTotal", "context"),
        *("epoch", "revision", "asOf", "publisher"),
    ]
    assert (told["epoch"], told["revision"], told["publisher"]) == (EPOCH, 1, "online")
    assert told["asOf"] == "2026-11-18T11:06:40.000Z"
    assert list(told["context"].items()) == [
        ("page", {"title": "Departures", "route": "/departures", "params": {"airport": "JFK"}}),
        (
            "regions",
            [
                {
                    "id": "board",
                    "title": "Board",
                    "description": "Next",
                    "parent": None,
                    "active": True,
                    "modal": False,
                    "fields": [
                        {"name": "status", "expose": "plain", "source": "application"},
                        {"name": "dest", "expose": "plain", "source": "application"},
                    ],
                }
            ],
        ),
        ("regionsTotal", 1),
        ("state", {"filter": "all"}),
        ("unavailable", [{"capability": "flight.hold", "record": "UA-1545", "reason": "Departed"}]),
        ("unavailableTotal", 1),
        ("feedback", [{"id": "f1", "level": "warning", "message": "m", "record": "UA-1545", "source": "application"}]),
        ("feedbackTotal", 1),
        ("recordWindow", {"offset": 0, "limit": 1, "returned": 1, "total": 2, "next": 1}),
        ("records", [{"id": "UA-1545", "region": "board", "fields": {"dest": "IAH", "status": "Boarding"}}]),
        ("recordsTotal", 2),
        ("recordIds", ["UA-1545", "B6-725"]),
        ("recordIdsTotal", 2),
        (
            "agent_surface",
            {
                "db_path_source": "argv",
                "db_path_resolved": "redis://localhost:6379/0",
                "query_limited": True,
                "query_limit": 1,
                "query_limit_source": "flag",
                "query_limit_kind": "pagination",
                "universe_total": 2,
                "filter_scope": "page",
                "filter_incomplete": True,
            },
        ),
    ]


SMALL = Limits(response_bytes=3000)


def wide(count: int, **more: Any) -> Json:
    """A board whose records need about 220 bytes each."""
    made = board(count, **more)
    for record in made["records"]:
        record["fields"]["dest"] = "x" * 150
    return made


def test_records_leave_from_the_end_and_the_window_says_so() -> None:
    context = described(published(wide(20)), viewed(limits=SMALL, offset=2, limit=16), SMALL)["context"]
    count = len(context["records"])
    assert 0 < count < 16
    assert [record["id"] for record in context["records"]] == [f"F-{n}" for n in range(2, 2 + count)]
    assert context["recordWindow"] == {"offset": 2, "limit": 16, "returned": count, "total": 20, "next": 2 + count}
    assert len(context["recordIds"]) == 20
    assert context["agent_surface"]["filter_scope"] == "page" and context["agent_surface"]["filter_incomplete"] is True
    assert "truncated" not in context and "output_count" not in context["agent_surface"]


def test_a_shortened_window_that_began_at_the_first_record_is_a_page() -> None:
    context = described(published(wide(14)), viewed(limits=SMALL, limit=100), SMALL)["context"]
    assert context["recordWindow"]["returned"] == context["recordWindow"]["next"] < 14
    assert context["agent_surface"]["filter_scope"] == "page"


def test_records_asked_for_by_id_are_shortened_like_a_window() -> None:
    asked = ["none", *[f"F-{n}" for n in range(19, 0, -1)]]
    context = described(published(wide(20)), viewed(limits=SMALL, record=asked), SMALL)["context"]
    count = len(context["records"])
    assert 0 < count < 19 and [record["id"] for record in context["records"]] == asked[1 : 1 + count]
    assert context["recordWindow"] == {"offset": 0, "limit": 20, "returned": count, "total": 19, "next": count}
    assert context["missing"] == ["none"]
    assert context["agent_surface"] == {
        "db_path_source": "argv",
        "db_path_resolved": "redis://localhost:6379/0",
        "filter_scope": "page",
        "filter_incomplete": True,
    }
    whole = described(published(wide(20)), viewed(record=asked))["context"]
    assert "next" not in whole["recordWindow"] and "filter_scope" not in whole["agent_surface"]


def test_with_records_go_their_unavailable_entries_and_not_their_total() -> None:
    entries = [{"capability": "c", "record": f"F-{n}", "reason": "r"} for n in range(20)]
    given_ = wide(20, capabilities=[capability("c")], unavailable=entries)
    context = described(published(given_), viewed(limits=SMALL, limit=20), SMALL)["context"]
    assert [entry["record"] for entry in context["unavailable"]] == [record["id"] for record in context["records"]]
    assert context["unavailableTotal"] == 20


def test_where_no_record_fits_the_response_is_cut_as_by_the_byte_ceiling() -> None:
    given_ = wide(20, feedback=[{"id": f"f{n}", "level": "notice", "message": "m" * 200} for n in range(12)])
    seen = viewed(limits=SMALL, limit=20)
    told = described(published(given_), seen, SMALL)
    context, surface = told["context"], told["context"]["agent_surface"]
    assert context["truncated"] is True and context["feedback"] == [] and context["feedbackTotal"] == 12
    assert context["recordWindow"]["returned"] == surface["input_count"] == 20
    assert surface["output_count"] == len(context["records"]) > 0
    assert surface["dropped"] == 20 - len(context["records"]) + 12 + 20 + 1
    assert surface["max_output_bytes"] == 3000
    assert len(view.describe(projected(published(given_), seen, SMALL), seen, "unknown")) + 512 <= 3000


def test_a_long_store_address_counts_in_the_bound() -> None:
    limits = Limits(response_bytes=5500)
    target = view.Target("argv", "unix:///" + "x" * 5000)
    snapshot, seen = published(board(0)), viewed(limits=limits)
    told = json.loads(view.describe(view.project(snapshot, seen, limits, target), seen, "unknown"))
    assert told["context"] == {"truncated": True, "truncated_reason": "max_output_bytes", "max_output_bytes": 5500}


def test_a_chain_of_regions_is_seen_to_its_end() -> None:
    limits = Limits(regions=3000)
    regions = [{"id": str(n), "title": "R", "parent": str(n - 1) if n else None} for n in range(3000)]
    snapshot = published({"regions": regions[::-1], "records": [{"id": "a", "region": "2999"}]}, limits)
    assert described(snapshot, viewed(("0",)), Limits(response_bytes=2**24))["context"]["recordIdsTotal"] == 1
    assert described(snapshot, viewed(("2999",)))["context"]["regions"][0]["parent"] is None


REGIONS: list[Json] = [
    {"id": "top", "title": "T"},
    {"id": "shut", "title": "S", "parent": "top", "active": False, "modal": True},
    {"id": "below", "title": "B", "parent": "shut"},
    {"id": "other", "title": "O", "modal": True},
]
NESTED: Json = {
    "regions": REGIONS,
    "records": [{"id": region["id"], "region": region["id"]} for region in REGIONS],
    "capabilities": [capability("all"), capability("in-below", region="below"), capability("in-other", region="other")],
    "unavailable": [
        {"capability": c, "record": r, "reason": "r"} for c in ("all", "in-other") for r in ("top", "below")
    ],
    "feedback": [
        {"id": "0", "level": "notice", "message": "m", "record": "below"},
        {"id": "1", "level": "notice", "message": "m", "capability": "in-other"},
        {"id": "2", "level": "notice", "message": "m", "region": "top", "record": "other"},
    ],
    "recordsTotal": 9,
}


@pytest.mark.parametrize(
    ("scope", "regions", "records", "capabilities", "unavailable", "feedback", "total"),
    [
        (None, "top shut below other", "top other", "all in-below in-other", 2, "0 1 2", 9),
        ((), "", "", "all", 0, "", 0),
        (("top",), "top shut below", "top", "all in-below", 1, "0", 1),
        (("below",), "below", "", "all in-below", 0, "0", 0),
        (("other", "not there"), "other", "other", "all in-other", 0, "1", 1),
    ],
)
def test_what_is_seen_under_a_scope(
    scope: Any, regions: str, records: str, capabilities: str, unavailable: int, feedback: str, total: int
) -> None:
    told = described(published(NESTED), viewed(scope))
    context = told["context"]
    assert [region["id"] for region in context["regions"]] == regions.split()
    assert context["recordIds"] == [record["id"] for record in context["records"]] == records.split()
    assert [entry["id"] for entry in told["capabilities"]] == capabilities.split()
    assert context["unavailableTotal"] == unavailable
    assert [entry["id"] for entry in context["feedback"]] == feedback.split()
    assert context["recordsTotal"] == total


def test_a_parent_out_of_scope_is_null_and_activity_is_still_judged_with_it() -> None:
    (region,) = described(published(NESTED), viewed(("below",)))["context"]["regions"]
    assert region["parent"] is None and region["active"] is True


@pytest.mark.parametrize(
    ("offset", "returned", "next"),
    [(0, 2, 2), (1, 2, 3), (4, 1, None), (5, 0, None), (10**12, 0, None), (10**300, 0, None)],
)
def test_windows_at_and_past_the_end(offset: int, returned: int, next: int | None) -> None:
    context = described(published(board(5)), viewed(offset=offset, limit=2))["context"]
    more = {} if next is None else {"next": next}
    assert context["recordWindow"] == {"offset": offset, "limit": 2, "returned": returned, "total": 5} | more
    assert context["agent_surface"]["filter_scope"] == "page"


def test_ids_of_views_tell_apart_what_could_differ_in_one_byte() -> None:
    told = [
        viewed(),
        viewed(limit=8),
        viewed(offset=1),
        viewed(record="8"),
        viewed(record=["8", "9"]),
        viewed(record=["9", "8"]),
        viewed(()),
        viewed(("8",)),
        msgspec.structs.replace(viewed(), session="t"),
    ]
    assert len({each.id() for each in told}) == len(told)
    assert viewed(record="8").id() == viewed(record=["8"]).id()
    assert all(1 <= len(each.id()) <= 200 for each in told)


def test_a_projection_reuses_what_cannot_have_changed_and_nothing_else() -> None:
    first = published(NESTED | {"page": {"title": "A"}})
    seen = viewed(("top", "other"))
    last = projected(first, seen)
    for change in (
        {"page": {"title": "B"}},
        {"state": {"set": {"a": 1}}},
        {"records": {"remove": ["other"]}},
        {"regions": {"upsert": [{"id": "shut", "active": True}]}},
        {"capabilities": {"remove": ["all"]}},
        {"records": {"upsert": [{"id": "new", "region": "below", "before": "top"}]}},
    ):
        first = changed(first, change)
        told = projected(first, seen, last=last)
        assert view.describe(told, seen, "none") == view.describe(projected(first, seen), seen, "none")
        last = told
    assert last.snapshot.page is not None and TARGET.resolved.encode() in last.surface
