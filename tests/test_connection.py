"""One peer on a real socket: what is answered, refused, told and closed (protocol §2)."""

import gc
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from gateway.connection import COLLECTED_BELOW, VIOLATIONS
from tests.ring import (
    BINARY,
    CLOSE,
    CONT,
    DEADLINE_S,
    PING,
    PONG,
    TEXT,
    RawPeer,
    masked,
    relayed_ring,
    request,
    running,
)
from tests.service import board, status

FAST = 100_000
"""Requests a second where a test asks more than people do."""


def wide(count: int, chars: int = 400) -> dict[str, Any]:
    """A snapshot whose every record is large."""
    snapshot = board(count)
    for record in snapshot["records"]:
        record["fields"]["dest"] = record["id"] + "x" * chars
    return snapshot


async def test_the_main_job(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as publisher, gateway.peer() as watcher:
        base = await publisher.result("publish", session="s", snapshot=board(), base=None)
        view = await watcher.result("subscribe", session="s")
        await publisher.result("patch", session="s", change=status("F-1", "Boarding"), base="any")
        after = await watcher.until("after")
        assert (after["view"], after["base"], after["revision"]) == (view["view"], base["revision"], 2)
        assert after["records"] == [{"id": "F-1", "fields": {"status": "Boarding"}}]


async def test_hello_tells_who_and_how_much_once(tmp_path: Path) -> None:
    async with running(tmp_path, window_default=7) as gateway, gateway.peer() as peer, gateway.peer() as other:
        told = await peer.result("hello", client={"name": "test", "version": "1"})
        assert list(told) == ["server", "protocol", "connection", "principal", "grants", "limits"]
        assert told["protocol"] == "context.v1"
        assert told["principal"] == f"local:{told['connection']}"
        assert told["limits"]["windowDefault"] == 7
        assert (await peer.refused("hello"))["kind"] == "invalid_request"
        assert (await other.result("hello"))["connection"] != told["connection"]
        assert await peer.result("ping") == {}


async def test_a_large_message_leaves_the_collector_as_it_was(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        for text in (request(1, "ping").ljust(COLLECTED_BELOW), "nonsense".ljust(COLLECTED_BELOW)):
            assert gc.isenabled()
            await peer.say(text)
            assert gc.isenabled()


async def test_notifications_and_responses_are_dropped_and_counted(tmp_path: Path) -> None:
    dropped = [
        {"jsonrpc": "2.0", "method": "publish", "params": {"session": "n", "snapshot": {}, "base": None}},
        {"jsonrpc": "2.0", "method": "nonsense"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    ]
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        for message in dropped:
            await peer.send(json.dumps(message))
        assert await peer.result("ping") == {}
        assert peer.told == []
        assert (await peer.refused("describe", session="n"))["kind"] == "unknown_session"
        assert await gateway.metric("gateway_notifications_dropped_total") == len(dropped)


async def test_a_doubled_id_is_told_without_an_id(tmp_path: Path) -> None:
    async with relayed_ring(tmp_path) as (gateway, relay), gateway.peer() as peer:
        relay.requests = anyio.Event()
        await peer.send(request(7, "describe", {"session": "s"}))
        reply = await peer.say(request(7, "ping"))
        assert reply["id"] is None
        assert reply["error"]["data"]["kind"] == "duplicate_id"
        assert reply["error"]["data"]["id"] == 7
        assert await peer.say(request("7", "ping")) == {"jsonrpc": "2.0", "id": "7", "result": {}}
        relay.requests.set()
        reply = await peer.reply()
        assert (reply["id"], reply["error"]["data"]["kind"]) == (7, "unknown_session")
        assert (await peer.say(request(7, "ping")))["result"] == {}, "free again once it is answered"


async def test_requests_in_flight_are_bounded(tmp_path: Path) -> None:
    async with relayed_ring(tmp_path, requests_in_flight=3) as (gateway, relay), gateway.peer() as peer:
        relay.requests = anyio.Event()
        for id in range(3):
            await peer.send(request(id, "describe", {"session": "s"}))
        refused = await peer.say(request(3, "describe", {"session": "s"}))
        assert refused["error"]["data"]["kind"] == "rate_limited"
        assert refused["error"]["data"]["retryAfterMs"] >= 1
        assert (await peer.say(request(4, "ping")))["result"] == {}
        relay.requests.set()
        assert sorted([(await peer.reply())["id"] for _ in range(3)]) == [0, 1, 2]


async def test_rates_are_told_with_the_time_to_wait(tmp_path: Path) -> None:
    async with running(tmp_path, requests_per_second=2) as gateway, gateway.peer() as peer, gateway.peer() as other:
        for _ in range(4):
            assert (await peer.refused("describe", session="s"))["kind"] == "unknown_session"
        told = await peer.refused("describe", session="s")
        assert told["kind"] == "rate_limited" and told["errorClass"] == "transient" and told["retryable"] is True
        assert 1 <= told["retryAfterMs"] <= 500
        assert (await peer.say("nonsense"))["error"]["data"]["kind"] == "rate_limited", "what is refused counts too"
        assert await peer.result("publish", session="w", snapshot={}, base=None), "writes have a rate of their own"
        assert await peer.result("ping") == {}
        assert (await other.refused("describe", session="s"))["kind"] == "unknown_session", "each peer its own"


async def test_pings_have_a_rate_of_their_own(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        for id in range(100):
            await peer.send(request(id, "ping"))
        replies = [await peer.reply() for _ in range(100)]
        assert [reply["id"] for reply in replies] == list(range(100))
        kinds = [reply["error"]["data"]["kind"] for reply in replies if "error" in reply]
        assert len(kinds) >= 70 and set(kinds) == {"rate_limited"}
        assert (await peer.refused("describe", session="s"))["kind"] == "unknown_session"


async def test_a_peer_that_sends_no_requests_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path, requests_per_second=FAST) as gateway, gateway.peer() as peer:
        for _ in range(VIOLATIONS - 1):
            assert (await peer.say("[]"))["error"]["data"]["kind"] == "invalid_request"
        assert await peer.result("ping") == {}, "a request between them begins anew"
        for _ in range(VIOLATIONS):
            await peer.send("nonsense")
        assert await peer.closed() == (4504, "repeated protocol violation")


async def test_messages_come_whole_from_fragments_with_pings_between(tmp_path: Path) -> None:
    """BR-074: a fragment may end inside a character."""
    text = json.dumps({"jsonrpc": "2.0", "id": "ä€😀", "method": "ping"}, ensure_ascii=False).encode()
    async with running(tmp_path) as gateway, gateway.raw() as peer:
        await peer.send(masked(TEXT, text[:1], fin=False))
        for at in range(1, len(text)):
            await peer.send(masked(PING, b"%d" % at), masked(CONT, text[at : at + 1], fin=False))
        await peer.send(masked(CONT, b""))
        frames = [await peer.frame() for _ in range(len(text))]
        pongs = [payload for first, payload in frames if first == 0x80 | PONG]
        assert pongs == [b"%d" % at for at in range(1, len(text))]
        assert [json.loads(payload)["id"] for first, payload in frames if first == 0x80 | TEXT] == ["ä€😀"]


async def test_fragments_without_end_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BR-074: 10 000 empty fragments."""
    monkeypatch.setattr("gateway.server.CLOSE_S", 0.3)
    async with running(tmp_path) as gateway, gateway.raw() as peer:
        await peer.send(masked(TEXT, b"", fin=False), masked(CONT, b"", fin=False) * 10_000)
        assert await peer.close_code() == (1009, "too many fragments")
        await peer.send(masked(CLOSE, b"\x03\xf1"))
        await peer.cut()


async def test_nothing_behind_our_close_frame_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BR-075: a peer that never answers our close and goes on talking is cut in time, and what it says is not heard."""
    monkeypatch.setattr("gateway.connection.CLOSE_S", 0.5)
    late = request(1, "publish", {"session": "late", "snapshot": {}, "base": None}).encode()
    async with running(tmp_path, ping_interval_ms=300, ping_timeout_ms=200) as gateway, gateway.peer() as other:
        async with gateway.raw() as peer:
            assert await peer.close_code() == (4004, "silent")
            await talk_until_cut(peer, masked(TEXT, late))
        assert (await other.refused("describe", session="late"))["kind"] == "unknown_session"


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (masked(BINARY, b"{}"), 1003),
        (masked(TEXT, b'"\xff"'), 1007),
        (masked(TEXT, b"x" * 2_000), 1009),
        (masked(CLOSE, b"\x03\xe8"), 1000),
        (b"\x8f\x80\x00\x00\x00\x00", 1002),  # an opcode that does not exist
        (b"\x81\x02{}", 1002),  # not masked
    ],
    ids=["binary", "utf8", "too-big", "closed-by-peer", "opcode", "unmasked"],
)
async def test_a_closed_peer_that_goes_on_talking_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: bytes, code: int
) -> None:
    monkeypatch.setattr("gateway.connection.CLOSE_S", 0.5)
    monkeypatch.setattr("gateway.server.CLOSE_S", 0.5)
    async with running(tmp_path, publish_bytes=1_000, ping_interval_ms=1_000) as gateway:
        async with gateway.raw() as peer:
            await peer.send(bad)
            assert (await peer.close_code())[0] == code
            await talk_until_cut(peer, masked(PING, b""))
        await until_gone(gateway)


