"""What goes wrong for a client: the gateway's refusal, or a connection that is not there.

Both have `kind`, `message`, `data` and may be caught together: `except FAILURES as error: match error.kind`.
"""

from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from gateway.core.errors import GatewayError

ABNORMAL: Final = 1006  # RFC 6455 §7.1.5: no close frame came
TOO_SLOW: Final = 4001
SILENT: Final = 4004
STAY_AWAY: Final = frozenset({1000, 1003, 1007, 1009})  # §2; and all of 4500–4999


class ConnectionLost(Exception):
    """The connection is closed or could not be opened.

    Attributes:
        kind: `connection_lost`; no kind of protocol §3 has this name.
        code: the close code (protocol §2), 1006 where none came.
        final: coming back would not help: the gateway said so by the code, or refused the handshake.
        message, data: as a `GatewayError` has them; `data` tells `errorClass`, `retryable` and `close`.
    """

    kind: Final = "connection_lost"

    def __init__(self, code: int, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.final = final or code in STAY_AWAY or 4500 <= code <= 4999
        self.data: dict[str, Any] = {
            "errorClass": "permanent" if self.final else "transient",
            "retryable": not self.final,
            "close": code,
        }


FAILURES: Final = (GatewayError, ConnectionLost)
"""All that a call of the client raises, cancellation and mistakes in its arguments apart."""


def lost(closed: ConnectionClosed) -> ConnectionLost:
    """Our error for a connection that is closed."""
    if closed.rcvd is None:
        return ConnectionLost(ABNORMAL, "The connection broke.")
    return ConnectionLost(closed.rcvd.code, f"The gateway closed the connection ({closed.rcvd.code}).")


def refusal(error: dict[str, Any]) -> GatewayError:
    """The `error` of a reply as it was told."""
    data = dict(error.get("data", {}))
    refused = GatewayError(data.pop("kind", "internal"), error["message"])
    refused.data = data
    return refused


def may_pass(error: GatewayError) -> bool:
    """Whether the same request, unchanged, may be answered later (§3: `conflict` is transient and is not)."""
    return error.data.get("retryable") is True and error.data.get("errorClass") == "transient"
