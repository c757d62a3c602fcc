"""The message that a script publishes, read. Its form stands in `lua/prelude.lua`."""

from gateway.core.position import Position
from gateway.store import Changed, Ended, Event, Renewed


def read_event(message: bytes) -> Event | None:
    """The event of a message; None for what no script of ours has written."""
    header, separator, rest = message.partition(b"\n")
    try:
        match header.decode().split(" "):
            case ["changed", epoch, revision, as_of, cause_bytes, redo] if separator:
                split = int(cause_bytes)
                position = Position(epoch, int(revision))
                return Changed(position, int(as_of), rest[:split].decode(), rest[split:] if redo == "1" else None)
            case ["renewed", epoch, revision, as_of]:
                return Renewed(Position(epoch, int(revision)), int(as_of))
            case ["ended", reason]:
                return Ended(reason)
    except ValueError:
        pass
    return None
