"""Compressed messages: bounded before they are inflated, broken ones told from large ones (RFC 7692, BR-068)."""

import tracemalloc
import zlib

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.deflate import inflate
from tests.ring import BINARY, CONT, PING, TEXT, RawPeer, masked, request
from tests.seam import Answering, empty, serving

OFFER = "Sec-WebSocket-Extensions: permessage-deflate"
LIMIT = 100_000


def deflated(data: bytes, level: int = 6) -> bytes:
    """A message as a client compresses it."""
    stream = zlib.compressobj(level, wbits=-15)
    return (stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\x00\x00\xff\xff")


def padded(size: int, id: int = 1) -> bytes:
    """A ping of so many bytes."""
    return request(id, "ping").encode().ljust(size)


def fragments(data: bytes, count: int) -> bytes:
    """A compressed message in `count` fragments."""
    size = -(-len(data) // count)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    frames = [masked(TEXT, pieces[0], fin=False, rsv1=True)]
    frames += [masked(CONT, piece, fin=False) for piece in pieces[1:]]
    return b"".join([*frames, masked(CONT, b"")])


@given(st.binary(max_size=3_000), st.integers(1, 40), st.sampled_from([0, 1, 6, 9]))
def test_what_was_compressed_comes_back_up_to_the_very_limit(piece: bytes, times: int, level: int) -> None:
    data = piece * times
    assert inflate(deflated(data, level), len(data)) == data
    if data:
        assert inflate(deflated(data, level), len(data) - 1) is None


def test_no_more_is_inflated_than_the_limit() -> None:
    bomb = deflated(bytes(64_000_000))
    tracemalloc.start()
    try:
        assert inflate(bomb, LIMIT) is None
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT + len(bomb)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("broken", [b"\xff\xff\xff", b"\x07\x00", deflated(bytes(500))[:-3] + b"\xff" * 9])
def test_a_broken_stream_is_no_message(broken: bytes) -> None:
    with pytest.raises(zlib.error):
        inflate(broken, LIMIT)


def bypass() -> bytes:
    """A first fragment that fills the limit, to leave nothing of it for the second: 64 MB."""
    stream = zlib.compressobj(wbits=-15)
    first = stream.compress(bytes(LIMIT)) + stream.flush(zlib.Z_SYNC_FLUSH)
    second = stream.compress(bytes(64_000_000)) + stream.flush(zlib.Z_SYNC_FLUSH)
    return masked(TEXT, first, fin=False, rsv1=True) + masked(CONT, second.removesuffix(b"\x00\x00\xff\xff"))


BAD = {
    "whole": (masked(TEXT, deflated(bytes(64_000_000)), rsv1=True), 1009),
    "fragments": (fragments(deflated(bytes(64_000_000)), 100), 1009),
    "limit-filled-first": (bypass(), 1009),
    "limit-and-one": (masked(TEXT, deflated(padded(LIMIT + 1)), rsv1=True), 1009),
    "broken": (masked(TEXT, b"\xff\xff\xff", rsv1=True), 1002),
    "binary": (masked(BINARY, deflated(b"{}"), rsv1=True), 1003),
    "not-utf8": (masked(TEXT, deflated(b'"\xff"'), rsv1=True), 1007),
    "marked-continuation": (masked(TEXT, b"", fin=False, rsv1=True) + masked(CONT, b"", rsv1=True), 1002),
    "marked-ping": (masked(PING, b"", rsv1=True), 1002),
}


@pytest.mark.parametrize(("sent", "code"), BAD.values(), ids=BAD)
async def test_br_068_what_is_no_message_within_the_limit_closes(sent: bytes, code: int) -> None:
    """With memory bounded while it is judged, and nobody else harmed."""
    async with serving(Answering(empty), publish_bytes=LIMIT) as seam, seam.raw(OFFER) as other:
        async with seam.raw(OFFER) as peer:
            tracemalloc.start()
            try:
                await peer.send(sent)
                assert (await peer.close_code())[0] == code
                assert tracemalloc.get_traced_memory()[1] < 20 * LIMIT
            finally:
                tracemalloc.stop()
        await other.send(masked(TEXT, deflated(padded(60)), rsv1=True))
        assert (await other.message())["result"] == {}


@pytest.mark.parametrize("count", [1, 100])
async def test_br_068_the_limit_itself_is_taken(count: int) -> None:
    data = deflated(padded(LIMIT))
    async with serving(Answering(empty), publish_bytes=LIMIT) as seam, seam.raw(OFFER) as peer:
        await peer.send(fragments(data, count) if count > 1 else masked(TEXT, data, rsv1=True))
        assert (await peer.message())["result"] == {}


async def test_many_compressed_messages_at_once_are_inflated_one_by_one() -> None:
    """Each of them is within the limit; all of them at once would be sixty times that."""
    size, count = 1_000_000, 60
    sent = b"".join(masked(TEXT, deflated(padded(size, id)), rsv1=True) for id in range(count))
    async with serving(Answering(empty), publish_bytes=size) as seam, seam.raw(OFFER) as peer:
        tracemalloc.start()
        try:
            await peer.send(sent)
            assert [(await peer.message())["id"] for _ in range(count)] == list(range(count))
            assert tracemalloc.get_traced_memory()[1] < 8 * size
        finally:
            tracemalloc.stop()


async def test_compressed_and_plain_messages_keep_their_order() -> None:
    async with serving(Answering(empty)) as seam, seam.raw(OFFER) as peer:
        for id in range(0, 20, 2):
            await peer.send(masked(TEXT, deflated(padded(60, id)), rsv1=True), masked(TEXT, padded(60, id + 1)))
        assert [(await peer.message())["id"] for _ in range(20)] == list(range(20))


async def test_a_mark_of_compression_that_was_not_agreed_on_closes() -> None:
    async with serving(Answering(empty)) as seam, seam.raw() as peer:
        await send_and_close(peer, masked(TEXT, deflated(padded(60)), rsv1=True), 1002)


async def send_and_close(peer: RawPeer, sent: bytes, code: int) -> None:
    with anyio.fail_after(5):
        await peer.send(sent)
        assert (await peer.close_code())[0] == code
