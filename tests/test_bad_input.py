"""Every bad input the first issue names, on a real socket before a real Redis.

Each item is refused with its `kind` and its `path` (or limit), on a connection that lives on, and nothing is stored.
"""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.core.params import METHODS
from tests.ring import BINARY, TEXT, Ring, masked, request, running

BOARD: dict[str, Any] = {
    "page": {"title": "Board", "route": "/board", "params": {"airport": "JFK"}},
    "regions": [
        {
            "id": "board",
            "title": "Board",
            "description": "",
            "parent": None,
            "active": True,
            "modal": False,
            "fields": ["dest", {"name": "status", "expose": "plain", "source": "application", "maxChars": 50}],
        },
        {"id": "side", "title": "Side", "parent": "board"},
    ],
    "records": [
        {"id": "A", "region": "board", "fields": {"dest": "IAH"}},
        {"id": "B", "region": "board", "fields": {"dest": None}},
        {"id": "C", "region": "board"},
    ],
    "state": {"filter": "all"},
    "capabilities": [
        {
            "id": "hold",
            "title": "Hold",
            "description": "",
            "appliesTo": "record",
            "region": None,
            "arguments": {"type": "object"},
            "effect": "write",
            "confirm": False,
            "idempotent": True,
        }
    ],
    "feedback": [
        {
            "id": "f",
            "level": "notice",
            "message": "…",
            "record": "A",
            "region": "board",
            "capability": "hold",
            "source": "application",
        }
    ],
    "unavailable": [{"capability": "hold", "record": "A", "reason": "Departed"}],
    "recordsTotal": 3,
    "scope": {"tenant": "t"},
}
CHANGE: dict[str, Any] = {
    "page": {"title": "Board", "route": "/board", "params": {"airport": "EWR"}},
    "state": {"set": {"filter": "late"}, "unset": ["sort"]},
    "regions": {
        "upsert": [
            {"id": "side", "title": "Aside", "description": "", "parent": None, "active": True, "modal": False},
            {"id": "new", "title": "New", "fields": [{"name": "x", "expose": "plain"}]},
        ],
        "remove": [],
    },
    "capabilities": {"upsert": [], "remove": []},
    "records": {
        "upsert": [{"id": "D", "region": "board", "fields": {"dest": "ORD"}, "unset": ["status"], "before": "A"}],
        "remove": ["C"],
        "order": ["A", "B", "D"],
    },
    "feedback": [],
    "unavailable": {"set": [], "unset": [{"capability": "hold", "record": "A"}]},
    "recordsTotal": None,
    "scope": {"tenant": "u"},
}
SINCE = {"view": "v", "epoch": "e", "revision": 1}


class Bad(NamedTuple):
    """One item: a text as it is sent, and what of the error's `data` must be so. `id`: the reply's."""

    name: str
    text: str
    data: dict[str, Any]
    id: int | str | None = 1


def params(method: str, given: Any, /, **data: Any) -> Bad:
    """A request of these params; `data`: what is told."""
    return Bad(f"{method} {json.dumps(given)[:200]}", request(1, method, given), data)


def invalid(method: str, path: str, **given: Any) -> Bad:
    return params(method, given, kind="invalid_params", path=path)


def told(bad: Iterable[str], data: dict[str, Any], id: int | None = None) -> list[Bad]:
    return [Bad(text[:100], text, data, id) for text in bad]


PARSE = {"kind": "parse_error"}
REQUEST = {"kind": "invalid_request"}
DEPTH = {"kind": "limit_exceeded", "limit": "depth", "maximum": 32, "given": 33}
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'


def publish_of(member: str) -> str:
    """A publish with a record whose one field is this text of JSON."""
    return (
        '{"jsonrpc":"2.0","id":1,"method":"publish","params":{"session":"new","base":null,"snapshot":{"regions":'
        '[{"id":"r","title":"","fields":["f"]}],"records":[{"id":"1","region":"r","fields":{"f":MEMBER}}]}}}'
    ).replace("MEMBER", member)


