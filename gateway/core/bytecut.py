"""A response cut to a number of bytes (surface behaviour §5.9, protocol §5 and §7): JSON is never sliced.

First `capabilities` goes, then every array beside `records`, then records from the end; where not even that fits, a
stub that says so takes the place of the context.
"""

from typing import Any, Final

import msgspec

AROUND: Final = 512
"""Bytes a bound leaves for what stands around the response (protocol §7)."""
WIDEST_PUBLISHED: Final = len(b',"truncated":true')
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


def cut(capabilities: bytes, context: bytes, around: int, maximum: int) -> tuple[bytes, bytes]:
    """`capabilities` and `context` so that both and `around` bytes stay within `maximum` bytes.

    Args:
        capabilities: the array as told.
        context: the object as told, with `agent_surface` its last member.
        around: bytes of the response outside both.
        maximum: the bound, told as `max_output_bytes`.
    """
    if len(capabilities) + around + len(_emptied(context)) > maximum:
        capabilities = b"[]"
    return capabilities, _context(context, maximum - around - len(capabilities), maximum)


def _emptied(context: bytes) -> bytes:
    members = _raw.decode(context)
    return _text({name: b"[]" if _cuttable(name, bytes(raw)) else bytes(raw) for name, raw in members.items()})


def _cuttable(name: str, value: bytes) -> bool:
    """An array, but not `missing`, which nothing cuts (protocol §5)."""
    return value.startswith(b"[") and name != "missing"


def _text(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join([msgspec.json.encode(name) + b":" + value for name, value in members.items()]) + b"}"


def _context(context: bytes, room: int, maximum: int) -> bytes:
    members = {name: bytes(raw) for name, raw in _raw.decode(context).items()}
    surface: dict[str, Any] = msgspec.json.decode(members.pop("agent_surface"))
    records = [bytes(raw) for raw in _list.decode(members["records"])]
    others = {name: len(_list.decode(v)) for name, v in members.items() if _cuttable(name, v) and name != "records"}
    dropped = sum(others.values())
    members["records"] = b"[]"
    for name in others:
        members[name] = b"[]"
    widest = _record(surface, len(records), len(records), len(records) + dropped, maximum)
    skeleton = len(_text(members)) + len(b',"agent_surface":') + len(widest) + WIDEST_PUBLISHED
    kept = 0
    while kept < len(records) and skeleton + len(records[kept]) + (kept > 0) <= room:
        skeleton += len(records[kept]) + (kept > 0)
        kept += 1
    if skeleton > room:
        return b'{"truncated":true,"truncated_reason":"max_output_bytes","max_output_bytes":%d}' % maximum
    members["records"] = b"[" + b",".join(records[:kept]) + b"]"
    members["truncated"] = b"true"
    members["agent_surface"] = _record(surface, len(records), kept, len(records) - kept + dropped, maximum)
    return _text(members)


def _record(surface: dict[str, Any], given: int, kept: int, dropped: int, maximum: int) -> bytes:
    """`agent_surface` of a cut response, in the order of its schema."""
    shaped: dict[str, Any] = {"input_count": given, "output_count": kept}
    shaped |= {"output_truncated": True, "dropped": dropped, "max_output_bytes": maximum}
    rest = {name: value for name, value in surface.items() if name not in shaped}
    return msgspec.json.encode(shaped | rest | {"result_array_source": "declared"})
