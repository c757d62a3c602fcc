"""Errors of protocol §3: one class, one table. Programs switch on `kind`.

`message` is a sentence of ours and never holds a value; what a caller needs to go on stands in `data`. Whatever else is
raised inside the gateway is a bug: the connection answers `internal` and the traceback goes to the log.
"""

from typing import Any, Final, NamedTuple

from gateway.core.params import WRITES


class Kind(NamedTuple):
    """What protocol §3 fixes for one kind."""

    code: int
    error_class: str
    retryable: bool


KINDS: Final[dict[str, Kind]] = {
    "parse_error": Kind(-32700, "permanent", False),
    "invalid_request": Kind(-32600, "permanent", False),
    "duplicate_id": Kind(-32600, "permanent", False),
    "unknown_method": Kind(-32601, "permanent", False),
    "invalid_params": Kind(-32602, "permanent", False),
    "internal": Kind(-32603, "transient", True),  # of a method that writes: see `internal`
    "unauthorized": Kind(2001, "permanent", False),
    "forbidden": Kind(2002, "permanent", False),
    "unknown_session": Kind(2003, "permanent", False),
    "unknown_view": Kind(2003, "permanent", False),
    "unknown_record": Kind(2003, "permanent", False),
    "limit_exceeded": Kind(2004, "permanent", False),
    "conflict": Kind(2005, "transient", False),
    "rate_limited": Kind(2010, "transient", True),
    "store_unavailable": Kind(2011, "transient", True),
}
"""The kinds that can occur so far; the others come with the methods that raise them."""


class GatewayError(Exception):
    """A refusal the peer is told.

    Args:
        kind: a key of `KINDS`.
        message: one sentence of ours; never a value, field content, token, stack, validator text or store address.
        data: further members of `data` under their wire names (`path`, `limit`, …).
    """

    def __init__(self, kind: str, message: str, **data: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.data = data

    def wire(self) -> dict[str, Any]:
        """The JSON-RPC `error` object (protocol §3)."""
        code, error_class, retryable = KINDS[self.kind]
        data = {"kind": self.kind, "errorClass": error_class, "retryable": retryable} | self.data
        return {"code": code, "message": self.message, "data": data}


def invalid(path: str, expected: str, message: str | None = None) -> GatewayError:
    """`invalid_params`: `path` is a JSON Pointer into `params`, `expected` says what would be right."""
    return GatewayError(
        "invalid_params", message or "A parameter is not as the protocol says.", path=path, expected=expected
    )


def exceeded(limit: str, maximum: int, given: int, **data: Any) -> GatewayError:
    """`limit_exceeded`: `limit` is the wire name of protocol §10."""
    return GatewayError(
        "limit_exceeded", "A limit is exceeded; nothing was done.", limit=limit, maximum=maximum, given=given, **data
    )


def internal(method: str | None) -> GatewayError:
    """`internal`, a bug of ours; of a method that writes nobody knows whether it took effect. None: of no known method."""
    unclear = {"errorClass": "ambiguous", "retryable": False} if method in WRITES else {}
    return GatewayError("internal", "The gateway failed to answer; this is a bug of the gateway.", **unclear)
