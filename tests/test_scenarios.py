"""Named scenarios of trouble on one gateway: the ring and what stands behind it. Times are scaled down by `limits`."""

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from gateway.core import messages
from gateway.core.limits import Limits
from tests.engines import redis_server
from tests.ring import BINARY, CONT, DEADLINE_S, PONG, TEXT, Ring, gateway_on, masked, relayed_ring, request, running
from tests.service import board, status

DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate"


def squeezed(data: bytes) -> bytes:
    """As a client compresses a message, no context kept."""
    deflate = zlib.compressobj(wbits=-15)
    return (deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\x00\x00\xff\xff")


# Keep-alive


async def test_br_020_an_idle_link_sees_bytes_both_ways(tmp_path: Path) -> None:
    """A relay that cuts a link on which the gateway (or the client) sent no byte for 3 intervals never cuts it.

    The default interval is 20 s: below the 60 s after which proxies cut.
    """
    async with running(tmp_path, ping_interval_ms=100, ping_timeout_ms=1_000) as gateway, gateway.raw() as peer:
        for _ in range(10):
            with anyio.fail_after(0.3):
                first, payload = await peer.frame()
            assert (first, payload) == (0x89, b"")
            await peer.send(masked(PONG, payload))


async def test_br_018_the_loop_is_never_held(tmp_path: Path) -> None:
    """A session of 50 000 records is published and read; idle peers with a short time-out stay, the metric tells.

    The scenario's sort and filter are served later; what is asked here walks the whole session likewise. The yardstick is
    the one thing done in one piece, decoding the message: under 250 ms at the largest size on a machine that has
    nothing else to do, and as much more as others take of it.
    """
    regions = [{"id": "r", "title": "", "fields": ["f"]}]
    records = [{"id": str(n), "region": "r", "fields": {"f": n}} for n in range(50_000)]
    params = {"session": "s", "snapshot": {"regions": regions, "records": records}, "base": None}
    text = request(1, "publish", params)
    decoding = max(seconds_to_decode(text), seconds_to_decode(text))
    limits: Any = {"ping_interval_ms": 500, "ping_timeout_ms": 1_500 + int(decoding * 10_000)}
    async with running(tmp_path, **limits) as gateway, gateway.raw() as publisher, AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(gateway.peer()) for _ in range(20)]
        frame = masked(TEXT, text.encode())
        gaps: list[float] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick, gaps)
            await publisher.send(frame)
            assert (await publisher.message())["result"]["revision"] == 1
            for n in range(20):
                await idle[n].result("describe", session="s", offset=49_000 - n, limit=100)
            await idle[0].result("patch", session="s", change={"records": {"remove": ["7"]}}, base="any")
            tasks.cancel_scope.cancel()
        # No measurement (those stand in benchmarks): what holds the loop for a multiple of it grows with the session.
        assert max(gaps) < 1 + 4 * decoding
        assert await gateway.metric("gateway_closes_total") == 0
        for peer in idle:
            assert await peer.result("ping") == {}
        assert await gateway.metric("gateway_loop_delay_seconds_count") >= 10


def seconds_to_decode(text: str) -> float:
    """On this machine now, with the garbage collector running."""
    start = perf_counter()
    messages.decode(text, Limits())
    return perf_counter() - start


async def tick(gaps: list[float]) -> None:
    """How long each turn of the loop took."""
    before = perf_counter()
    while True:
        await anyio.lowlevel.checkpoint()
        now = perf_counter()
        gaps.append(now - before)
        before = now


# Close codes


async def test_br_022_each_mistake_has_its_code_and_a_reason(tmp_path: Path) -> None:
    """Seen by a client library: code, reason, a clean close; 300 fragments are a message like any other."""
    async with running(tmp_path, publish_bytes=10_000) as gateway:
        for message, as_text, code in [(b" " * 10_001, True, 1009), (b'"\xff"', True, 1007), (b"{}", False, 1003)]:
            async with gateway.peer() as peer:
                await peer.socket.send(message, text=as_text)
                given, reason = await peer.closed()
                assert given == code and 0 < len(reason) < 100
                protocol = peer.socket.protocol
                assert protocol.close_rcvd is not None and protocol.close_sent is not None, "not clean"
        async with gateway.peer() as peer:
            text = request(1, "ping").ljust(300)
            await peer.socket.send(iter(text))
            assert (await peer.reply())["result"] == {}


