"""A response cut to a number of bytes (surface behaviour §5.9, protocol §5 and §7): JSON is never sliced.

Where the response would not fit with every array empty, `capabilities` goes first. Then records leave from the end; where
the arrays beside them leave no room for even that, all of those are emptied too; where not even that fits, a stub that
says so takes the place of the context.
"""

from typing import Any, Final

import msgspec

AROUND: Final = 512
"""Bytes a bound leaves for what stands around the response (protocol §7)."""
TRUNCATED: Final = b',"truncated":true'
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
    parts = _Parts(context)
    if len(capabilities) + around + parts.least(maximum) > maximum:
        capabilities = b"[]"
    return capabilities, parts.within(maximum - around - len(capabilities), maximum)


class _Parts:
    """The members of a context, apart: the arrays beside `records` that can be emptied, the records, the rest."""

    def __init__(self, context: bytes) -> None:
        self.members = {name: bytes(raw) for name, raw in _raw.decode(context).items()}
        self.surface: dict[str, Any] = msgspec.json.decode(self.members.pop("agent_surface"))
        self.records = [bytes(raw) for raw in _list.decode(self.members["records"])]
        # `missing` is cut by nothing (protocol §5).
        self.others = {
            name: len(_list.decode(value))
            for name, value in self.members.items()
            if value.startswith(b"[") and name not in ("records", "missing")
        }

    def _room_of_record(self, maximum: int) -> int:
        """The widest `agent_surface` and `truncated` there can be, so that no number that grows passes the bound."""
        count = len(self.records)
        widest = _record(self.surface, count, count, count + sum(self.others.values()), maximum)
        return len(b',"agent_surface":') + len(widest) + len(TRUNCATED)

    def _without_records(self, emptied: bool) -> dict[str, bytes]:
        gone = {"records", *self.others} if emptied else {"records"}
        return {name: b"[]" if name in gone else value for name, value in self.members.items()}

    def least(self, maximum: int) -> int:
        """Bytes of the context with every array empty."""
        return len(_text(self._without_records(True))) + self._room_of_record(maximum)

    def within(self, room: int, maximum: int) -> bytes:
        """The context in `room` bytes, or the stub."""
        room -= self._room_of_record(maximum)
        count = len(self.records)
        if len(_text(self.members)) <= room:
            return _text(self.members | {"agent_surface": _counted(self.surface, count, count, {})})
        members = self._without_records(False)
        dropped = 0
        if len(_text(members)) > room:
            members = self._without_records(True)
            dropped = sum(self.others.values())
        room -= len(_text(members))
        if room < 0:
            return b'{"truncated":true,"truncated_reason":"max_output_bytes","max_output_bytes":%d}' % maximum
        kept = 0
        for record in self.records:
            room -= len(record) + (kept > 0)
            if room < 0:
                break
            kept += 1
        members["records"] = b"[" + b",".join(self.records[:kept]) + b"]"
        members["truncated"] = b"true"
        members["agent_surface"] = _record(self.surface, count, kept, count - kept + dropped, maximum)
        return _text(members)


def _text(members: dict[str, bytes]) -> bytes:
    return b"{" + b",".join([msgspec.json.encode(name) + b":" + value for name, value in members.items()]) + b"}"


def _record(surface: dict[str, Any], given: int, kept: int, dropped: int, maximum: int) -> bytes:
    """`agent_surface` of a cut context."""
    cut = {"output_truncated": True, "dropped": dropped, "max_output_bytes": maximum}
    return _counted(surface, given, kept, cut)


def _counted(surface: dict[str, Any], given: int, kept: int, cut: dict[str, Any]) -> bytes:
    """`agent_surface` with counts, in the order of its schema."""
    counts = {"input_count": given, "output_count": kept}
    return msgspec.json.encode(counts | cut | surface | {"result_array_source": "declared"})
