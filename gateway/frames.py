"""Whole WebSocket frames, built once and written to many peers (RFC 6455 §5.2, RFC 7692 §7)."""

import zlib

_TEXT = 0x81
_TEXT_DEFLATED = 0xC1
_TAIL = b"\x00\x00\xff\xff"


def header(first: int, length: int) -> bytes:
    """The header of an unmasked frame with `length` bytes of payload."""
    if length < 126:
        return bytes((first, length))
    if length < 65_536:
        return bytes((first, 126)) + length.to_bytes(2, "big")
    return bytes((first, 127)) + length.to_bytes(8, "big")


class Frame:
    """One text message as bytes of the wire; its compressed twin is made when the first peer asks for it.

    No compression context is kept between messages (protocol §2), so one compressed frame serves all.
    """

    __slots__ = ("_deflated", "plain", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.plain = header(_TEXT, len(text)) + text
        self._deflated: bytes | None = None

    def deflated(self) -> bytes:
        """The frame compressed with permessage-deflate, no context taken over."""
        if self._deflated is None:
            deflate = zlib.compressobj(wbits=-15)
            body = deflate.compress(self.text) + deflate.flush(zlib.Z_SYNC_FLUSH)
            body = body.removesuffix(_TAIL)
            self._deflated = header(_TEXT_DEFLATED, len(body)) + body
        return self._deflated