async def test_br_024_bad_utf8_is_1007_and_nothing_is_stored(tmp_path: Path) -> None:
    """One outcome for a bad byte, an overlong form and an encoded surrogate; in a binary frame it is 1003."""
    text = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "publish",
            "params": {"session": "s", "base": None, "snapshot": board() | {"page": {"title": "HERE"}}},
        }
    ).encode()
    async with running(tmp_path) as gateway, gateway.peer() as other:
        for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80"):
            for opcode, code in ((TEXT, 1007), (BINARY, 1003)):
                async with gateway.raw() as peer:
                    await peer.send(
                        masked(opcode, text.replace(b"HERE", bad)), masked(TEXT, request(2, "ping").encode())
                    )
                    assert (await peer.close_code())[0] == code
        assert (await other.result("sessions"))["total"] == 0


# Payloads


async def test_br_046_nesting(tmp_path: Path) -> None:
    """One error each and the socket lives; the deepest legal value passes through publish, describe and `after`."""
    regions = [{"id": "r", "title": "", "fields": ["f"]}]

    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    def snapshot(depth: int) -> dict[str, Any]:
        return {"regions": regions, "records": [{"id": "1", "region": "r", "fields": {"f": nested(depth)}}]}

    async with running(tmp_path) as gateway, gateway.peer() as peer, gateway.peer() as watcher:
        # message, params, snapshot, records, record, fields: 6 levels of 32
        assert (await peer.refused("publish", session="s", snapshot=snapshot(27), base=None))["limit"] == "depth"
        await peer.result("publish", session="s", snapshot=snapshot(25), base=None)
        await watcher.result("subscribe", session="s")
        await peer.result("publish", session="s", snapshot=snapshot(26), base="any")
        after = await watcher.until("after")
        assert after["records"] == [{"id": "1", "fields": {"f": nested(26)}}]
        found = await watcher.result("describe", session="s")
        assert found["context"]["records"][0]["fields"]["f"] == nested(26)


async def test_br_048_surrogates(tmp_path: Path) -> None:
    """An escaped pair becomes its one character; a lone one is a parse error; a cut never splits a character."""
    region = {"id": "r", "title": "", "fields": ["a", {"name": "b", "maxChars": 3}]}
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        await peer.result("publish", session="s", snapshot={"regions": [region]}, base=None)
        for at, (escaped, right) in enumerate([(r"\ud83d\ude00", True), (r"\ud83d", False), (r"\ude00\ud83d", False)]):
            records = '{"upsert":[{"id":"AT","region":"r","fields":{"a":"ESCAPED","b":"ab😀😀"}}]}'
            records = records.replace("AT", str(at)).replace("ESCAPED", escaped)
            text = '{"jsonrpc":"2.0","id":1,"method":"patch","params":{"session":"s","base":"any","change":{"records":RECORDS}}}'
            reply = await peer.say(text.replace("RECORDS", records))
            assert ("result" in reply) is right
            if not right:
                assert reply["error"]["data"]["kind"] == "parse_error"
        context = (await peer.result("describe", session="s"))["context"]
        assert context["records"] == [
            {"id": "0", "region": "r", "fields": {"a": "😀", "b": "ab😀"}, "truncated": ["b"]}
        ]


async def test_br_050_names_of_prototypes(tmp_path: Path) -> None:
    """All are there under their ids, in fields and in state; what was not published is not found."""
    names = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "__class__", "__init__"]
    region = {"id": "__proto__", "title": "", "fields": names}
    polluted = {"polluted": True, "__proto__": {"x": 1}}
    records = [{"id": name, "region": "__proto__", "fields": dict.fromkeys(names, polluted)} for name in names]
    snapshot = {"regions": [region], "records": records, "state": dict.fromkeys(names, polluted)}
    async with running(tmp_path) as gateway, gateway.peer() as peer, gateway.peer() as watcher:
        await peer.result("publish", session="__proto__", snapshot=snapshot, base=None)
        context = (await watcher.result("subscribe", session="__proto__"))["describe"]["context"]
        assert context["records"] == records and context["state"] == dict.fromkeys(names, polluted)
        found = await peer.result("describe", session="__proto__", record=[*names, "valueOf"])
        assert found["context"]["records"] == records
        assert found["context"]["missing"] == ["valueOf"]
        change = {"records": {"upsert": [{"id": "constructor", "fields": {"__proto__": 1}}]}}
        await peer.result("patch", session="__proto__", change=change, base="any")
        assert (await watcher.until("after"))["records"] == [{"id": "constructor", "fields": {"__proto__": 1}}]
        assert (await peer.refused("describe", session="constructor"))["kind"] == "unknown_session"


