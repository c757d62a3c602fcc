"""Names in the store. A session's keys share one hash tag, so that one script touches one slot of a cluster.

The tag is a hash of the id: ids may hold braces, colons and anything else, and two ids never share a key.
"""

import base64
import hashlib

SESSIONS = b"{cg}:sessions"
"""Sorted set of all session ids, every score 0: listed by bytes, which for UTF-8 is by code point."""

_TAG_BYTES = 16  # 128 bits: no two ids meet


def channel_of(session: str) -> bytes:
    """The session's channel; its keys begin with it."""
    digest = hashlib.sha256(session.encode()).digest()[:_TAG_BYTES]
    return b"cg:{" + base64.b32encode(digest).rstrip(b"=").lower() + b"}"


def keys_of(session: str) -> tuple[bytes, bytes, bytes, bytes]:
    """The four keys of a session in the order every script takes them: meta, records, order, log."""
    channel = channel_of(session)
    return channel + b":meta", channel + b":records", channel + b":order", channel + b":log"
