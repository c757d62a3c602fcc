"""The one decoder and the one encoder: frames of text in, `Request`s out; results and errors in, bytes out (protocol §2, §3).

`decode` raises `Refused` and nothing else, whatever the text.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET

from gateway.core.errors import GatewayError, exceeded, invalid
from gateway.core.explain import explain
from gateway.core.limits import INTEGER_DIGITS, REQUEST_ID_BYTES, Limits
from gateway.core.params import METHODS, Closed, PageChange, Patch, Publish, Sessions, ViewParams

ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "params"})
REQUEST_ID_MAX: Final = 2**53 - 1  # §2
SUGGESTIONS: Final = 3  # names told beside `unknown_method`
SUGGEST_CHARS: Final = 64  # a longer method name is near to none of ours, and comparing costs its square
ID_SCAN_CHARS: Final = 65_536  # of a message too deep to be decoded, its id is looked for in so many characters

_INTEGER_END: Final = 10**INTEGER_DIGITS
_PLAIN: Final = msgspec.json.Encoder()
# A string that does not end runs to the end of what is scanned: always a match, so no character is looked at twice.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)|[\[\]{},]', re.DOTALL)


class Request(msgspec.Struct, frozen=True):
    """A request that may be carried out: a known method, its params of the right shape, `id` as it was sent."""

    id: int | str
    method: str
    params: Closed


class Refused(Exception):
    """A message that is no request we take. `id` is what the error reply carries: null where none is usable."""

    def __init__(self, id: int | str | None, error: GatewayError) -> None:
        super().__init__(error.message)
        self.id = id
        self.error = error


def decode(text: str, limits: Limits) -> Request | None:
    """One message of a client.

    Returns:
        The request, or None for what is dropped and counted, never executed or answered: a notification (no `id`
        member) and a response.

    Raises:
        Refused: with `parse_error`, `invalid_request`, `unknown_method`, `invalid_params` or `limit_exceeded`.
    """
    try:
        message = msgspec.json.decode(text)
    except RecursionError:
        raise Refused(_early_id(text), _too_deep(limits)) from None
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise Refused(None, _no_json()) from None
    deep = _is_deeper(message, limits.depth)
    if not isinstance(message, dict):
        raise Refused(None, _no_request("A message is one JSON object; batches are not taken."))
    if "method" not in message and ("result" in message or "error" in message):
        return None
    method = message.get("method")
    if message.get("jsonrpc") == "2.0" and isinstance(method, str) and "id" not in message:
        return None
    id = _usable_id(message.get("id"))
    if deep:
        raise Refused(id, _too_deep(limits))
    if message.get("jsonrpc") != "2.0":
        raise Refused(id, _no_request('The member jsonrpc of a message is "2.0".'))
    if id is None:
        raise Refused(None, _no_request("An id is an integer within ±(2^53-1) or a text of at most 62 bytes of JSON."))
    if not isinstance(method, str):
        raise Refused(id, _no_request("The member method of a request is a text."))
    if not message.keys() <= ENVELOPE:
        raise Refused(id, _no_request("A request has the members jsonrpc, id, method, params and no others."))
    try:
        return Request(id, method, _params(method, message.get("params", {}), limits))
    except GatewayError as error:
        raise Refused(id, error) from None


def _params(method: str, members: Any, limits: Limits) -> Closed:
    shape = METHODS.get(method)
    if shape is None:
        near = difflib.get_close_matches(method.lower(), METHODS, SUGGESTIONS) if len(method) <= SUGGEST_CHARS else []
        raise GatewayError("unknown_method", "There is no method of this name.", suggestions=near)
    if not isinstance(members, dict):
        raise invalid("", "an object, or no params at all")
    try:
        params = msgspec.convert(members, shape)
    except msgspec.ValidationError:
        raise explain(members, shape) from None
    check_params(params, limits)
    return params


def check_params(params: Closed, limits: Limits) -> None:
    """What the types of the params do not say: members that exclude one another, and numbers bounded by `limits`.

    Raises:
        GatewayError: `invalid_params`, or `limit_exceeded` with the `path` of the number.
    """
    if isinstance(params, ViewParams):
        _check_view(params, limits)
    elif isinstance(params, Sessions):
        _check_maximum("limit", params.limit, "sessionsPage", limits.sessions_page)
    elif isinstance(params, Publish):
        _check_maximum("ttlMs", params.ttl_ms, "sessionTtlMs", limits.session_ttl_ms)
    elif isinstance(params, Patch) and isinstance(params.change.page, PageChange):
        _check_page(params.change.page)


def _check_view(params: ViewParams, limits: Limits) -> None:
    _check_maximum("limit", params.limit, "windowRecords", limits.window_records)
    if params.record is UNSET:
        return
    for name in ("offset", "limit"):
        if getattr(params, name) is not UNSET:
            raise invalid(f"/{name}", f"`{name}` or `record`, not both")
    if isinstance(params.record, list) and len(set(params.record)) < len(params.record):
        at = next(at for at, id in enumerate(params.record) if id in params.record[:at])
        raise invalid(f"/record/{at}", "an id that stands only once in `record`")


def _check_maximum(member: str, given: Any, limit: str, maximum: int) -> None:
    if given is not UNSET and given > maximum:
        raise exceeded(limit, maximum, given, path=f"/{member}")


def _check_page(page: PageChange) -> None:
    if page.unset is UNSET:
        return
    if page.unset is not True:
        raise invalid("/change/page/unset", "true")
    for name in ("title", "route", "params"):
        if getattr(page, name) is not UNSET:
            raise invalid(f"/change/page/{name}", f"`{name}` or `unset`, not both")


def _usable_id(id: Any) -> int | str | None:
    if type(id) is int and -REQUEST_ID_MAX <= id <= REQUEST_ID_MAX:
        return id
    if type(id) is str and len(id) <= REQUEST_ID_BYTES and len(_PLAIN.encode(id)) <= REQUEST_ID_BYTES:
        return id
    return None


def _is_deeper(message: Any, maximum: int) -> bool:
    """Whether arrays and objects stand in one another more than `maximum` deep; looks no further than that.

    Raises:
        Refused: `parse_error` for an integer of too many digits.
    """
    level: list[Any] = [[message]]
    for _ in range(maximum + 1):
        below: list[Any] = []
        for node in level:
            values: Iterable[Any] = node.values() if type(node) is dict else node
            for value in values:
                kind = type(value)
                if kind is dict or kind is list:
                    below.append(value)
                elif kind is int and not -_INTEGER_END < value < _INTEGER_END:
                    raise Refused(None, _no_json())
        if not below:
            return False
        level = below
    return True


def _early_id(text: str) -> int | str | None:
    """The id of a message too deep to be decoded, where it stands before the deep member; else null.

    The members of the outermost object that are complete before the first one that goes deeper than one array or
    object are decoded alone.
    """
    depth = end = 0
    for token in _TOKEN.finditer(text, 0, ID_SCAN_CHARS):
        sign = token.group()
        if sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "," and depth == 1:
            end = token.start()
        if depth > 2:
            break
    try:
        members = msgspec.json.decode(text[:end] + "}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return _usable_id(members.get("id"))


def _no_json() -> GatewayError:
    return GatewayError("parse_error", "The message is not JSON as RFC 8259 and the protocol define it.")


def _no_request(message: str) -> GatewayError:
    return GatewayError("invalid_request", message)


def _too_deep(limits: Limits) -> GatewayError:
    """`given` is the first depth that is too much: no one counts further."""
    return exceeded("depth", limits.depth, limits.depth + 1)


def result(id: int | str, result: bytes) -> bytes:
    """A reply; `result` is JSON text."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_PLAIN.encode(id), result)


def error(id: int | str | None, error: GatewayError) -> bytes:
    """An error reply; null where the request has no usable id."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_PLAIN.encode(id), _PLAIN.encode(error.wire()))


def notification(method: str, params: bytes) -> bytes:
    """A notification; `params` is JSON text."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_PLAIN.encode(method), params)