NO_JSON = [
    *told(["hello", "", " ", "{", "}", PING + "x", PING + PING, "\ufeff" + PING, "'", "{'id':1}", "\x00"], PARSE),
    *told(
        [publish_of(text) for text in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "01", "+1", ".5", "1.")],
        PARSE,
    ),
    *told(
        [publish_of(f'"{text}"') for text in (r"\ud83d", r"\ude00", r"\ude00\ud83d", r"\ud83d\ud83d", r"a\ud83db")],
        PARSE,
    ),
    *told([publish_of("1" * 310), publish_of("-" + "1" * 310), publish_of('"\x01"'), publish_of('"\n"')], PARSE),
    *told([PING.replace('"id":1', r'"id":"\ud83d"'), PING.replace("ping", r"\ud83d")], PARSE),
    *told([PING[:-1] + r',"\ud83d":1}'], PARSE),
    *told(["[]", f"[{PING}]", f"[{PING},{PING}]", "1", '"ping"', "null", "true", "[1]"], REQUEST),
]
DEEP = [
    *told(["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000], DEPTH),
    *told([publish_of("[" * 100_000 + "]" * 100_000), publish_of("[" * 28 + "]" * 28)], DEPTH, 1),
    *told([PING[:-1] + ',"extra":' + "[" * 100_000 + "]" * 100_000 + "}"], DEPTH, 1),
    *told([publish_of('{"a":' * 100_000 + "1" + "}" * 100_000)], DEPTH, 1),
]
ENVELOPE = [
    *told(['{"id":1,"method":"ping"}', '{"jsonrpc":"1.0","id":1,"method":"ping"}'], REQUEST, 1),
    *told(['{"jsonrpc":2.0,"id":1,"method":"ping"}', '{"jsonrpc":null,"id":1,"method":"ping"}'], REQUEST, 1),
    *told(
        [f'{{"jsonrpc":"2.0","id":1,"method":{method}}}' for method in ("1", "null", "[]", "{}", "true")], REQUEST, 1
    ),
    *told(['{"jsonrpc":"2.0","id":1}', PING[:-1] + ',"extra":1}', PING[:-1] + ',"__proto__":{}}'], REQUEST, 1),
    *told(
        [
            PING.replace('"id":1', f'"id":{id}')
            for id in (
                "null",
                "true",
                "1.5",
                "1.0",
                "1e0",
                "{}",
                "[1]",
                "9007199254740992",
                "-9007199254740992",
                '"%s"' % ("x" * 61),
            )
        ],
        REQUEST,
    ),
    params("", {}, kind="unknown_method"),
    params("Describe", {}, kind="unknown_method", suggestions=["describe", "subscribe", "unsubscribe"]),
    params("describe ", {}, kind="unknown_method"),
    *[
        params(method, {}, kind="unknown_method")
        for method in (
            "__proto__",
            "constructor",
            "find",
            "serve",
            "invoke",
            "authorize",
            "presence",
            "decide",
            "cancel",
        )
    ],
    *[params("ping", given, kind="invalid_params", path="") for given in ([], [1], "x", 1, True)],
    Bad("params null", PING[:-1] + ',"params":null}', {"kind": "invalid_params", "path": ""}),
]
BAD_IDS: list[Any] = [None, 1, 1.5, True, [], {}, "", "x" * 201, "a\x00b", "\x1f", "\x7f", "\n"]
IDS = [
    *[invalid("describe", "/session", session=id) for id in BAD_IDS],
    *[invalid("describe", "/record", session="s", record=id) for id in BAD_IDS if id not in ([],)],
    *[invalid("describe", "/record/0", session="s", record=[id]) for id in BAD_IDS],
    invalid("describe", "/record", session="s", record=[]),
    invalid("describe", "/record", session="s", record=[str(n) for n in range(21)]),
    invalid("describe", "/record/1", session="s", record=["A", "A"]),
    invalid("describe", "/offset", session="s", record="A", offset=0),
    invalid("describe", "/limit", session="s", record=["A"], limit=1),
    *[
        invalid(
            "publish",
            f"/snapshot/records/0/{name}",
            session="s",
            base="any",
            snapshot={"records": [{"id": "1", "region": "r"} | {name: id}]},
        )
        for id in BAD_IDS
        for name in ("id", "region")
    ],
    *[
        invalid(
            "publish",
            "/snapshot/regions/0/id",
            session="s",
            base="any",
            snapshot={"regions": [{"id": id, "title": ""}]},
        )
        for id in BAD_IDS
    ],
    *[
        invalid("patch", "/change/records/remove/0", session="s", base="any", change={"records": {"remove": [id]}})
        for id in BAD_IDS
    ],
    *[
        invalid(
            "publish",
            "/snapshot/regions/0/fields/0",
            session="s",
            base="any",
            snapshot={"regions": [{"id": "r", "title": "", "fields": [name]}]},
        )
        for name in ("", "a.b", "a=b", "a!", "~a", "a,b", "x" * 201, 1, None, "\x00")
    ],
]
PAST = {"kind": "limit_exceeded", "limit": "revision", "maximum": 2**53 - 1, "given": 2**53}
WINDOW = [
    params("changes", {"session": "s", "since": SINCE | {"revision": 2**53}}, **PAST, path="/since/revision"),
    *[invalid("describe", "/limit", session="s", limit=limit) for limit in (0, -1, 2.5, 5.0, "8", True, None, [8])],
    *[invalid("describe", "/offset", session="s", offset=offset) for offset in (-1, 2.5, 5.0, "8", True, None)],
    *[
        Bad(
            text,
            request(1, "describe", {"session": "s"})[:-2] + f',"limit":{text}}}}}',
            {"kind": "invalid_params", "path": "/limit"},
        )
        for text in ("1e2", "5.0", "-0")
    ],
    *[
        params(
            "describe",
            {"session": "s", "limit": limit},
            kind="limit_exceeded",
            limit="windowRecords",
            maximum=100,
            given=limit,
        )
        for limit in (101, 10**9, 10**12)
    ],
    params("sessions", {"limit": 101}, kind="limit_exceeded", limit="sessionsPage", maximum=100, given=101),
    *[invalid("sessions", "/limit", limit=limit) for limit in (0, -1, 1.5, "1")],
    *[invalid("subscribe", "/paceMs", session="s", paceMs=pace) for pace in (1, -1, 50.0, "50", True)],
    invalid("subscribe", "/deliver", session="s", deliver="pull"),
    invalid("changes", "/since", session="s"),
    *[invalid("changes", "/since/revision", session="s", since=SINCE | {"revision": n}) for n in (0, -1, 1.0, "1")],
    *[invalid("changes", "/since/epoch", session="s", since=SINCE | {"epoch": e}) for e in ("", "x" * 65, 1)],
    params("describe", {}, kind="invalid_params", path="/session"),
    params("unsubscribe", {"view": "v"}, kind="unknown_view"),
    params("describe", {"session": "other"}, kind="unknown_session"),
    params("subscribe", {"session": "other"}, kind="unknown_session"),
]


def put(method: str, given: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """A copy of params with one member replaced or added."""
    changed = copy.deepcopy(given)
    node: Any = changed
    *way, last = pointer.strip("/").split("/")
    for name in way:
        node = node[int(name) if isinstance(node, list) else name]
    node[int(last) if isinstance(node, list) else last] = value
    return changed


FULL: dict[str, dict[str, Any]] = {
    "hello": {"client": {"name": "n", "version": "1"}},
    "ping": {},
    "describe": {"session": "s", "offset": 0, "limit": 8},
    "changes": {"session": "s", "offset": 0, "limit": 8, "since": SINCE},
    "subscribe": {"session": "s", "offset": 0, "limit": 8, "deliver": "push", "paceMs": 0, "since": SINCE},
    "unsubscribe": {"view": "v"},
    "sessions": {"prefix": "", "cursor": "a", "limit": 1},
    "publish": {"session": "s", "snapshot": BOARD, "base": "any", "cause": {"kind": "data"}, "ttlMs": 1_000_000},
    "patch": {"session": "s", "change": CHANGE, "base": "any", "cause": {"kind": "data"}},
    "end": {"session": "s", "base": "any"},
}
"""Params of every method with every member."""
NULLABLE = {
    ("publish", "/base"),
    ("publish", "/snapshot/regions/0/parent"),
    ("publish", "/snapshot/regions/1/parent"),
    ("publish", "/snapshot/capabilities/0/region"),
    ("patch", "/change/regions/upsert/0/parent"),
    ("patch", "/change/recordsTotal"),
}
FREE = ("/state/", "/set/", "/fields/dest", "/arguments/")


def pointers(value: Any, at: str = "") -> Iterable[str]:
    """Of every member and element below."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, below in items:
        yield f"{at}/{name}"
        yield from pointers(below, f"{at}/{name}")


def objects(value: Any, at: str = "") -> Iterable[str]:
    """Of every object that takes named members only."""
    if isinstance(value, dict):
        if not at.endswith(("/state", "/set", "/fields", "/arguments", "/params", "/scope")):
            yield at
        for name, below in value.items():
            yield from objects(below, f"{at}/{name}")
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from objects(below, f"{at}/{index}")


NULLS = [
    params(method, put(method, given, pointer, None), kind="invalid_params", path=pointer)
    for method, given in FULL.items()
    for pointer in pointers(given)
    if (method, pointer) not in NULLABLE and not any(free in pointer for free in FREE)
]
UNKNOWN = [
    params(method, put(method, given, f"{at}/{name}", 1), kind="invalid_params", path=f"{at}/{name}")
    for method, given in FULL.items()
    for at in objects(given)
    for name in ("extra", "__proto__")
]
LATER = [
    *[
        invalid(method, "/surface", session="s", surface={}, **rest)
        for method, rest in (("describe", {}), ("subscribe", {}), ("changes", {"since": SINCE}))
    ],
    invalid("subscribe", "/presence", session="s", presence=True),
    invalid("subscribe", "/approvals", session="s", approvals=True),
    invalid("hello", "/token", token="t"),
    invalid(
        "publish", "/cause/invocation", session="s", base="any", snapshot={}, cause={"kind": "data", "invocation": "i"}
    ),
    *[
        invalid(
            "publish",
            "/snapshot/regions/0/fields/0/expose",
            session="s",
            base="any",
            snapshot={"regions": [{"id": "r", "title": "", "fields": [{"name": "f", "expose": expose}]}]},
        )
        for expose in ("mask", "alias", "placeholder")
    ],
]


def publish(path: str, **changed: Any) -> Bad:
    """A publish of the board with these members of the snapshot replaced."""
    return invalid("publish", path, session="s", base="any", snapshot=BOARD | changed)


def record(**members: Any) -> dict[str, Any]:
    return {"id": "A", "region": "board"} | members


def limited(limit: str, maximum: int, given: int, **changed: Any) -> Bad:
    data = {"kind": "limit_exceeded", "limit": limit, "maximum": maximum, "given": given}
    return params("publish", {"session": "s", "base": "any", "snapshot": BOARD | {"recordsTotal": 0} | changed}, **data)


REGION = {"id": "board", "title": ""}
OTHER_BASES: list[Any] = ["other", 1, True, []]
SNAPSHOT = [
    publish("/snapshot/records/3/id", records=[*BOARD["records"], record()]),
    publish("/snapshot/regions/2/id", regions=[*BOARD["regions"], REGION]),
    publish("/snapshot/capabilities/1/id", capabilities=BOARD["capabilities"] * 2),
    publish("/snapshot/feedback/1/id", feedback=BOARD["feedback"] * 2),
    publish("/snapshot/unavailable/1", unavailable=BOARD["unavailable"] * 2),
    publish("/snapshot/records/3/region", records=[*BOARD["records"], record(id="Z", region="nowhere")]),
    publish(
        "/snapshot/regions/1/parent", regions=[BOARD["regions"][0], {"id": "side", "title": "", "parent": "nowhere"}]
    ),
    publish("/snapshot/regions/0/parent", regions=[BOARD["regions"][0] | {"parent": "board"}, BOARD["regions"][1]]),
    publish("/snapshot/regions/0/parent", regions=[BOARD["regions"][0] | {"parent": "side"}, BOARD["regions"][1]]),
    publish("/snapshot/unavailable/0/capability", unavailable=[{"capability": "none", "reason": ""}]),
    publish("/snapshot/unavailable/0/record", unavailable=[{"capability": "hold", "record": "none", "reason": ""}]),
    *[
        publish(f"/snapshot/feedback/0/{name}", feedback=[BOARD["feedback"][0] | {name: "none"}])
        for name in ("record", "region", "capability")
    ],
    publish(
        "/snapshot/regions/0/fields/1",
        regions=[BOARD["regions"][0] | {"fields": ["dest", "dest"]}, BOARD["regions"][1]],
    ),
    publish("/snapshot/recordsTotal", recordsTotal=-1),
    publish("/snapshot/recordsTotal", recordsTotal=3.0),
    publish("/snapshot/page/params/x", page={"params": {"x": None}}),
    publish("/snapshot/page/params/x", page={"params": {"x": []}}),
    publish("/snapshot/scope/x", scope={"x": 1}),
    invalid("publish", "/base", session="s", snapshot={}),
    *[invalid("publish", "/base", session="s", snapshot={}, base=base) for base in OTHER_BASES],
    invalid("publish", "/base/epoch", session="s", snapshot={}, base={"revision": 1}),
    *[
        invalid("publish", "/base/revision", session="s", snapshot={}, base={"epoch": "e", "revision": n})
        for n in (0, 1.0)
    ],
    *[invalid("publish", "/ttlMs", session="s", snapshot={}, base="any", ttlMs=ttl) for ttl in (0, -1, 1.0, "1")],
    params(
        "publish",
        {"session": "s", "snapshot": {}, "base": "any", "ttlMs": 86_400_001},
        kind="limit_exceeded",
        limit="sessionTtlMs",
    ),
    invalid("publish", "/cause/kind", session="s", snapshot={}, base="any", cause={"kind": "nothing"}),
    limited(
        "fieldsPerRecord", 64, 65, regions=[REGION | {"fields": [f"f{n}" for n in range(65)]}, BOARD["regions"][1]]
    ),
    limited(
        "fieldBytes", 16_384, 16_385, records=[record(fields={"dest": [1] * 8_192}), record(id="B"), record(id="C")]
    ),
    limited("stateBytes", 16_384, 16_385, state={"a": "x" * (16_384 - 7)}),
    limited("regions", 100, 101, regions=[*BOARD["regions"], *({"id": f"r{n}", "title": ""} for n in range(99))]),
    limited("feedback", 50, 51, feedback=[{"id": str(n), "level": "error", "message": ""} for n in range(51)]),
    limited(
        "capabilities",
        200,
        201,
        capabilities=[BOARD["capabilities"][0] | {"id": f"c{n}" if n else "hold"} for n in range(201)],
    ),
    limited("textChars", 1_024, 1_025, page={"title": "x" * 1_025}),
    limited("textChars", 1_024, 1_025, feedback=[BOARD["feedback"][0] | {"message": "x" * 1_025}]),
]


def patch(path: str, **change: Any) -> Bad:
    return invalid("patch", path, session="s", base="any", change=change)


def upserts(*list_of: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"upsert": list(list_of)} | more


PATCHES = [
    patch("/change/records/upsert/1", records=upserts({"id": "A"}, {"id": "A"})),
    patch("/change/records/remove/1", records={"remove": ["A", "A"]}),
    patch("/change/records/remove/0", records=upserts({"id": "A"}, remove=["A"])),
    patch("/change/records/remove/0", records={"remove": ["Z"]}),
    patch("/change/records/upsert/0/before", records=upserts({"id": "A", "before": "Z"})),
    patch("/change/records/upsert/0/after", records=upserts({"id": "A", "after": "Z"})),
    patch("/change/records/upsert/0/before", records=upserts({"id": "A", "before": "B", "after": "C"})),
    patch("/change/records/upsert/0/before", records=upserts({"id": "A", "before": "A"})),
    patch("/change/records/upsert/0/after", records=upserts({"id": "A", "after": "B"}, remove=["B"])),
    patch("/change/records/upsert/0/region", records=upserts({"id": "new", "fields": {}})),
    patch("/change/records/upsert/0/region", records=upserts({"id": "A", "region": "nowhere"})),
    patch("/change/records/order", records={"order": ["A", "B"]}),
    patch("/change/records/order", records={"order": ["A", "B", "C", "Z"]}),
    patch("/change/records/order", records={"order": ["A", "B", "B"]}),
    patch("/change/regions/upsert/0/fields", regions=upserts({"id": "board", "fields": ["dest"]})),
    patch("/change/regions/upsert/0/title", regions=upserts({"id": "third"})),
    patch("/change/regions/upsert/0/parent", regions=upserts({"id": "side", "parent": "nowhere"})),
    patch("/change/regions/upsert/0/parent", regions=upserts({"id": "board", "parent": "side"})),
    patch("/change/regions/remove/0", regions={"remove": ["nowhere"]}),
    patch("/change/regions/remove/0", regions={"remove": ["board"]}),
    patch("/change/regions/upsert/1", regions=upserts({"id": "side"}, {"id": "side"})),
    patch("/change/regions/remove/0", regions=upserts({"id": "side"}, remove=["side"])),
    patch("/change/capabilities/remove/0", capabilities={"remove": ["none"]}),
    patch("/change/capabilities/remove/1", capabilities={"remove": ["hold", "hold"]}),
    patch("/change/page/title", page={"unset": True, "title": "x"}),
    patch("/change/page/unset", page={"unset": False}),
    patch("/change/feedback/0/record", feedback=[{"id": "f", "level": "error", "message": "", "record": "Z"}]),
    patch("/change/unavailable/set/0/capability", unavailable={"set": [{"capability": "none", "reason": ""}]}),
    patch(
        "/change/unavailable/set/0/record", unavailable={"set": [{"capability": "hold", "record": "Z", "reason": ""}]}
    ),
    patch("/change/recordsTotal", recordsTotal=-1),
    patch("/change/state/unset/0", state={"unset": [1]}),
    patch("/change") if False else invalid("patch", "/change", session="s", base="any"),
    invalid("patch", "/base", session="s", base=None, change={}),
    invalid("patch", "/base", session="s", change={}),
    params(
        "patch", {"session": "s", "base": {"epoch": "other", "revision": 1}, "change": {}}, kind="conflict", revision=1
    ),
    params("patch", {"session": "none", "base": "any", "change": {}}, kind="unknown_session"),
    params("publish", {"session": "s", "base": None, "snapshot": {}}, kind="conflict", revision=1),
    params(
        "publish",
        {"session": "s", "base": {"epoch": "other", "revision": 1}, "snapshot": {}},
        kind="conflict",
        revision=1,
    ),
    params("end", {"session": "s", "base": {"epoch": "other", "revision": 1}}, kind="conflict", revision=1),
    params("end", {"session": "none"}, kind="unknown_session"),
    params("publish", {"session": "none", "base": {"epoch": "e", "revision": 1}, "snapshot": {}}, kind="conflict"),
]
TABLES = {
    "no json": NO_JSON,
    "deep": DEEP,
    "envelope": ENVELOPE,
    "ids": IDS,
    "window": WINDOW,
    "nulls": NULLS,
    "unknown members": UNKNOWN,
    "served later": LATER,
    "snapshot": SNAPSHOT,
    "patches": PATCHES,
}


async def stored(gateway: Ring) -> tuple[Any, Any]:
    """All that is there."""
    async with gateway.peer() as peer:
        return await peer.result("describe", session="s", limit=100), await peer.result("sessions")


def differences(reply: dict[str, Any], bad: Bad) -> str:
    """What is not as it must be, in words; empty where all is."""
    if "error" not in reply:
        return f"{bad.name}: taken: {json.dumps(reply)[:200]}"
    data = reply["error"]["data"]
    found = {name: data.get(name) for name in bad.data}
    same_id = reply["id"] == bad.id and type(reply["id"]) is type(bad.id)
    if found == bad.data and same_id:
        return ""
    return f"{bad.name}: {json.dumps(reply)[:300]}, not {bad.data} under {bad.id}"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
async def test_bad_input_is_refused_by_name_and_changes_nothing(tmp_path: Path, table: list[Bad]) -> None:
    wrong: list[str] = []
    async with running(tmp_path) as gateway:
        async with gateway.peer() as peer:
            await peer.result("publish", session="s", snapshot=BOARD, base=None)
        before = await stored(gateway)
        for bad in table:
            async with gateway.peer() as peer:
                reply = await peer.say(bad.text)
                assert await peer.result("ping") == {}, f"{bad.name}: the connection does not live on"
            wrong.append(differences(reply, bad))
            assert "'" not in json.dumps(reply) and len(json.dumps(reply)) < 1_000, "an error is a sentence of ours"
        assert not any(wrong), "\n".join(filter(None, wrong))
        assert await stored(gateway) == before, "something was stored"


async def test_what_the_bad_ones_were_made_of_is_taken(tmp_path: Path) -> None:
    """The control: each full set of params is right, so each refusal above is for the one member that was changed."""
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        assert FULL.keys() == METHODS.keys()
        for method in ("publish", "patch", "describe", "changes", "subscribe", "sessions", "hello", "ping", "end"):
            assert await peer.result(method, **FULL[method]) is not None
        assert (await peer.refused("unsubscribe", **FULL["unsubscribe"]))["kind"] == "unknown_view"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (masked(TEXT, b" " * 4_194_305), 1009),
        (masked(BINARY, PING.encode()), 1003),
        (masked(BINARY, b""), 1003),
        (masked(BINARY, b"\xff\x00"), 1003),
        (masked(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'), 1007),
        (masked(TEXT, b'"\xed\xa0\x80"'), 1007),  # an encoded surrogate
        (masked(TEXT, b'"\xc0\xaf"'), 1007),  # overlong
        (masked(TEXT, b'"\xf5\x80\x80\x80"'), 1007),
        (masked(TEXT, b'"\xe2\x82'), 1007),
    ],
    ids=["too-large", "binary", "binary-empty", "binary-garbage", "ff", "surrogate", "overlong", "beyond", "truncated"],
)
async def test_what_closes_says_why_and_stores_nothing(tmp_path: Path, frame: bytes, code: int) -> None:
    """BR-022, BR-024, BR-074: and other connections do not notice."""
    async with running(tmp_path) as gateway, gateway.peer() as other:
        async with gateway.raw() as peer:
            await peer.send(frame)
            given, reason = await peer.close_code()
            assert given == code and 0 < len(reason) <= 123
            await peer.send(masked(8, code.to_bytes(2, "big")))
            await peer.cut()
        assert await other.result("ping") == {}
        assert (await other.result("sessions"))["total"] == 0


async def test_a_message_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    async with running(tmp_path, publish_bytes=2_000) as gateway, gateway.peer() as peer:
        assert (await peer.say(PING + " " * (2_000 - len(PING))))["result"] == {}
        await peer.send(PING + " " * (2_001 - len(PING)))
        assert (await peer.closed())[0] == 1009


async def test_one_record_too_many(tmp_path: Path) -> None:
    """100 001 records fit into one message and are refused; 100 000 are taken, and no patch brings one more."""
    regions = [{"id": "r", "title": ""}]

    def records(first: int, last: int) -> list[dict[str, str]]:
        return [{"id": str(n), "region": "r"} for n in range(first, last)]

    exceeded = {"kind": "limit_exceeded", "limit": "records", "maximum": 100_000, "given": 100_001}
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        snapshot = {"regions": regions, "records": records(0, 100_001)}
        text = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "publish",
                "params": {"session": "s", "snapshot": snapshot, "base": None},
            },
            separators=(",", ":"),
        )
        assert len(text) < 4_194_304
        data = (await peer.say(text))["error"]["data"]
        assert {name: data[name] for name in exceeded} == exceeded
        assert (await peer.result("sessions"))["total"] == 0
        taken = text.replace(',{"id":"100000","region":"r"}', "")
        position = (await peer.say(taken))["result"]
        change = {"records": {"upsert": records(100_000, 100_001)}}
        data = await peer.refused("patch", session="s", change=change, base="any")
        assert {name: data[name] for name in exceeded} == exceeded
        found = await peer.result("describe", session="s", limit=1)
        assert (found["revision"], found["context"]["recordsTotal"]) == (position["revision"], 100_000)


async def test_an_offset_far_past_the_end_is_an_empty_window(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        await peer.result("publish", session="s", snapshot=BOARD, base=None)
        for offset in (3, 10**12, 2**53, 2**63, 10**30):
            context = (await peer.result("describe", session="s", offset=offset))["context"]
            assert context["records"] == []
            assert context["recordWindow"] == {"offset": offset, "limit": 8, "returned": 0, "total": 3}


async def test_writes_on_a_wrong_base(tmp_path: Path) -> None:
    """Older, ahead, of another epoch, of an ended session, of the one made again; a change that changes nothing."""
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        first = await peer.result("publish", session="s", snapshot=BOARD, base=None)
        epoch = first["epoch"]
        state = {"state": {"set": {"filter": "late"}}}
        second = await peer.result("patch", session="s", change=state, base={"epoch": epoch, "revision": 1})
        assert second["revision"] == 2
        wrong: list[Any] = [{"epoch": e, "revision": n} for e, n in ((epoch, 1), (epoch, 3), ("x", 2))]
        for base in wrong:
            told = await peer.refused("patch", session="s", change={"page": {"title": "no"}}, base=base)
            assert (told["kind"], told["epoch"], told["revision"]) == ("conflict", epoch, 2)
        for nothing in (
            state,
            {},
            {"state": {"unset": ["absent"]}},
            {"recordsTotal": 3},
            {"records": {"upsert": [{"id": "A"}]}},
        ):
            same = await peer.result("patch", session="s", change=nothing, base="any")
            assert (same["revision"], same.get("unchanged")) == (2, True), nothing
        assert await peer.result("end", session="s")
        bases: list[Any] = ["any", {"epoch": epoch, "revision": 2}]
        for base in bases:
            assert (await peer.refused("patch", session="s", change=state, base=base))["kind"] == "unknown_session"
        again = await peer.result("publish", session="s", snapshot=BOARD, base=None)
        assert again["epoch"] != epoch and again["revision"] == 1
        told = await peer.refused("patch", session="s", change=state, base={"epoch": epoch, "revision": 2})
        assert (told["kind"], told["epoch"], told["revision"]) == ("conflict", again["epoch"], 1)


async def test_a_field_nobody_declared_is_dropped_and_told(tmp_path: Path) -> None:
    snapshot = BOARD | {"records": [record(fields={"dest": "IAH", "crew": "secret"}), record(id="B"), record(id="C")]}
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        answer = await peer.result("publish", session="s", snapshot=snapshot, base=None)
        assert answer["dropped"] == [{"region": "board", "name": "crew", "why": "undeclared"}]
        assert answer["droppedTotal"] == 1
        found = await peer.result("describe", session="s", record="A")
        assert found["context"]["records"] == [{"id": "A", "region": "board", "fields": {"dest": "IAH"}}]


async def test_the_last_of_two_equal_names_counts(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        assert "result" in await peer.say(
            publish_of('{"a":1,"a":2}').replace('"session":"new"', '"session":"no","session":"s"')
        )
        found = await peer.result("describe", session="s")
        assert found["context"]["records"][0]["fields"] == {"f": {"a": 2}}
        assert (await peer.say('{"jsonrpc":"2.0","id":7,"method":"nonsense","id":8,"method":"ping"}'))["id"] == 8


async def test_null_absent_empty_and_zero_are_four_things(tmp_path: Path) -> None:
    values: list[dict[str, Any]] = [
        {},
        {"dest": None},
        {"dest": ""},
        {"dest": 0},
        {"dest": False},
        {"dest": []},
        {"dest": {}},
    ]
    records = [{"id": str(n), "region": "board", "fields": fields} for n, fields in enumerate(values)]
    region = {"id": "board", "title": "", "fields": ["dest"]}
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        await peer.result("publish", session="s", snapshot={"regions": [region], "records": records}, base=None)
        found = await peer.result("describe", session="s")
        assert json.dumps([r["fields"] for r in found["context"]["records"]]) == json.dumps(values)
