"""The params of every method (protocol §4, §6): each thing that is wrong, by `kind` and `path`."""

from typing import Any

import msgspec
import pytest

from gateway.core.limits import Limits
from gateway.core.params import Patch
from tests.core.frames import PATCH, PUBLISH, SINCE, change, frame, params_of, refused, snapshot, taken

POSITION = {"epoch": "e", "revision": 1}

INVALID: list[tuple[str, Any, str]] = [
    ("ping", [], ""),
    ("ping", 5, ""),
    ("ping", "a", ""),
    ("ping", {"a": 1}, "/a"),
    ("hello", {"token": "t"}, "/token"),
    ("hello", {"client": {"name": "n"}}, "/client/version"),
    ("hello", {"client": {"name": "n", "version": 1}}, "/client/version"),
    ("hello", {"client": None}, "/client"),
    ("describe", {}, "/session"),
    ("describe", {"session": None}, "/session"),
    ("describe", {"session": 1}, "/session"),
    ("describe", {"session": 653247040368672768}, "/session"),
    ("describe", {"session": True}, "/session"),
    ("describe", {"session": ""}, "/session"),
    ("describe", {"session": "a" * 201}, "/session"),
    ("describe", {"session": "a\n"}, "/session"),
    ("describe", {"session": "\x00a"}, "/session"),
    ("describe", {"session": "a\x1fb"}, "/session"),
    ("describe", {"session": "a\x7f"}, "/session"),
    ("describe", {"session": "s", "offset": -1}, "/offset"),
    ("describe", {"session": "s", "offset": 0.0}, "/offset"),
    ("describe", {"session": "s", "offset": None}, "/offset"),
    ("describe", {"session": "s", "limit": 0}, "/limit"),
    ("describe", {"session": "s", "limit": -1}, "/limit"),
    ("describe", {"session": "s", "limit": 2.5}, "/limit"),
    ("describe", {"session": "s", "limit": 5.0}, "/limit"),
    ("describe", {"session": "s", "limit": "8"}, "/limit"),
    ("describe", {"session": "s", "limit": None}, "/limit"),
    ("describe", {"session": "s", "limit": True}, "/limit"),
    ("describe", {"session": "s", "record": 1}, "/record"),
    ("describe", {"session": "s", "record": None}, "/record"),
    ("describe", {"session": "s", "record": []}, "/record"),
    ("describe", {"session": "s", "record": [1]}, "/record/0"),
    ("describe", {"session": "s", "record": ["a", ""]}, "/record/1"),
    ("describe", {"session": "s", "record": [str(n) for n in range(21)]}, "/record"),
    ("describe", {"session": "s", "record": ["a", "b", "a"]}, "/record/2"),
    ("describe", {"session": "s", "record": "a", "offset": 0}, "/offset"),
    ("describe", {"session": "s", "record": "a", "limit": 1}, "/limit"),
    ("describe", {"session": "s", "record": "a", "limit": 1, "offset": 0}, "/offset"),
    ("describe", {"session": "s", "surface": {"select": ["id"]}}, "/surface"),
    ("describe", {"session": "s", "a/b~c": 1}, "/a~1b~0c"),
    ("describe", {"b": 1, "a": 1, "session": 5}, "/b"),
    ("describe", {"session": 5, "b": 1}, "/session"),
    ("changes", {"session": "s"}, "/since"),
    ("changes", {"session": "s", "since": {"view": "v", "epoch": "e"}}, "/since/revision"),
    ("changes", {"session": "s", "since": SINCE | {"revision": 0}}, "/since/revision"),
    ("changes", {"session": "s", "since": SINCE | {"revision": 1.0}}, "/since/revision"),
    ("changes", {"session": "s", "since": SINCE | {"epoch": ""}}, "/since/epoch"),
    ("changes", {"session": "s", "since": SINCE | {"epoch": "e" * 65}}, "/since/epoch"),
    ("subscribe", {"session": "s", "deliver": "pull"}, "/deliver"),
    ("subscribe", {"session": "s", "paceMs": 51}, "/paceMs"),
    ("subscribe", {"session": "s", "paceMs": 50.0}, "/paceMs"),
    ("subscribe", {"session": "s", "paceMs": False}, "/paceMs"),
    ("subscribe", {"session": "s", "since": None}, "/since"),
    ("subscribe", {"session": "s", "presence": True}, "/presence"),
    ("subscribe", {"session": "s", "approvals": False}, "/approvals"),
    ("unsubscribe", {}, "/view"),
    ("unsubscribe", {"view": ""}, "/view"),
    ("unsubscribe", {"view": 1}, "/view"),
    ("sessions", {"prefix": None}, "/prefix"),
    ("sessions", {"cursor": ""}, "/cursor"),
    ("sessions", {"limit": 0}, "/limit"),
    ("publish", {"session": "s", "snapshot": {}}, "/base"),
    ("publish", {"session": "s", "base": None}, "/snapshot"),
    ("publish", PUBLISH | {"base": "all"}, "/base"),
    ("publish", PUBLISH | {"base": 1}, "/base"),
    ("publish", PUBLISH | {"base": {"epoch": "e"}}, "/base/revision"),
    ("publish", PUBLISH | {"base": POSITION | {"view": "v"}}, "/base/view"),
    ("publish", PUBLISH | {"ttlMs": 0}, "/ttlMs"),
    ("publish", PUBLISH | {"cause": {}}, "/cause/kind"),
    ("publish", PUBLISH | {"cause": {"kind": "other"}}, "/cause/kind"),
    ("publish", PUBLISH | {"cause": {"kind": "action", "invocation": "i"}}, "/cause/invocation"),
    ("publish", snapshot(page=None), "/snapshot/page"),
    ("publish", snapshot(page={"params": {"a": None}}), "/snapshot/page/params/a"),
    ("publish", snapshot(page={"params": {"a": []}}), "/snapshot/page/params/a"),
    ("publish", snapshot(page={"params": {"": {}}}), "/snapshot/page/params/"),
    ("publish", snapshot(page={"unset": True}), "/snapshot/page/unset"),
    ("publish", snapshot(regions=None), "/snapshot/regions"),
    ("publish", snapshot(regions=[{"id": "r"}]), "/snapshot/regions/0/title"),
    ("publish", snapshot(regions=[{"id": "r", "title": "", "parent": 1}]), "/snapshot/regions/0/parent"),
    ("publish", snapshot(regions=[{"id": "r", "title": "", "fields": ["a", "b=c"]}]), "/snapshot/regions/0/fields/1"),
    ("publish", snapshot(regions=[{"id": "r", "title": "", "fields": [1]}]), "/snapshot/regions/0/fields/0"),
    ("publish", snapshot(regions=[{"id": "r", "title": "", "fields": [{}]}]), "/snapshot/regions/0/fields/0/name"),
    *(
        (
            "publish",
            snapshot(regions=[{"id": "r", "title": "", "fields": [{"name": "a", "expose": expose}]}]),
            "/snapshot/regions/0/fields/0/expose",
        )
        for expose in ("mask", "alias", "placeholder", None, "")
    ),
    (
        "publish",
        snapshot(regions=[{"id": "r", "title": "", "fields": [{"name": "a", "maxChars": 0}]}]),
        "/snapshot/regions/0/fields/0/maxChars",
    ),
    ("publish", snapshot(records=[{"id": "a", "region": "r"}, {"id": 5, "region": "r"}]), "/snapshot/records/1/id"),
    ("publish", snapshot(records=[{"id": "a"}]), "/snapshot/records/0/region"),
    ("publish", snapshot(records=[{"id": "a", "region": "r", "fields": None}]), "/snapshot/records/0/fields"),
    ("publish", snapshot(records=[{"id": "a", "region": "r", "score": 1}]), "/snapshot/records/0/score"),
    ("publish", snapshot(state=[]), "/snapshot/state"),
    ("publish", snapshot(feedback=[{"id": "f", "level": "info", "message": ""}]), "/snapshot/feedback/0/level"),
    (
        "publish",
        snapshot(feedback=[{"id": "f", "level": "error", "message": "", "record": None}]),
        "/snapshot/feedback/0/record",
    ),
    ("publish", snapshot(unavailable=[{"capability": "c"}]), "/snapshot/unavailable/0/reason"),
    (
        "publish",
        snapshot(capabilities=[{"id": "c", "title": "", "description": ""}]),
        "/snapshot/capabilities/0/appliesTo",
    ),
    (
        "publish",
        snapshot(capabilities=[{"id": "c", "title": "", "description": "", "appliesTo": "record", "effect": "x"}]),
        "/snapshot/capabilities/0/effect",
    ),
    ("publish", snapshot(recordsTotal=None), "/snapshot/recordsTotal"),
    ("publish", snapshot(recordsTotal=-1), "/snapshot/recordsTotal"),
    ("publish", snapshot(scope={"tenant": 1}), "/snapshot/scope/tenant"),
    ("publish", snapshot(recordIds=[]), "/snapshot/recordIds"),
    ("patch", PATCH | {"base": None}, "/base"),
    ("patch", PATCH | {"ttlMs": 5}, "/ttlMs"),
    ("patch", change(page=None), "/change/page"),
    ("patch", change(page={"unset": False}), "/change/page/unset"),
    ("patch", change(page={"unset": True, "title": ""}), "/change/page/title"),
    ("patch", change(page={"unset": True, "params": {}}), "/change/page/params"),
    ("patch", change(state={"unset": "a"}), "/change/state/unset"),
    ("patch", change(records={"upsert": [{"region": "r"}]}), "/change/records/upsert/0/id"),
    ("patch", change(records={"upsert": [{"id": "a", "before": None}]}), "/change/records/upsert/0/before"),
    ("patch", change(records={"remove": ["a", 1]}), "/change/records/remove/1"),
    ("patch", change(records={"order": None}), "/change/records/order"),
    ("patch", change(regions={"upsert": [{}]}), "/change/regions/upsert/0/id"),
    ("patch", change(unavailable={"unset": [{"capability": "c", "reason": ""}]}), "/change/unavailable/unset/0/reason"),
    ("patch", change(recordsTotal=1.5), "/change/recordsTotal"),
    ("end", {"session": "s", "base": None}, "/base"),
]


