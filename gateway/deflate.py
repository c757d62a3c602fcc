"""permessage-deflate without context (RFC 7692 §7, protocol §2), inflated not before a message is taken.

The library inflates each frame as it parses it. Left to that, one chunk of the socket is many messages of the largest
size at once, and a message in fragments is refused short of the limit: what is left of it is compared with the
compressed size of the next fragment. So a compressed message stays compressed until its turn, and is bounded then.
"""

import zlib
from collections.abc import Sequence
from typing import Final

from websockets.exceptions import NegotiationError
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.typing import ExtensionName, ExtensionParameter

WINDOW: Final = -15
"""zlib's word for a raw stream with the largest window; it reads streams made with any smaller one."""
TAIL: Final = b"\x00\x00\xff\xff"
"""What a sender leaves off the end of a message (RFC 7692 §7.2.1)."""


class DeflatedFrame(Frame):
    """The first frame of a compressed message."""


class Deflate(Extension):
    """Marks compressed messages and leaves them as they are; what the library writes is never compressed."""

    name = ExtensionName("permessage-deflate")

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """The frame, its mark of compression taken off; the mark anywhere else stays and is refused by the library."""
        if frame.rsv1 and frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            return DeflatedFrame(frame.opcode, frame.data, frame.fin, False, frame.rsv2, frame.rsv3)
        return frame

    def encode(self, frame: Frame) -> Frame:
        return frame


class DeflateOffered(ServerPerMessageDeflateFactory):
    """Agrees where no context is kept in either direction; a smaller server window is declined."""

    def __init__(self) -> None:
        super().__init__(server_no_context_takeover=True, client_no_context_takeover=True)

    def process_request_params(  # type: ignore[override]  # the library's annotation names its own extension
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], Extension]:
        for name, value in params:
            if name == "server_max_window_bits" and value != "15":
                raise NegotiationError("a smaller server window is not offered")
        agreed, _ = super().process_request_params(params, accepted_extensions)
        return agreed, Deflate()


def inflate(data: bytes, maximum: int) -> bytes | None:
    """The message behind its compressed bytes; None when it is longer than `maximum` bytes, of which no more are made.

    Raises:
        zlib.error: these bytes are no such stream.
    """
    # One more than is allowed tells too long from just right; stopping at the limit itself could not.
    message = zlib.decompressobj(wbits=WINDOW).decompress(data + TAIL, maximum + 1)
    return message if len(message) <= maximum else None
