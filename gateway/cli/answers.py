"""What a command answers: JSON on stdout, sentences for people on stderr, and the exit status.

On a terminal a result is indented; piped, or with `--json`, it is one compact line. An error is JSON on stdout in the
same two cases, and always a sentence on stderr.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from gateway.client import ConnectionLost
from gateway.core.errors import KINDS, GatewayError
from gateway.settings import SettingsError, Source

DONE: Final = 0
BUG: Final = 1
REFUSED: Final = 2
OUT_OF_REACH: Final = 3
NOT_FOUND: Final = 4
NOT_AUTHORISED: Final = 5
INTERRUPTED: Final = 130

STATUSES: Final = {
    "internal": BUG,
    "unknown_session": NOT_FOUND,
    "unknown_view": NOT_FOUND,
    "unknown_record": NOT_FOUND,
    "unauthorized": NOT_AUTHORISED,
    "forbidden": NOT_AUTHORISED,
    "store_unavailable": OUT_OF_REACH,
}
"""Exit statuses of a gateway's refusals by their kind; any other is `REFUSED`."""

SUGGESTIONS: Final = {
    "conflict": "Describe the session and build on the position told here, or pass --base any to overwrite knowingly.",
    "unknown_session": "context-gateway sessions lists what there is.",
    "store_unavailable": "Try again; the gateway is up and its store is out of reach.",
}
"""What to do next, where the gateway does not say so itself."""

CLOSES: Final = {
    1003: REFUSED,
    1007: REFUSED,
    1009: REFUSED,
    1011: BUG,
    4501: NOT_AUTHORISED,
    4504: REFUSED,
}
"""Exit statuses of close codes; any other is `OUT_OF_REACH`."""


class CommandError(Exception):
    """A failure of the command itself.

    Args:
        status: the exit status, and the error's `code` unless that is given.
        kind: programs switch on it.
        message: one sentence, without values.
        more: further members (`suggestion`, …).
    """

    def __init__(
        self, status: int, kind: str, message: str, *, code: int | None = None, retryable: bool = False, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        error_class = "transient" if retryable else "permanent"
        self.error = {
            "code": status if code is None else code,
            "kind": kind,
            "message": message,
            "errorClass": error_class,
            "retryable": retryable,
        } | more


def command_error(error: Exception) -> CommandError:
    """Any failure as a command tells it."""
    match error:
        case CommandError():
            return error
        case GatewayError():
            return refused(error)
        case ConnectionLost():
            return lost(error)
        case SettingsError():
            return CommandError(REFUSED, "bad_setting", str(error), setting=error.setting)
        case click.ClickException():
            return misused(error)
        case _:
            return CommandError(BUG, "internal", "The command failed by a mistake of ours.")


def misused(error: click.ClickException) -> CommandError:
    """A wrong command line."""
    bare = isinstance(error, click.exceptions.NoArgsIsHelpError)
    told = CommandError(REFUSED, "usage", "A command is missing." if bare else error.format_message())
    if isinstance(error, click.UsageError) and error.ctx:
        told.error["suggestion"] = f"See {error.ctx.command_path} --help"
    return told


def refused(error: GatewayError) -> CommandError:
    """A refusal of the gateway with all members it told."""
    status = STATUSES.get(error.kind, REFUSED)
    told = CommandError(status, error.kind, error.message)
    code = KINDS[error.kind].code if error.kind in KINDS else status
    advice = SUGGESTIONS.get(error.kind) or _advice(error.data)
    told.error |= {"code": code} | ({"suggestion": advice} if advice else {}) | error.data
    return told


def _advice(data: Mapping[str, Any]) -> str | None:
    """What a refusal's members say to people: where the fault is, and what would be right."""
    at = f"At {json.dumps(data['path'])}: " if data.get("path") else ""
    if "expected" in data:
        return f"{at}expected is {data['expected']}."
    if "limit" in data:
        return f"{at}{data['limit']} is {data['maximum']}, and {data['given']} were given."
    return None


def lost(error: ConnectionLost) -> CommandError:
    """No connection, or one that broke before the answer."""
    status = CLOSES.get(error.code, REFUSED if error.final else OUT_OF_REACH)
    more: dict[str, Any] = {"close": error.code}
    if status == OUT_OF_REACH:
        more["suggestion"] = "Start a gateway with: context-gateway serve; or name another with --url."
    return CommandError(status, "gateway_unreachable", str(error), retryable=not error.final, **more)


def tell(message: str) -> None:
    """A line for people."""
    click.echo(message, err=True)


def wants_json(arguments: list[str]) -> bool:
    """Whether errors are told as JSON: stdout is no terminal, or `--json` stands among the arguments."""
    return "--json" in arguments or not sys.stdout.isatty()


def answer(result: Any, *, compact: bool) -> None:
    """Write one JSON value and its newline to stdout at once, UTF-8 whatever the locale says.

    Raises:
        click.exceptions.Exit: with status 0, quietly, when nobody reads stdout any more.
    """
    text = msgspec.json.encode(result)
    if not compact:
        text = msgspec.json.format(text, indent=2)
    try:
        sys.stdout.buffer.write(text + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # What the interpreter still flushes at its end goes nowhere, without a complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(DONE) from None


def retarget(message: dict[str, Any], source: Source, *, dispensed: bool = False) -> dict[str, Any]:
    """An answer whose `agent_surface` names the layer that supplied the target of this command.

    A command's target is the gateway it talks to, so `db_path_source` is the layer of `--url`; where the store is stays as
    the gateway told it. `dispensed`: `--use-active` let a change through.
    """
    told = dict(message)
    for name in ("describe", "context", "after"):
        if isinstance(told.get(name), dict):
            told[name] = retarget(told[name], source, dispensed=dispensed)
    surface = told.get("agent_surface")
    if isinstance(surface, dict):
        head: dict[str, Any] = {"db_path_source": source}
        if dispensed:
            head["db_path_dispensation"] = "use-active"
        told["agent_surface"] = ordered(surface, head)
    return told


def ordered(surface: dict[str, Any], head: dict[str, Any]) -> dict[str, Any]:
    """The surface with `head` where its target members stand in the seed's order."""
    told: dict[str, Any] = {}
    for name, value in surface.items():
        if name == "db_path_source":
            told |= head
        elif name != "db_path_dispensation":
            told[name] = value
    return told
