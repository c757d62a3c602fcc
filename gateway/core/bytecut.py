"""A describe response cut to a number of bytes (protocol §5 and §7): JSON is never sliced.

Where the response would not fit with every array of `context` empty, `capabilities` goes first; then `context` is cut in
what is left, as `max_output_bytes` does it everywhere (surface behaviour §5.9).
"""

from typing import Any, Final

import msgspec

from gateway.core.surface import ceiling
from gateway.core.surface.facts import DESCRIBE
from gateway.core.surface.record import ordered

AROUND: Final = 512
"""Bytes a bound leaves for what stands around the response (protocol §7)."""
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


def cut(capabilities: bytes, context: bytes, around: int, maximum: int) -> tuple[bytes, bytes]:
    """`capabilities` and `context` so that both and `around` bytes stay within `maximum` bytes.

    Args:
        capabilities: the array as told.
        context: the object as told, with `agent_surface` its last member; shaped by other knobs or not.
        around: bytes of the response outside both.
        maximum: the bound, told as `max_output_bytes`.
    """
    members = _members(context)
    primary = "records" if isinstance(members.get("records"), list) else None
    if len(capabilities) + around + ceiling.least(members, primary, maximum, DESCRIBE.kept) > maximum:
        capabilities = b"[]"
    room = maximum - around - len(capabilities)
    return capabilities, msgspec.json.encode(ceiling.within(members, primary, maximum, room, DESCRIBE.kept))


def _members(context: bytes) -> dict[str, Any]:
    """The members of a context: arrays as lists, counts in its record, everything else as text."""
    members: dict[str, Any] = {
        name: _list.decode(raw) if bytes(raw).startswith(b"[") else raw for name, raw in _raw.decode(context).items()
    }
    surface: dict[str, Any] = msgspec.json.decode(members.pop("agent_surface"))
    if "input_count" not in surface:
        count = len(members["records"])
        surface |= {"input_count": count, "output_count": count, "result_array_source": "declared"}
    return members | {"agent_surface": ordered(surface)}
