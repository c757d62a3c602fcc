"""What one peer can make the ring hold, begin or wait for: order, bounds and bugs, before a service of the test's."""

import asyncio
import json
import time
from typing import Any

import anyio
import pytest
import uvloop
from structlog.testing import capture_logs

from gateway.core.params import Describe
from tests.ring import PING, PONG, TEXT, RawPeer, masked, request
from tests.seam import Answering, empty, serving


def asked(id: Any, method: str, size: int = 0, **params: Any) -> bytes:
    """A request as a frame, `size` bytes of text at least."""
    return masked(TEXT, request(id, method, params).encode().ljust(size))


def write(id: Any, method: str = "patch", size: int = 0) -> bytes:
    """A patch or publish that changes nothing."""
    content: dict[str, Any] = {"change": {}} if method == "patch" else {"snapshot": {}}
    return asked(id, method, size, session=str(id), base="any", **content)


async def alive(peer: RawPeer) -> None:
    """Return once the gateway answered a ping frame: it lived, and the loop went round."""
    await peer.send(masked(PING, b"?"))
    while (await peer.frame())[0] != 0x80 | PONG:
        pass


async def test_writes_are_carried_out_one_by_one_in_the_order_they_came() -> None:
    inside: list[str] = []

    async def answer(method: str, params: Any) -> bytes:
        inside.append(params.session)
        assert len(inside) == 1, "two at once"
        for _ in range(int(params.session) % 3):
            await anyio.lowlevel.checkpoint()
        inside.clear()
        return b"{}"

    service = Answering(answer)
    async with serving(service) as seam, seam.raw() as peer:
        methods = ["patch", "publish"] * 20
        await peer.send(*(write(id, method) for id, method in enumerate(methods)))
        assert [(await peer.message())["id"] for _ in methods] == list(range(40))
    assert [params.session for _, params in service.calls] == [str(id) for id in range(40)]


async def test_br_064_ids_come_back_as_they_were_sent_whatever_the_order() -> None:
    ids = [1, "1", "01", "true", 2**53 - 1, -1]
    gates = {str(at): anyio.Event() for at in range(len(ids))}

    async def answer(method: str, params: Describe) -> bytes:
        await gates[params.session].wait()
        return json.dumps({"session": params.session}).encode()

    service = Answering(answer)
    async with serving(service, outbox_bytes=8 * 262_144) as seam, seam.raw() as peer:
        await peer.send(*(asked(id, "describe", session=str(at)) for at, id in enumerate(ids)))
        await service.until(len(ids))
        for at, id in reversed(list(enumerate(ids))):
            gates[str(at)].set()
            reply = await peer.message()
            assert (reply["id"], type(reply["id"])) == (id, type(id))
            assert reply["result"] == {"session": str(at)}
        for bad in (1.0, 2**53 + 1, True, None, [1]):
            await peer.send(asked(bad, "describe", session="0"))
            reply = await peer.message()
            assert (reply["id"], reply["error"]["data"]["kind"]) == (None, "invalid_request"), bad


async def test_br_026_responses_of_one_peer_do_not_pass_the_outbox_by_more_than_those_that_fit_it() -> None:
    """Sixty slow reads become answerable in one moment; the peer reads nothing meanwhile."""
    go = anyio.Event()
    response = b'"' + b"x" * 262_000 + b'"'
    most = 0

    async def answer(method: str, params: Any) -> bytes:
        nonlocal most
        await go.wait()
        most = max(most, seam.outboxes())
        return response

    service = Answering(answer)
    async with serving(service, outbox_deadline_ms=60_000) as seam, seam.raw() as peer, seam.raw() as other:
        await peer.send(*(asked(id, "describe", session="s") for id in range(60)))
        await service.until(4)
        go.set()
        for _ in range(100):
            await alive(other)
            most = max(most, seam.outboxes())
        assert 0 < most <= 2 * 1_048_576 + 5 * 300
        assert len(service.calls) < 60
        assert sorted([(await peer.message())["id"] for _ in range(60)]) == list(range(60))