@pytest.mark.parametrize(("method", "params", "path"), INVALID)
def test_invalid_params_are_told_by_path_and_what_is_expected(method: str, params: Any, path: str) -> None:
    id, data = refused(frame(method, params))
    assert (id, data["kind"], data["path"]) == (7, "invalid_params", path)
    assert data["expected"]
    assert data.keys() == {"kind", "errorClass", "retryable", "path", "expected"}


def test_null_params_are_not_absent_ones() -> None:
    assert refused('{"jsonrpc":"2.0","id":7,"method":"ping","params":null}')[1]["path"] == ""


def test_of_two_members_in_conflict_both_are_named() -> None:
    expected = refused(frame("describe", {"session": "s", "record": "a", "offset": 0}))[1]["expected"]
    assert "`offset`" in expected and "`record`" in expected


@pytest.mark.parametrize(
    ("method", "params", "limit", "maximum", "path"),
    [
        ("describe", {"session": "s", "limit": 101}, "windowRecords", 100, "/limit"),
        ("describe", {"session": "s", "limit": 10**300}, "windowRecords", 100, "/limit"),
        ("changes", {"session": "s", "since": SINCE, "limit": 101}, "windowRecords", 100, "/limit"),
        ("changes", {"session": "s", "since": SINCE | {"revision": 2**53}}, "revision", 2**53 - 1, "/since/revision"),
        ("subscribe", {"session": "s", "limit": 101}, "windowRecords", 100, "/limit"),
        ("sessions", {"limit": 101}, "sessionsPage", 100, "/limit"),
        ("publish", PUBLISH | {"ttlMs": 86_400_001}, "sessionTtlMs", 86_400_000, "/ttlMs"),
        ("publish", PUBLISH | {"base": {"epoch": "e", "revision": 10**30}}, "revision", 2**53 - 1, "/base/revision"),
    ],
)
def test_a_number_above_its_maximum_is_limit_exceeded(
    method: str, params: dict[str, Any], limit: str, maximum: int, path: str
) -> None:
    id, data = refused(frame(method, params))
    assert (id, data["kind"], data["limit"], data["maximum"], data["path"]) == (
        7,
        "limit_exceeded",
        limit,
        maximum,
        path,
    )
    assert data["given"] > maximum


def test_the_configured_limit_counts() -> None:
    limits = Limits(window_records=5, sessions_page=5, session_ttl_ms=5)
    for method, params, limit in (
        ("describe", {"session": "s", "limit": 6}, "windowRecords"),
        ("sessions", {"limit": 6}, "sessionsPage"),
        ("publish", PUBLISH | {"ttlMs": 6}, "sessionTtlMs"),
    ):
        assert refused(frame(method, params), limits)[1]["limit"] == limit
        assert taken(frame(method, params | {k: 5 for k in params if k in ("limit", "ttlMs")}), limits).method == method
    assert taken(frame("sessions"), limits).method == "sessions"


def test_null_and_absent_are_two_things() -> None:
    absent, null = params_of(frame("patch", change())), params_of(frame("patch", change(recordsTotal=None)))
    assert isinstance(absent, Patch) and absent.change.records_total is msgspec.UNSET
    assert null.change.records_total is None
    region = {"id": "r"}
    upserts = [params_of(frame("patch", change(regions={"upsert": [r]}))) for r in (region, region | {"parent": None})]
    assert [p.change.regions.upsert[0].parent for p in upserts] == [msgspec.UNSET, None]
