"""Requests as text, and what the decoder makes of them."""

import json
from typing import Any

import pytest

from gateway.core import messages
from gateway.core.errors import KINDS
from gateway.core.limits import Limits
from gateway.core.messages import Refused, Request

LIMITS = Limits()


def frame(method: Any = "ping", params: Any = None, **members: Any) -> str:
    """A request of id 7 as text; params None: absent."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method} | ({} if params is None else {"params": params})
    return json.dumps(message | members)


def taken(text: str, limits: Limits = LIMITS) -> Request:
    request = messages.decode(text, limits)
    assert request is not None
    return request


def refused(text: str, limits: Limits = LIMITS) -> tuple[int | str | None, dict[str, Any]]:
    """The id of the error reply and its `data`."""
    with pytest.raises(Refused) as caught:
        messages.decode(text, limits)
    reply = json.loads(messages.error(caught.value.id, caught.value.error))
    assert reply.keys() == {"jsonrpc", "id", "error"}
    assert reply["id"] == caught.value.id and type(reply["id"]) is type(caught.value.id)
    kind = KINDS[reply["error"]["data"]["kind"]]
    assert reply["error"]["code"] == kind.code
    return reply["id"], reply["error"]["data"]


def params_of(text: str) -> Any:
    return taken(text).params


PUBLISH: dict[str, Any] = {"session": "s", "base": None, "snapshot": {}}
PATCH: dict[str, Any] = {"session": "s", "base": "any", "change": {}}
SINCE = {"view": "v", "epoch": "e", "revision": 1}


def snapshot(**members: Any) -> dict[str, Any]:
    """Params of a `publish` of these members."""
    return PUBLISH | {"snapshot": members}


def change(**members: Any) -> dict[str, Any]:
    """Params of a `patch` of these members."""
    return PATCH | {"change": members}
