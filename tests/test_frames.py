"""Prepared frames, read back by the library's own parser."""

import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame as LibraryFrame
from websockets.frames import Opcode
from websockets.streams import StreamReader

from gateway.frames import Frame, header


def read_back(data: bytes, *, deflate: bool) -> LibraryFrame:
    """The one frame these bytes are, as a client without context takeover reads it."""
    stream = StreamReader()
    stream.feed_data(data)
    extensions = [PerMessageDeflate(True, True, 15, 15)] if deflate else []
    parser: Any = LibraryFrame.parse(stream.read_exact, mask=False, max_size=None, extensions=extensions)
    with pytest.raises(StopIteration) as done:
        next(parser)
    stream.feed_eof()
    with pytest.raises(StopIteration) as end:
        next(stream.read_to_eof(1))
    assert end.value.value == b"", "bytes behind the frame"
    frame: LibraryFrame = done.value.value
    return frame


@given(st.text(max_size=400), st.sampled_from([1, 40, 400]))
@example("", 1)
@example("x" * 125, 1)
@example("x" * 126, 1)
@example("x" * 65_535, 1)
@example("x" * 65_536, 1)
def test_both_forms_are_read_back(piece: str, times: int) -> None:
    text = (piece * times).encode()
    for deflate in (False, True):
        frame = Frame(text)
        read = read_back(frame.deflated() if deflate else frame.plain, deflate=deflate)
        assert (read.opcode, read.fin, bytes(read.data)) == (Opcode.TEXT, True, text)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, b"\x81\x00"),
        (125, b"\x81\x7d"),
        (126, b"\x81\x7e\x00\x7e"),
        (65_535, b"\x81\x7e\xff\xff"),
        (65_536, b"\x81\x7f" + bytes(5) + b"\x01\x00\x00"),
    ],
)
def test_lengths_take_the_shortest_form(length: int, expected: bytes) -> None:
    assert header(0x81, length) == expected


def test_a_frame_is_compressed_once_and_holds_no_context() -> None:
    text = b'{"status":"On time"}' * 100
    frame = Frame(text)
    assert frame.deflated() is frame.deflated()
    assert Frame(text).deflated() == frame.deflated()
    assert zlib.decompressobj(wbits=-15).decompress(frame.deflated()[2:]) == text
