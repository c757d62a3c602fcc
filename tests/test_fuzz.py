"""Mutated messages and frames on real sockets: one answer each or the documented close, and nothing in the log."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.core import messages
from gateway.core.errors import KINDS
from gateway.core.limits import Limits
from gateway.core.messages import Refused
from tests.ring import Peer, Ring, masked, request, running
from tests.test_bad_input import FULL

EXAMPLES = 300
"""Each a round trip or more on a socket; the decoder alone has its own, larger properties in tests/core."""
TEXTS = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": m, "params": p}, ensure_ascii=False) for m, p in FULL.items()]
PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "\ufeff",
            "[",
            "]",
            "{",
            "}",
            '"',
            ",",
            ":",
            "\\",
            r"\ud800",
            r"\udc00",
            r"\ud83d\ude00",
            "null",
            "1e400",
            "NaN",
            "-0.0",
            "\x00",
            "\x1f",
            "\n",
            "5.0",
            "9" * 400,
            "[" * 2000,
            '{"a":' * 40,
            "__proto__",
            "\U0010ffff",
            "true",
            '""',
            " ",
        ]
    ),
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A right request with some of its text deleted, replaced, doubled, or something else put in."""

    def change(text: str, _: int) -> str:
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["insert", "replace", "delete", "cut", "double", "before", "behind"])):
            case "insert":
                return text[:start] + draw(PIECES) + text[start:]
            case "replace":
                return text[:start] + draw(PIECES) + text[end:]
            case "delete":
                return text[:start] + text[end:]
            case "cut":
                return text[:start]
            case "double":
                return text + text
            case "before":
                return draw(PIECES) + text
        return text + draw(PIECES)

    return reduce(change, range(draw(st.integers(1, 3))), draw(st.sampled_from(TEXTS)))


def answered(text: str, limits: Limits) -> bool:
    """Whether a message gets a reply: all do but what is dropped."""
    try:
        return messages.decode(text, limits) is not None
    except Refused:
        return True


@contextmanager
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fails where an error or a traceback is logged, by us or by the libraries."""
    library = logging.getLogger("gateway.websockets")
    library.addHandler(caplog.handler)
    try:
        with capture_logs() as logs:
            yield
    finally:
        library.removeHandler(caplog.handler)
    assert [entry for entry in logs if entry["log_level"] in ("error", "critical")] == []
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def close_of(reply: dict[str, Any]) -> None:
    """A reply is a result or an error of §3, and nothing else."""
    assert reply["jsonrpc"] == "2.0" and reply.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in reply:
        data = reply["error"]["data"]
        assert data["kind"] != "internal"
        assert reply["error"]["code"] == KINDS[data["kind"]].code


def test_br_089_each_mutated_message_is_answered_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On one socket, each followed by a request that is answered; a reply too many shows in the next example."""
    limits = Limits(requests_per_second=1_000_000)
    ends = 0

    async def exchange(peer: Peer, text: str, end: str) -> list[dict[str, Any]]:
        await peer.send(text)
        await peer.send(request(end, "unsubscribe", {"view": "none"}))
        replies: list[dict[str, Any]] = []
        while len(replies) < 1 + answered(text, limits):
            replies.append(await peer.reply())
        return replies

    def check(portal: BlockingPortal, peer: Peer) -> None:
        @settings(max_examples=EXAMPLES)
        @given(mutated())
        def property(text: str) -> None:
            nonlocal ends
            ends += 1
            replies = portal.call(exchange, peer, text, f"end {ends}")
            for reply in replies:
                close_of(reply)
            assert [reply for reply in replies if reply["id"] == f"end {ends}"], replies

        property()
        assert portal.call(peer.ask, "ping")["result"] == {}

    with (
        quiet(caplog),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running(tmp_path, requests_per_second=1_000_000)) as gateway,
        portal.wrap_async_context_manager(gateway.peer()) as peer,
    ):
        check(portal, peer)


FRAMES = st.one_of(
    st.binary(max_size=60),
    st.builds(
        masked,
        st.integers(0, 15),
        st.one_of(st.binary(max_size=130), st.sampled_from([text.encode() for text in TEXTS])),
        fin=st.booleans(),
        rsv1=st.booleans(),
    ),
)


def test_any_bytes_end_in_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever bytes follow a handshake: the link ends once the peer has ended it, another one does not notice."""

    async def pour(gateway: Ring, pieces: list[bytes], deflate: bool) -> None:
        offer = ("Sec-WebSocket-Extensions: permessage-deflate",) if deflate else ()
        async with gateway.raw(*offer) as peer:
            try:
                for piece in pieces:
                    await peer.send(piece)
                await peer.link.send_eof()
            except (anyio.BrokenResourceError, OSError):
                return
            await peer.cut()

    def check(portal: BlockingPortal, gateway: Ring) -> None:
        @settings(max_examples=EXAMPLES)
        @given(st.lists(FRAMES, max_size=6), st.booleans())
        def property(pieces: list[bytes], deflate: bool) -> None:
            portal.call(pour, gateway, pieces, deflate)

        property()

    with (
        quiet(caplog),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(running(tmp_path)) as gateway,
        portal.wrap_async_context_manager(gateway.peer()) as other,
    ):
        check(portal, gateway)
        assert portal.call(other.ask, "ping")["result"] == {}