async def test_br_052_ids_are_texts_and_stay_what_they_are(tmp_path: Path) -> None:
    ids = [
        "653247040368672768",
        "653247040368672769",
        "1",
        "01",
        "1.0",
        "true",
        "null",
        "Ä",
        "A\u0308",
        "a/b",
        "{x}",
        " ",
    ]
    regions = [{"id": "r", "title": ""}]
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        for id in (653247040368672768, 1, True, None, "", "x" * 10_000):
            bad = {"regions": regions, "records": [{"id": id, "region": "r"}]}
            told = await peer.refused("publish", session="s", snapshot=bad, base=None)
            assert (told["kind"], told["path"]) == ("invalid_params", "/snapshot/records/0/id")
        records = [{"id": id, "region": "r"} for id in ids]
        await peer.result("publish", session="s", snapshot={"regions": regions, "records": records}, base=None)
        for id in ids:
            found = (await peer.result("describe", session="s", record=id))["context"]
            assert [record["id"] for record in found["records"]] == [id] and found["missing"] == []
        assert (await peer.result("describe", session="s", record=["001", "Ａ"]))["context"]["missing"] == ["001", "Ａ"]
        assert (await peer.refused("describe", session="s", record=[1]))["path"] == "/record/0"


async def test_br_054_totals_past_the_end(tmp_path: Path) -> None:
    """Protocol §4 and §5 are right where they differ: `limit` 0, a fraction and null are refused, nothing is capped."""
    async with running(tmp_path) as gateway, gateway.peer() as peer, gateway.peer() as watcher:
        await peer.result("publish", session="s", snapshot=board(50), base=None)
        for offset, limit, returned in [(49, 10, 1), (50, 10, 0), (51, 10, 0), (10**9, 10, 0), (2**63, 10, 0)]:
            context = (await peer.result("describe", session="s", offset=offset, limit=limit))["context"]
            window = context["recordWindow"]
            assert (window["returned"], window["total"], len(context["records"])) == (returned, 50, returned)
            assert "next" not in window and context["recordsTotal"] == context["recordIdsTotal"] == 50
        for bad in (
            {"offset": -1, "limit": 10},
            {"limit": 0},
            {"limit": -1},
            {"limit": None},
            {"offset": 5.0},
            {"offset": "5"},
        ):
            told = await peer.refused("describe", session="s", **bad)
            assert told["kind"] == "invalid_params" and told["path"] in ("/offset", "/limit")
        assert (await peer.refused("describe", session="s", limit=10**9))["kind"] == "limit_exceeded"
        second = await watcher.result("subscribe", session="s", offset=40, limit=10)
        assert second["describe"]["context"]["recordWindow"]["returned"] == 10
        await peer.result("publish", session="s", snapshot=board(0), base="any")
        reasons = (await watcher.until("invalidated"))["reasons"]
        assert [reason["kind"] for reason in reasons] == ["pagination"], "its window is gone"
        context = (await peer.result("describe", session="s", offset=40, limit=10))["context"]
        assert context["recordWindow"] == {"offset": 40, "limit": 10, "returned": 0, "total": 0}
        await peer.result("publish", session="empty", snapshot={}, base=None)
        context = (await peer.result("describe", session="empty"))["context"]
        assert context["records"] == context["regions"] == context["recordIds"] == context["feedback"] == []
        assert context["recordsTotal"] == context["regionsTotal"] == context["recordIdsTotal"] == 0


async def test_br_060_origins(tmp_path: Path) -> None:
    """The whole table is in test_server; here: a refused one leaves no connection behind."""
    async with running(tmp_path, origins=("https://app.example.com",)) as gateway:
        for origin in ("https://evil-app.example.com", "https://app.example.com.evil.test", "null", ""):
            async with gateway.raw(handshake=False) as peer:
                assert (await peer.handshake(gateway.name, f"Origin: {origin}")).startswith("HTTP/1.1 403")
        assert await gateway.metric("gateway_connections") == 0
        async with gateway.raw("Origin: HTTPS://APP.EXAMPLE.COM:443"):
            assert await gateway.metric("gateway_connections") == 1


