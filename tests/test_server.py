"""The listening side: handshake, compression, plain HTTP, capacity, draining (protocol §2)."""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import uvloop
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.running import running_gateway
from gateway.settings import Settings
from tests import processes
from tests.engines import redis_server
from tests.ring import TEXT, Peer, Ring, gateway_on, masked, relayed_ring, request, running
from tests.service import board, status

EXTENSIONS = "Sec-WebSocket-Extensions"


def header(head: str, name: str) -> str | None:
    """The value of a response's header."""
    for line in head.split("\r\n")[1:]:
        if line.lower().startswith(name.lower() + ":"):
            return line.partition(":")[2].strip()
    return None


# Handshake


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_main_job_on_both_loops(tmp_path: Path, run: Any) -> None:
    """Publish, watch, a peer that breaks off with frames under way, drain."""

    async def scenario() -> None:
        async with (
            running(tmp_path, ping_interval_ms=100) as gateway,
            gateway.peer() as publisher,
            gateway.peer(compression="deflate") as watcher,
        ):
            await publisher.result("publish", session="s", snapshot=board(20), base=None)
            await watcher.result("subscribe", session="s", limit=20)
            for n in range(30):
                async with gateway.raw() as rude:
                    await rude.send(masked(TEXT, request(1, "subscribe", {"session": "s", "limit": 20}).encode()) * 5)
                    await publisher.result("patch", session="s", change=status("F-1", str(n)), base="any")
                    rude.abort()
            revisions = [(await watcher.until("after"))["revision"] for _ in range(30)]
            assert revisions == list(range(2, 32))

    run(scenario())


async def test_subprotocols(tmp_path: Path) -> None:
    name = "Sec-WebSocket-Protocol"
    async with running(tmp_path) as gateway:
        for offered, answer in [
            ([], None),
            ([f"{name}: context.v1"], "context.v1"),
            ([f"{name}: graphql-ws, context.v1"], "context.v1"),
            ([f"{name}: other", f"{name}: context.v1"], "context.v1"),
        ]:
            async with gateway.raw(*offered) as peer:
                assert header(peer.head, name) == answer
                await peer.send(masked(TEXT, request(1, "ping").encode()))
                assert (await peer.message())["result"] == {}
        for offered in ([f"{name}: other"], [f"{name}: context.v2, CONTEXT.V1"]):
            async with gateway.raw(handshake=False) as peer:
                head = await peer.handshake(gateway.name, *offered)
                assert head.startswith("HTTP/1.1 400"), head


OFFERS: list[tuple[str | None, bool]] = [
    ("permessage-deflate", True),
    ("permessage-deflate; client_max_window_bits", True),
    ("permessage-deflate; client_max_window_bits=10", True),
    ("permessage-deflate; server_no_context_takeover", True),
    ("permessage-deflate; client_no_context_takeover; server_no_context_takeover", True),
    ("permessage-deflate; server_max_window_bits=15", True),
    ("permessage-deflate; server_max_window_bits=10", False),
    ("permessage-deflate; server_max_window_bits=8", False),
    ("permessage-deflate; server_max_window_bits=10, permessage-deflate", True),
    ("permessage-deflate; server_max_window_bits", False),
    ("permessage-deflate; server_max_window_bits=16", False),
    ("permessage-deflate; unknown", False),
    ("x-webkit-deflate-frame", False),
    (None, False),
]