async def talk_until_cut(peer: RawPeer, frame: bytes) -> None:
    """Send a frame every 20 ms until the link breaks: a reset, for a mere end of what the gateway writes is not enough."""
    with anyio.fail_after(5), pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
        while True:
            await peer.send(frame)
            await anyio.sleep(0.02)


async def until_gone(gateway: Any) -> None:
    """Return once the gateway holds no connection."""
    with anyio.fail_after(DEADLINE_S):
        while await gateway.metric("gateway_connections"):  # noqa: ASYNC110  # a page has no event to wait for
            await anyio.sleep(0.01)


async def test_a_peer_that_never_reads_is_closed_4001_and_costs_no_more_than_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BR-026: shared frames are refused at the bound; a watcher that does read is told all along."""
    monkeypatch.setattr("gateway.connection.CLOSE_S", 0.3)
    limits: Any = {"outbox_bytes": 65_536, "outbox_deadline_ms": 300, "ping_interval_ms": 60_000}
    async with running(tmp_path, **limits) as gateway, gateway.peer() as publisher, gateway.peer() as watcher:
        await publisher.result("publish", session="s", snapshot=wide(20, 4_000), base=None)
        await watcher.result("subscribe", session="s", limit=20, deliver="push")
        async with gateway.raw() as peer:
            await peer.send(masked(TEXT, request(1, "subscribe", {"session": "s", "limit": 20}).encode()))
            reply = await peer.message()
            assert reply["result"]["recovered"] is False
            revision = 1
            while not await gateway.series("gateway_closes_total", 'code="4001"'):
                filled = "y" * 3_000 + str(revision)
                change = {"records": {"upsert": [{"id": f"F-{n}", "fields": {"dest": filled}} for n in range(20)]}}
                revision = (await publisher.result("patch", session="s", change=change, base="any"))["revision"]
                assert revision < 2_000, "never closed"
            await peer.cut()
        seen = 1
        while seen < revision:
            after = await watcher.until("after")
            assert after["base"] == seen
            seen = after["revision"]


async def test_who_reads_again_is_told_that_it_was_behind(tmp_path: Path) -> None:
    limits: Any = {"outbox_bytes": 32_768, "outbox_deadline_ms": 60_000}
    async with running(tmp_path, **limits) as gateway, gateway.peer() as publisher, gateway.raw() as slow:
        await publisher.result("publish", session="s", snapshot=wide(10), base=None)
        await slow.send(masked(TEXT, request(1, "subscribe", {"session": "s", "limit": 10}).encode()))
        revision = (await slow.message())["result"]["revision"]
        last = revision
        while not await gateway.series("gateway_invalidations_total", 'kind="behind"'):
            filled = {"dest": "z" * 4_000 + str(last)}
            change = {"records": {"upsert": [{"id": f"F-{n}", "fields": filled} for n in range(10)]}}
            last = (await publisher.result("patch", session="s", change=change, base="any"))["revision"]
            if last > 400:  # the kernel's buffers are full by now
                break
        while True:
            message = await slow.message()
            if message["method"] == "invalidated":
                break
            assert message["method"] == "after" and message["params"]["base"] == revision
            revision = message["params"]["revision"]
        assert [reason["kind"] for reason in message["params"]["reasons"]] == ["behind"]
        assert message["params"]["revision"] > revision
        await slow.send(masked(TEXT, request(2, "subscribe", {"session": "s", "limit": 10}).encode()))
        assert (await slow.message())["result"]["revision"] == last


async def test_nothing_is_read_from_a_peer_whose_outbox_is_full(tmp_path: Path) -> None:
    """BR-026: replies are never dropped, so requests wait; pings too, whose pongs nobody would read."""
    limits: Any = {"outbox_bytes": 32_768, "outbox_deadline_ms": 60_000, "requests_per_second": FAST}
    async with running(tmp_path, **limits) as gateway, gateway.peer() as publisher, gateway.raw() as peer:
        await publisher.result("publish", session="s", snapshot=wide(20), base=None)
        describe = {"session": "s", "limit": 20}
        sent = 0
        with anyio.move_on_after(1.5):
            while True:
                await peer.send(*(masked(PING, b"%100d" % n) for n in range(50)))
                await peer.send(masked(TEXT, request(sent, "describe", describe).encode()))
                sent += 1
        assert sent < 20_000, "the socket was read although the outbox was full"
        answered = await gateway.series("gateway_requests_total", 'method="describe"')
        assert answered < sent
        ids = [(await peer.message())["id"] for _ in range(int(answered))]
        assert sorted(ids) == list(range(len(ids))), "every one is answered"


async def test_pings_are_not_read_either_while_nobody_reads_their_pongs(tmp_path: Path) -> None:
    most = 24 << 20  # bytes; the kernel's buffers of both ways take a third of it
    async with running(tmp_path, outbox_bytes=32_768, outbox_deadline_ms=60_000) as gateway, gateway.raw() as peer:
        pings = masked(PING, b"x" * 125) * 500
        sent, blocked = 0, False
        while not blocked:
            assert sent < most, "read all along"
            with anyio.move_on_after(0.5) as wait:
                await peer.send(pings)
                sent += len(pings)
            blocked = wait.cancelled_caught


async def test_requests_read_before_the_outbox_was_full_wait_too(tmp_path: Path) -> None:
    """BR-026: what the peer has asked for at once does not pile up as replies."""
    limits: Any = {"outbox_bytes": 32_768, "outbox_deadline_ms": 60_000}
    async with running(tmp_path, **limits) as gateway, gateway.peer() as publisher, gateway.raw() as peer:
        await publisher.result("publish", session="s", snapshot=wide(100, 2_000), base=None)
        await publisher.result("describe", session="s")
        describe = {"session": "s", "limit": 100}
        count = 60
        await peer.send(*(masked(TEXT, request(id, "describe", describe).encode()) for id in range(count)))
        answered = 0.0
        for _ in range(40):  # each a turn of the loop and more
            answered = await gateway.series("gateway_requests_total", 'method="describe"') - 1
            assert answered < count, "12 MB of replies wait for a peer that reads nothing"
        assert answered > 0
        assert sorted([(await peer.message())["id"] for _ in range(count)]) == list(range(count))


@pytest.mark.parametrize("deflate", [False, True])
async def test_prepared_frames_and_those_of_the_library_never_mix(tmp_path: Path, deflate: bool) -> None:
    """Replies, shared frames, pongs and the close frame on one socket, each whole."""
    offer = ("Sec-WebSocket-Extensions: permessage-deflate",) if deflate else ()
    async with running(tmp_path, requests_per_second=FAST) as gateway, gateway.peer() as publisher:
        await publisher.result("publish", session="s", snapshot=wide(30), base=None)
        async with gateway.raw(*offer) as peer:
            await peer.send(masked(TEXT, request(0, "subscribe", {"session": "s", "limit": 30}).encode()))
            assert (await peer.message())["id"] == 0
            for n in range(1, 101):
                await peer.send(
                    masked(TEXT, request(n, "describe", {"session": "s"}).encode()), masked(PING, b"p%d" % n)
                )
                await publisher.result("patch", session="s", change=status(f"F-{n % 30}", f"{n} " * 90), base="any")
            await peer.send(masked(CLOSE, b"\x03\xe8bye"))
            pongs, ids, revisions = [], [], []
            while True:
                first, payload = await peer.frame()
                opcode = first & 0x0F
                if opcode == CLOSE:
                    break
                if opcode == PONG:
                    pongs.append(payload)
                    assert first == 0x8A
                    continue
                assert opcode == TEXT
                message = peer.decoded(first, payload)
                if "id" in message:
                    ids.append(message["id"])
                else:
                    revisions.append(message["params"]["revision"])
            assert payload == b"\x03\xe8bye"
            assert pongs == [b"p%d" % n for n in range(1, 101)]
            assert ids == list(range(1, 101))
            assert revisions == list(range(2, 102))[: len(revisions)] and len(revisions) >= 90


async def test_pings_in_time_and_a_silent_peer_is_closed(tmp_path: Path) -> None:
    """BR-020 in small: the gateway sends a byte every interval; a peer whose every pong comes lives on."""
    limits: Any = {"ping_interval_ms": 150, "ping_timeout_ms": 250}
    async with running(tmp_path, **limits) as gateway, gateway.raw() as silent, gateway.raw() as alive:
        for _ in range(6):
            assert await alive.frame() == (0x80 | PING, b"")
            await alive.send(masked(PONG, b""))
        assert await silent.close_code() == (4004, "silent")
        await alive.send(masked(TEXT, request(1, "ping").encode()))
        assert await alive.message() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_any_byte_is_a_sign_of_life(tmp_path: Path) -> None:
    async with running(tmp_path, ping_interval_ms=100, ping_timeout_ms=150) as gateway, gateway.raw() as peer:
        frame = masked(TEXT, request(1, "nonsense").encode() + b" " * 20)
        for at in range(len(frame)):  # a slow sender: a byte now and then, for ten times the time-out
            await peer.send(frame[at : at + 1])
            await anyio.sleep(0.03)
        assert (await peer.message())["error"]["data"]["kind"] == "unknown_method"


async def test_leaving_leaves_nothing_behind(tmp_path: Path) -> None:
    async with relayed_ring(tmp_path) as (gateway, relay), gateway.peer() as publisher:
        await publisher.result("publish", session="s", snapshot=board(), base=None)
        for _ in range(3):
            async with gateway.peer() as watcher:
                await watcher.result("subscribe", session="s")
        relay.requests = anyio.Event()
        async with gateway.raw() as peer:  # gone with a request in flight
            await peer.send(masked(TEXT, request(1, "describe", {"session": "cold"}).encode()))
        relay.requests.set()
        await publisher.result("patch", session="s", change=status("F-1", "late"), base="any")
        with anyio.fail_after(DEADLINE_S):
            while await gateway.metric("gateway_connections") > 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert await gateway.metric("gateway_afters_total") == 0


async def test_a_client_that_is_cut_sees_it(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as peer:
        await peer.result("ping")
        await peer.socket.send(b"{}")
        with pytest.raises(ConnectionClosed) as closed:
            await peer.next()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1003, "binary messages are not taken")