async def test_requests_under_way_hold_no_more_than_one_publish_and_a_message() -> None:
    go = anyio.Event()

    async def answer(method: str, params: Any) -> bytes:
        await go.wait()
        return b"{}"

    service = Answering(answer)
    limits = {"publish_bytes": 100_000, "outbox_bytes": 64 * 262_144}
    async with serving(service, **limits) as seam, seam.raw() as peer, seam.raw() as other:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.send, *(asked(id, "describe", 40_000, session="s") for id in range(20)))
            await service.until(3)
            for _ in range(50):
                await alive(other)
            assert len(service.calls) == 3
            go.set()
        assert sorted([(await peer.message())["id"] for _ in range(20)]) == list(range(20))


async def test_a_flood_of_small_messages_leaves_the_loop_to_others() -> None:
    count = 2_000
    nothing = masked(TEXT, b'{"jsonrpc":"2.0","method":"x"}')
    async with serving(Answering(empty)) as seam, seam.raw() as flood, seam.raw() as other:
        await flood.send(nothing * count)
        await alive(other)
        assert seam.metrics.dropped._value.get() < count, "answered between them"
        await flood.send(asked(1, "ping"))
        assert (await flood.message())["result"] == {}
        assert seam.metrics.dropped._value.get() == count, "none is lost"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_loop_that_stood_still_is_no_silence_of_the_peers(run: Any) -> None:
    """BR-018: nobody could be heard in that time."""

    async def scenario() -> None:
        limits = {"ping_interval_ms": 100, "ping_timeout_ms": 100}
        async with serving(Answering(empty), **limits) as seam, seam.raw() as peer:
            await alive(peer)
            time.sleep(0.6)  # noqa: ASYNC251  # this is the loop that stands still
            assert await peer.frame() == (0x80 | PING, b""), "asked first, judged later"
            await peer.send(masked(PONG, b""))
            await alive(peer)
            assert seam.metrics.loop_delay_worst._value.get() > 0.3

    run(scenario())


@pytest.mark.parametrize(("method", "error_class"), [("patch", "ambiguous"), ("describe", "transient")])
async def test_a_bug_is_internal_told_to_the_log_without_values_and_the_connection_lives(
    method: str, error_class: str
) -> None:
    async def answer(method: str, params: Any) -> bytes:
        try:
            raise KeyError("canary-inner")
        except KeyError as error:
            raise RuntimeError("canary-outer") from error

    async with serving(Answering(answer)) as seam, seam.raw() as peer:
        with capture_logs() as lines:
            await peer.send(write(1) if method == "patch" else asked(1, "describe", session="canary-session"))
            error = (await peer.message())["error"]
        assert (error["data"]["kind"], error["data"]["errorClass"]) == ("internal", error_class)
        assert "canary" not in json.dumps(error)
        (line,) = lines
        assert line["method"] == method and "KeyError" in line["trace"] and "RuntimeError" in line["trace"]
        assert any("test_bounds.py" in place and place.endswith(" answer") for place in line["trace"])
        assert "canary" not in json.dumps(line)
        await peer.send(asked(2, "ping"))
        assert (await peer.message())["result"] == {}


async def test_links_in_a_handshake_are_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.HANDSHAKES", 1)
    async with serving(Answering(empty), connections=1) as seam, seam.link() as first, seam.raw() as second:
        async with seam.link() as third:
            await third.cut()
        await alive(second)
        await first.link.aclose()
        with anyio.fail_after(5):
            while True:
                async with seam.link() as fourth:
                    try:
                        assert (await fourth.handshake("localhost")).startswith("HTTP/1.1 101")
                    except (anyio.EndOfStream, anyio.BrokenResourceError):
                        continue
                    assert (await fourth.close_code())[0] == 1013
                    break


async def test_closes_count_by_code_also_those_of_the_library() -> None:
    async with serving(Answering(empty), publish_bytes=1_000) as seam:
        for bad, code in ((masked(TEXT, bytes(1_001)), 1009), (masked(TEXT, b"\xff"), 1007), (b"\x81\x02{}", 1002)):
            async with seam.raw() as peer:
                await peer.send(bad)
                assert (await peer.close_code())[0] == code
        async with seam.raw() as peer:
            await peer.send(masked(8, b"\x03\xe8"))
            assert (await peer.close_code())[0] == 1000
        with anyio.fail_after(5):
            while seam.server.connections:  # the last byte has gone, the task has its turn to come
                await anyio.lowlevel.checkpoint()
        counted = {
            s.labels["code"]: s.value
            for m in seam.metrics.closes.collect()
            for s in m.samples
            if s.name.endswith("_total")
        }
        assert counted == {"1009": 1, "1007": 1, "1002": 1}