async def test_br_064_ids_of_requests_keep_their_type(tmp_path: Path) -> None:
    """Answered out of order, each under its id as sent; `1.0` and 2⁵³+1 are no ids (protocol §2)."""
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        names = {1: "int", "1": "text", "01": "zero", "true": "true", 9007199254740991: "large", -1: "minus", "ä": "ä"}
        for name in names.values():
            await peer.result("publish", session=name, snapshot={"page": {"title": name}}, base=None)
        for id, name in names.items():
            await peer.send(request(id, "describe", {"session": name}))
        replies = [await peer.reply() for _ in names]
        told = {(type(reply["id"]), reply["id"]): reply["result"]["session"] for reply in replies}
        assert told == {(type(id), id): name for id, name in names.items()}
        for text in ("1.0", "9007199254740993"):
            reply = await peer.say(request(1, "ping").replace('"id": 1', f'"id": {text}'))
            assert (reply["id"], reply["error"]["data"]["kind"]) == (None, "invalid_request")


# Compression and frames


async def test_br_068_compression_bombs(tmp_path: Path) -> None:
    """Judged while it inflates: 64 MiB of zeros are 1009, the limit itself is taken; a broken stream has its code."""
    bomb = squeezed(bytes(64 << 20))
    assert len(bomb) < 70_000
    async with running(tmp_path, publish_bytes=1 << 20) as gateway, gateway.peer() as other:
        pieces = [bomb[at : at + len(bomb) // 100 + 1] for at in range(0, len(bomb), len(bomb) // 100 + 1)]
        fragments = [
            masked(CONT if at else TEXT, piece, fin=at == len(pieces) - 1, rsv1=not at)
            for at, piece in enumerate(pieces)
        ]
        for frames in ([masked(TEXT, bomb, rsv1=True)], fragments):
            async with gateway.raw(DEFLATE) as peer:
                await peer.send(*frames)
                assert (await peer.close_code())[0] == 1009
        text = request(1, "ping").encode()
        async with gateway.raw(DEFLATE) as peer:
            await peer.send(masked(TEXT, squeezed(text.ljust(1 << 20)), rsv1=True))
            assert (await peer.message())["result"] == {}
            await peer.send(masked(TEXT, squeezed(text.ljust((1 << 20) + 1)), rsv1=True))
            assert (await peer.close_code())[0] == 1009
        async with gateway.raw(DEFLATE) as peer:
            await peer.send(masked(TEXT, b"\xff\xff\xff\xff nonsense", rsv1=True))
            assert (await peer.close_code())[0] in (1002, 1007)
        async with gateway.raw() as peer:  # compressed, and never agreed on
            await peer.send(masked(TEXT, squeezed(text), rsv1=True))
            assert (await peer.close_code())[0] == 1002
        assert await other.result("ping") == {}


async def test_br_074_frames(tmp_path: Path) -> None:
    """Binary is 1003 whatever it holds; an empty text is a parse error. Fragments: see test_connection."""
    async with running(tmp_path) as gateway:
        async with gateway.raw() as peer:
            await peer.send(masked(TEXT, b""))
            assert (await peer.message())["error"]["data"]["kind"] == "parse_error"
            await peer.send(masked(TEXT, b"", fin=False), masked(CONT, b"", fin=False), masked(CONT, b""))
            assert (await peer.message())["error"]["data"]["kind"] == "parse_error"
        for payload in (request(1, "ping").encode(), b"\x00\xff", b""):
            async with gateway.raw() as peer:
                await peer.send(masked(BINARY, payload))
                assert await peer.close_code() == (1003, "binary messages are not taken")


async def test_br_075_a_close_that_is_never_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is cut in time, and no publish behind our close frame is stored."""
    monkeypatch.setattr("gateway.connection.CLOSE_S", 0.4)
    monkeypatch.setattr("gateway.server.CLOSE_S", 0.4)
    publish = request(1, "publish", {"session": "late", "snapshot": {}, "base": None}).encode()
    async with running(tmp_path) as gateway, gateway.peer() as other:
        async with gateway.raw() as peer:
            await peer.send(masked(BINARY, b""))
            assert (await peer.close_code())[0] == 1003
            with anyio.fail_after(3), pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
                while True:
                    await peer.send(masked(TEXT, publish))
                    await anyio.sleep(0.02)
        assert (await other.result("sessions"))["total"] == 0


# The store


async def test_br_095_started_before_the_store(tmp_path: Path) -> None:
    """Alive and not ready; requests are told to come back; once the store is there all works without a restart."""
    async with redis_server(tmp_path) as engine:
        await engine.stop()
        async with gateway_on(engine, engine.url) as gateway, gateway.peer() as peer, gateway.peer() as watcher:
            assert (await gateway.get("/healthz"))[0] == 200
            assert (await gateway.get("/readyz"))[0] == 503
            told = await peer.refused("sessions")  # one that needs its session asks for longer before it gives up
            assert (told["kind"], told["retryable"]) == ("store_unavailable", True) and told["retryAfterMs"] > 0
            await engine.start()
            await gateway.until_ready()
            await peer.result("publish", session="s", snapshot=board(), base=None)
            await watcher.result("subscribe", session="s")
            await peer.result("patch", session="s", change=status("F-1", "late"), base="any")
            assert (await watcher.until("after"))["revision"] == 2


@asynccontextmanager
async def loading_engine(directory: Path, engine_url: str) -> AsyncIterator[tuple[str, anyio.Event]]:
    """A proxy that answers `-LOADING` to all but PING, HELLO and the like, until the event is set."""
    path = directory / "loading.sock"
    loaded = anyio.Event()
    listener = await anyio.create_unix_listener(path)
    engine_path = engine_url.removeprefix("unix://")

    async def carry(link: anyio.abc.SocketStream) -> None:
        async with link, await anyio.connect_unix(engine_path) as engine, anyio.create_task_group() as tasks:

            async def back() -> None:
                async for data in engine:
                    await link.send(data)
                tasks.cancel_scope.cancel()

            tasks.start_soon(back)
            async for data in link:
                if loaded.is_set() or data.split(b"\r\n")[2:3] in ([b"PING"], [b"INFO"], [b"CLIENT"], [b"HELLO"]):
                    await engine.send(data)
                else:
                    await link.send(b"-LOADING Redis is loading the dataset in memory\r\n")
            tasks.cancel_scope.cancel()

    async def guarded(link: anyio.abc.SocketStream) -> None:
        try:
            await carry(link)
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, guarded)
        yield f"unix://{path}", loaded
        tasks.cancel_scope.cancel()
    await listener.aclose()


async def test_br_010_a_store_that_is_loading(tmp_path: Path) -> None:
    """`store_unavailable` with a hint, never `unknown_session`; not ready; the sockets stay and all recovers."""
    async with redis_server(tmp_path) as engine, loading_engine(tmp_path, engine.url) as (url, loaded):
        async with gateway_on(engine, engine.url) as other, other.peer() as peer:
            await peer.result("publish", session="s", snapshot=board(), base=None)
        async with gateway_on(engine, url) as gateway, gateway.peer() as peer:
            since = {"view": "v", "epoch": "e", "revision": 1}
            asked: list[tuple[str, dict[str, Any]]] = [
                ("describe", {}),
                ("publish", {"snapshot": board(), "base": "any"}),
                ("subscribe", {"since": since}),
            ]
            with anyio.fail_after(DEADLINE_S):
                async with anyio.create_task_group() as tasks:

                    async def unavailable(method: str, params: dict[str, Any]) -> None:
                        async with gateway.peer() as own:
                            told = await own.refused(method, session="s", **params)
                            assert (told["kind"], told["retryable"]) == ("store_unavailable", True)
                            assert told["retryAfterMs"] > 0

                    for method, params in asked:
                        tasks.start_soon(unavailable, method, params)
            assert (await gateway.get("/readyz"))[0] == 503
            loaded.set()
            await gateway.until_ready()
            found = await peer.result("describe", session="s")
            assert found["context"]["recordsTotal"] == 3


async def test_br_014_reading_keeps_nothing_alive(tmp_path: Path) -> None:
    """(c) A subscribed reader that goes on describing does not prolong a session: it is told `ended` (`expired`).

    (a) with a lease comes with `serve`; without one a publisher that writes nothing lets its session run out (§6.2).
    """
    async with running(tmp_path) as gateway, gateway.peer() as publisher, gateway.peer() as reader:
        await publisher.result("publish", session="s", snapshot=board(), base=None, ttlMs=1_000)
        await publisher.result("publish", session="t", snapshot=board(), base=None)
        await reader.result("subscribe", session="s")
        kinds: list[str] = []
        with anyio.fail_after(DEADLINE_S):
            while not kinds:
                reply = await reader.ask("describe", session="s")
                if "error" in reply:
                    kinds.append(reply["error"]["data"]["kind"])
                await anyio.sleep(0.05)
        assert kinds == ["unknown_session"]
        ended = [message["params"] for message in reader.told if message["method"] == "ended"]
        assert (ended or [await reader.until("ended")]) == [{"session": "s", "reason": "expired"}]
        assert (await reader.result("describe", session="t"))["revision"] == 1


async def test_br_016_a_storm_of_broken_writers(tmp_path: Path) -> None:
    """More writers than there are links to the store are gone while its answers are under way; the next one is served."""
    count = 40
    async with relayed_ring(tmp_path) as (gateway, relay), gateway.peer() as quiet:
        for n in range(count):
            await quiet.result("publish", session=f"s{n}", snapshot=board(), base=None)
            await quiet.result("describe", session=f"s{n}")
        relay.answers = anyio.Event()
        async with AsyncExitStack() as stack:
            for n in range(count):
                peer = await stack.enter_async_context(gateway.raw())
                patch = {"session": f"s{n}", "change": status("F-1", str(n)), "base": "any"}
                await peer.send(masked(TEXT, request(1, "patch", patch).encode()))
                peer.abort()
            await relay.until_waiting(20)
        with anyio.fail_after(DEADLINE_S):
            while await gateway.metric("gateway_connections") > 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        relay.answers.set()
        with anyio.fail_after(4):
            for n in range(count):
                position = await quiet.result("patch", session=f"s{n}", change=status("F-1", "after all"), base="any")
                found = await quiet.result("describe", session=f"s{n}", record="F-1")
                assert found["revision"] == position["revision"]
                assert found["context"]["records"][0]["fields"]["status"] == "after all"


# Herds and fuzz


async def test_br_077_two_hundred_first_describes_are_one_read(tmp_path: Path) -> None:
    """200 readers of 5 sessions come at once: the store reads each session once, and a steady watcher is told all along."""
    async with running(tmp_path) as gateway, gateway.peer() as publisher, gateway.peer() as steady:
        for n in range(5):
            await publisher.result("publish", session=f"s{n}", snapshot=board(300), base=None)
        await publisher.result("publish", session="steady", snapshot=board(), base=None)
        await steady.result("subscribe", session="steady")
        before = await reads(gateway)

        async def newcomer(n: int) -> None:
            async with gateway.peer() as peer:
                found = await peer.result("describe", session=f"s{n % 5}", limit=100)
                assert found["context"]["recordWindow"]["returned"] == 100

        async with anyio.create_task_group() as tasks:
            for n in range(200):
                tasks.start_soon(newcomer, n)
            for n in range(20):
                await publisher.result("patch", session="steady", change=status("F-1", str(n)), base="any")
                with anyio.fail_after(2):
                    assert (await steady.until("after"))["revision"] == n + 2
        assert 5 <= await reads(gateway) - before <= 10


async def reads(gateway: Ring) -> int:
    """How often the store read a whole session's records."""
    stats = await gateway.engine.admin.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("hgetall",))


async def test_a_restart_of_the_gateway_alone_is_resumed_without_a_gap(tmp_path: Path) -> None:
    """A restart of the gateway alone over its Redis is resumed without a gap (the issue's "Must show")."""
    async with redis_server(tmp_path) as engine:
        async with gateway_on(engine, engine.url) as gateway, gateway.peer() as peer:
            await peer.result("publish", session="s", snapshot=board(), base=None)
            first = await peer.result("subscribe", session="s")
            await peer.result("patch", session="s", change=status("F-1", "one"), base="any")
            after = await peer.until("after")
        async with gateway_on(engine, engine.url) as gateway, gateway.peer() as peer, gateway.peer() as publisher:
            since = {"view": after["view"], "epoch": after["epoch"], "revision": after["revision"]}
            again = await peer.result("subscribe", session="s", since=since)
            assert again["recovered"] is True and "after" not in again and again["view"] == first["view"]
            await publisher.result("patch", session="s", change=status("F-1", "two"), base="any")
            assert (await peer.until("after"))["base"] == after["revision"]