async def test_compression_is_agreed_on_without_context_or_not_at_all(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as publisher:
        await publisher.result("publish", session="s", snapshot=board(20), base=None)
        for offer, agreed in OFFERS:
            headers = [] if offer is None else [f"{EXTENSIONS}: {offer}"]
            async with gateway.raw(*headers) as peer:
                answer = header(peer.head, EXTENSIONS)
                assert (answer is not None) is agreed, offer
                if answer is not None:
                    assert "server_no_context_takeover" in answer and "client_no_context_takeover" in answer
                for id in (1, 2):  # the second tells a context that was kept
                    await peer.send(masked(TEXT, request(id, "describe", {"session": "s"}).encode()))
                    first, payload = await peer.frame()
                    assert bool(first & 0x40) is agreed, offer
                    assert peer.decoded(first, payload)["result"]["session"] == "s"
                await peer.send(masked(TEXT, request(3, "ping").encode()))
                first, payload = await peer.frame()
                assert first == 0x81 and peer.decoded(first, payload)["result"] == {}, "a small one is not compressed"


async def test_who_may_ask(tmp_path: Path) -> None:
    """BR-060, and `Host` on every path."""
    allowed = "https://app.example.com"
    async with running(tmp_path, origins=(allowed,)) as gateway:
        for origins, status_code in [
            ([], 101),
            ([allowed], 101),
            (["HTTPS://APP.EXAMPLE.COM"], 101),
            ([f"{allowed}:443"], 101),
            ([f"http://127.0.0.1:{gateway.port}"], 101),
            ([f"http://localhost:{gateway.port}"], 101),
            ([f"{allowed}:8443"], 403),
            (["http://app.example.com"], 403),
            (["https://evil-app.example.com"], 403),
            (["https://app.example.com.evil.test"], 403),
            (["https://xapp.example.com"], 403),
            (["https://app.example.com/"], 403),
            (["null"], 403),
            ([""], 403),
            ([allowed, allowed], 403),
            ([f"{allowed}, {allowed}"], 403),
            ([f"http://localhost:{gateway.port + 1}"], 403),
        ]:
            async with gateway.raw(handshake=False) as peer:
                head = await peer.handshake(gateway.name, *(f"Origin: {origin}" for origin in origins))
                assert int(head.split()[1]) == status_code, (origins, head)
        for host, status_code in [
            ("localhost", 101),
            ("[::1]:80", 101),
            ("evil.test", 421),
            ("127.0.0.1.evil.test", 421),
            ("", 421),
        ]:
            async with gateway.raw(handshake=False) as peer:
                head = await peer.handshake(host)
                assert int(head.split()[1]) == status_code, host
            for path in ("/healthz", "/metrics", "/nowhere"):
                answered = (await gateway.http(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))[0]
                assert (answered == 421) is (status_code == 421)
        assert (await gateway.http("GET /healthz HTTP/1.1\r\n\r\n"))[0] == 421
        assert (await gateway.http("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"))[0] == 421


async def test_null_passes_only_where_it_is_listed(tmp_path: Path) -> None:
    async with running(tmp_path, origins=("null",)) as gateway, gateway.raw("Origin: null"):
        pass


async def test_plain_http(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Methods, bodies, garbage: an answer or an end, and nothing in the log."""
    logging.getLogger("gateway.websockets").addHandler(caplog.handler)
    try:
        async with running(tmp_path) as gateway:
            host = f"Host: {gateway.name}"
            status_code, headers, body = await gateway.http(f"HEAD /healthz HTTP/1.1\r\n{host}\r\n\r\n")
            assert (status_code, headers["content-length"], body) == (200, "3", b"")
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PRI"):
                for path in ("/healthz", "/v1/ws"):
                    asked = f"{method} {path} HTTP/1.1\r\n{host}\r\nContent-Length: 0\r\n\r\n"
                    status_code, headers, _ = await gateway.http(asked)
                    assert (status_code, headers["allow"]) == (405, "GET, HEAD")
            assert (await gateway.http(f"GET /v1/ws HTTP/1.1\r\n{host}\r\n\r\n"))[0] == 426
            assert (await gateway.http(f"HEAD /v1/ws HTTP/1.1\r\n{host}\r\n\r\n"))[0] >= 400
            assert (await gateway.get("/healthz?x=1"))[0] == 200
            assert (await gateway.get("/nowhere"))[0] == 404
            assert (await gateway.get("/x" * 10_000))[0] == 414
            assert (await gateway.get("/", Long="x" * 10_000))[0] == 431
            for garbage in (
                "\x16\x03\x01\x02\r\n\r\n",
                "hello\r\n\r\n",
                "\r\n\r\n",
                f"POST / HTTP/1.1\r\n{host}\r\nContent-Length: 5\r\n\r\nhello",
            ):
                assert (await gateway.http(garbage))[0] in (0, 400, 405)
            assert (await gateway.get("/healthz")) == (200, b"ok\n")
    finally:
        logging.getLogger("gateway.websockets").removeHandler(caplog.handler)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_the_pages(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        assert await gateway.get("/healthz") == (200, b"ok\n")
        await gateway.until_ready()
        names = (await gateway.get("/v1/schemas/"))[1].decode().split()
        assert names and [(await gateway.get(name))[0] for name in names] == [200] * len(names)
        assert b"gateway_loop_delay_seconds_count" in (await gateway.get("/metrics"))[1]


async def test_a_handshake_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.OPEN_S", 0.3)
    async with running(tmp_path) as gateway:
        for started in (b"", b"GET /v1/ws HTTP/1.1\r\nHost:"):
            async with gateway.raw(handshake=False) as peer:
                await peer.send(started)
                await peer.cut()


async def test_over_capacity(tmp_path: Path) -> None:
    async with running(tmp_path, connections=2) as gateway:
        async with gateway.peer() as first, gateway.peer() as second:
            for _ in range(2):
                async with gateway.peer() as third:
                    assert await third.closed() == (1013, "over capacity")
            assert await first.result("ping") == await second.result("ping") == {}
        async with gateway.peer() as later:
            assert await later.result("ping") == {}


async def test_an_address_that_is_taken_or_not_loopback(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        settings = gateway.settings
        with pytest.raises(OSError, match="in use"):
            async with running_gateway(settings_at(settings, port=gateway.port)):
                pass
        with pytest.raises(ValueError, match="loopback"):
            async with running_gateway(settings_at(settings, host="0.0.0.0")):
                pass


def settings_at(settings: Any, **changed: Any) -> Any:
    """The settings with another address."""
    return msgspec.structs.replace(settings, **changed)


# Draining (BR-040)


async def test_br_040_draining(tmp_path: Path) -> None:
    """Not ready at once, `goodbye`, what is under way is answered, then 1012; one that never answers a close is cut."""
    end, ended = anyio.Event(), anyio.Event()
    ready: list[Ring] = []
    up = anyio.Event()
    async with redis_server(tmp_path) as engine, anyio.create_task_group() as tasks, AsyncExitStack() as peers:

        async def serve() -> None:
            async with gateway_on(engine, engine.url, drain_ms=3_000) as ring:
                ready.append(ring)
                up.set()
                await end.wait()
            ended.set()

        tasks.start_soon(serve)
        await up.wait()
        gateway = ready[0]
        publisher = await peers.enter_async_context(gateway.peer())
        base = await publisher.result("publish", session="s", snapshot=board(), base=None)
        watchers = [await peers.enter_async_context(gateway.peer()) for _ in range(20)]
        for watcher in watchers:
            await watcher.result("subscribe", session="s")
        stubborn = await peers.enter_async_context(gateway.raw())
        start = anyio.current_time()
        end.set()
        told = await publisher.until("goodbye")
        assert told["reason"] == "draining" and told["reconnectAfterMs"] > 0 and told["jitterMs"] > 0
        assert (await gateway.get("/readyz"))[0] == 503
        assert (await gateway.get("/healthz"))[0] == 200
        with pytest.raises(InvalidStatus) as refused:
            async with gateway.peer():
                pass
        assert refused.value.response.status_code == 503
        accepted = await publisher.result("patch", session="s", change=status("F-1", "late"), base="any")
        assert accepted["revision"] == base["revision"] + 1, "answered as ever"
        for watcher in watchers:
            assert await watcher.closed() == (1012, "draining")
        assert await stubborn.close_code() == (1012, "draining")
        assert await publisher.closed() == (1012, "draining")
        with anyio.fail_after(10):
            await ended.wait()
        assert anyio.current_time() - start < 3 + 1 + 1
        async with gateway_on(engine, engine.url) as again, again.peer() as reader:
            found = await reader.result("describe", session="s")
            assert found["revision"] == accepted["revision"], "no accepted change is lost"


async def test_draining_answers_what_is_under_way_and_lets_publishers_go_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BR-040: a pending request ends in its answer; who has written goes behind those who only watch."""
    monkeypatch.setattr("gateway.server.SPREAD_PER_PEER_MS", 200)
    order: list[str] = []

    async def left(name: str, peer: Peer) -> None:
        assert await peer.closed() == (1012, "draining")
        order.append(name)

    async with AsyncExitStack() as peers, anyio.create_task_group() as tasks:  # noqa: SIM117  # what is inside ends first
        async with relayed_ring(tmp_path) as (gateway, relay):
            asking = await peers.enter_async_context(gateway.peer())  # the first whose turn it is to go
            await asking.result("ping")
            publisher = await peers.enter_async_context(gateway.peer())
            await publisher.result("publish", session="s", snapshot=board(), base=None)
            watchers = [await peers.enter_async_context(gateway.peer()) for _ in range(3)]
            relay.requests = anyio.Event()
            await asking.send(request(1, "describe", {"session": "cold"}))
            await asking.say(request(2, "ping"))  # answered: the one before it is under way
            for n, peer in enumerate(watchers):
                tasks.start_soon(left, f"watcher {n}", peer)
            tasks.start_soon(left, "publisher", publisher)

            async def answer() -> None:
                await asking.until("goodbye")
                relay.requests.set()
                reply = await asking.reply()
                assert (reply["id"], reply["error"]["data"]["kind"]) == (1, "unknown_session")
                await left("asking", asking)

            tasks.start_soon(answer)
    assert order[-1] == "publisher" and len(order) == 5, order


async def test_br_040_a_process_drains_with_all_that_answers_alive(tmp_path: Path) -> None:
    """Between SIGTERM and its turn to go a peer is served as ever: a session nobody has read yet, a change, its `after`.

    A second SIGTERM changes nothing; the exit status is 0 (see `tests.processes.running`).
    """
    store = tmp_path / "store"
    store.mkdir()
    async with redis_server(store) as engine, AsyncExitStack() as peers:
        async with gateway_on(engine, engine.url) as other, other.peer() as publisher:
            await publisher.result("publish", session="cold", snapshot=board(), base=None)
            await publisher.result("publish", session="hot", snapshot=board(), base=None)
        async with processes.running(tmp_path, "serve", "--port", "0", "--db", engine.url) as (url, process):
            gateway = Ring(url, engine, Settings())
            for _ in range(150):  # each takes 5 ms of the spread: time for what is asked below
                await peers.enter_async_context(gateway.raw())
            peer = await peers.enter_async_context(gateway.peer())
            await peer.result("patch", session="hot", change=status("F-1", "one"), base="any")
            await peer.result("subscribe", session="hot")
            process.send_signal(signal.SIGTERM)
            await peer.until("goodbye")
            process.send_signal(signal.SIGTERM)
            assert (await peer.result("describe", session="cold"))["context"]["recordsTotal"] == 3
            await peer.result("patch", session="hot", change=status("F-1", "two"), base="any")
            assert (await peer.until("after"))["revision"] == 3
            assert await peer.closed() == (1012, "draining")


async def test_draining_waits_for_what_is_under_way_and_no_longer_than_it_may(tmp_path: Path) -> None:
    async with AsyncExitStack() as peers:
        async with relayed_ring(tmp_path, drain_ms=1_000) as (gateway, relay):
            peer = await peers.enter_async_context(gateway.peer())
            relay.requests = anyio.Event()  # the store hangs: no answer will come
            await peer.send(request(1, "describe", {"session": "s"}))
            await peer.say(request(2, "ping"))  # answered: the one before it is under way
            start = anyio.current_time()
        assert (await peer.until("goodbye"))["reason"] == "draining"
        assert await peer.closed() == (1012, "draining")
        assert 0.9 < anyio.current_time() - start < 4


async def test_a_peer_that_never_stops_asking_does_not_hold_the_end_up(tmp_path: Path) -> None:
    """Always something under way: it is answered, what comes behind it is not begun."""
    replies: list[int] = []
    begun = anyio.Event()

    async def ask(peer: Peer) -> None:
        for id in range(8):
            await peer.send(request(id, "patch", {"session": "s", "change": status("F-1", str(id)), "base": "any"}))
        with suppress(ConnectionClosed):
            for id in range(8, 10**6):
                reply = await peer.reply()
                if "result" in reply:  # else it asked too fast
                    replies.append(reply["result"]["revision"])
                begun.set()
                await peer.send(request(id, "patch", {"session": "s", "change": status("F-1", str(id)), "base": "any"}))

    async with redis_server(tmp_path) as engine, AsyncExitStack() as peers, anyio.create_task_group() as tasks:
        async with gateway_on(engine, engine.url, drain_ms=6_000) as gateway:
            peer = await peers.enter_async_context(gateway.peer())
            await peer.result("publish", session="s", snapshot=board(), base=None)
            tasks.start_soon(ask, peer)
            await begun.wait()
            start = anyio.current_time()
        assert anyio.current_time() - start < 4, "of the 6 it may take"
        async with gateway_on(engine, engine.url) as gateway, gateway.peer() as witness:
            found = await witness.result("describe", session="s")
    assert replies == list(range(2, found["revision"] + 1)), "all that was stored was answered, and in order"


async def test_a_handshake_under_way_does_not_hold_the_end_up(tmp_path: Path) -> None:
    async with AsyncExitStack() as peers:
        async with running(tmp_path, drain_ms=300) as gateway:
            peer = await peers.enter_async_context(gateway.raw(handshake=False))
            await peer.send(b"GET /v1/ws HTTP/1.1\r\n")
            await gateway.get("/healthz")  # by now it is accepted
            start = anyio.current_time()
        assert anyio.current_time() - start < 3
        await peer.cut()


async def test_draining_nobody_is_done_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        await gateway.get("/healthz")
        start = anyio.current_time()
    assert anyio.current_time() - start < 2


async def test_a_client_sees_a_clean_end(tmp_path: Path) -> None:
    async with AsyncExitStack() as peers:
        async with running(tmp_path) as gateway:
            peer = await peers.enter_async_context(gateway.peer())
        await peer.until("goodbye")
        with pytest.raises(ConnectionClosed) as closed:
            await peer.next()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        assert closed.value.sent is not None and closed.value.sent.code == 1012
