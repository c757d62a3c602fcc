"""Commands that talk to a gateway: describe, changes, watch, sessions; publish, patch, end."""

import json
import os
import re
import sys
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import click
import msgspec

from gateway.cli.answers import NOT_FOUND, REFUSED, CommandError, answer, retarget, tell, wants_json
from gateway.client import Client, connect, watch
from gateway.core.errors import GatewayError, exceeded
from gateway.settings import Settings, load_settings

FILE_BYTES: Final = 67_108_864  # of a snapshot or change read at all; the gateway's `publishBytes` is judged behind it
SESSIONS_MAX: Final = 100_000  # listed by one command; `next` says that there are more
PAGE: Final = 100  # `limits.sessionsPage` by default; a gateway with less says so

F = TypeVar("F", bound=Callable[..., Any])


def session_id(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """An argument that is UTF-8 text, in a locale without it too (its bytes come in as lone surrogates there)."""
    try:
        return os.fsencode(value).decode() if re.search("[\ud800-\udfff]", value) else value
    except UnicodeError:
        raise click.BadParameter("It is no UTF-8 text.") from None


def view_options(command: F) -> F:
    """`--offset --limit --record`: the window of a view."""
    command = click.option("--record", "records", multiple=True, callback=ids, help="These records; repeatable.")(
        command
    )
    command = click.option("--limit", type=int, help="How many records the window holds.")(command)
    return click.option("--offset", type=int, help="Where the window begins.")(command)


def ids(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Several `session_id`s."""
    return tuple(session_id(context, parameter, each) for each in value)


def target_options(command: F) -> F:
    """`--url` and `--json`, on every command that talks to a gateway."""
    command = click.option("--json", "as_json", is_flag=True, help="One compact line, as when piped.")(command)
    return click.option("--url", metavar="URL", help="The gateway; else url of the file, else ws://127.0.0.1:8787.")(
        command
    )


def change_options(command: F) -> F:
    """Of what changes something: the target must be named, or taken as it is knowingly."""
    return click.option("--use-active", is_flag=True, help="Change through a gateway that --url does not name.")(
        command
    )


def view_params(offset: int | None, limit: int | None, records: tuple[str, ...]) -> dict[str, Any]:
    """The members of *view* (protocol §4) that were given."""
    given = {"offset": offset, "limit": limit, "record": records[0] if len(records) == 1 else list(records) or None}
    return {name: value for name, value in given.items() if value is not None}


def run(task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a command's coroutine."""
    anyio.run(task)


def target(url: str | None) -> Settings:
    """The settings of a command that reads."""
    return load_settings({"url": url}, environ=os.environ)


def target_to_change(url: str | None, use_active: bool) -> tuple[Settings, bool]:
    """The settings of a command that changes something, and whether `--use-active` was needed.

    Raises:
        CommandError: `target_not_designated` or `target_inherited` (surface/mapping.md §5), nothing was sent.
    """
    settings = target(url)
    if settings.url_source == "argv":
        return settings, False
    if use_active:
        return settings, True
    kind, message = {
        "default": ("target_not_designated", "No gateway was named; a change is not sent to the default one unasked."),
        "xdg": (
            "target_inherited",
            "The gateway comes from the configuration file; a change is not sent there unasked.",
        ),
    }[settings.url_source]
    raise CommandError(
        REFUSED,
        kind,
        message,
        code=2020,
        suggestion="Name the gateway with --url, or pass --use-active.",
        agent_surface={"db_path_source": settings.url_source},
    )


def compact(as_json: bool) -> bool:
    """Whether results are single lines."""
    return as_json or wants_json([])


def read_json(file: str) -> tuple[bytes, Any]:
    """The JSON in a file, or of stdin with `-`: its text and its value.

    Raises:
        CommandError: it cannot be read, is too large or no JSON.
    """
    try:
        if file == "-":
            text = sys.stdin.buffer.read(FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                text = stream.read(FILE_BYTES + 1)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise CommandError(
            NOT_FOUND if missing else REFUSED, "file_unreadable", f"The file cannot be read ({error.strerror})."
        ) from None
    if len(text) > FILE_BYTES:
        raise CommandError(
            REFUSED, "limit_exceeded", f"The file is larger than {FILE_BYTES} bytes.", maximum=FILE_BYTES
        )
    try:
        value = msgspec.json.decode(text)
        text.decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise CommandError(REFUSED, "parse_error", "The file is not JSON in UTF-8.", code=-32700) from None
    return text, value


def read_object(file: str) -> msgspec.Raw:
    """The JSON object in a file, or of stdin with `-`, as its text.

    Raises:
        CommandError: as `read_json`, or it is no object.
    """
    text, value = read_json(file)
    if not isinstance(value, dict):
        raise CommandError(
            REFUSED, "invalid_params", "The file holds no JSON object.", code=-32602, expected="an object"
        )
    return msgspec.Raw(text)


def position(text: str, name: str, form: str) -> dict[str, Any]:
    """`EPOCH:N` as a position; `form`: what the whole option may be."""
    epoch, _, revision = text.rpartition(":")
    if not epoch or not revision.isascii() or not revision.isdigit():
        raise click.BadParameter(f"It must be {form}.", param_hint=name)
    return {"epoch": epoch, "revision": int(revision)}


def base_of(text: str | None, words: dict[str, Any]) -> Any:
    """`--base` on the wire: one of the words, or a position."""
    if text is None or text in words:
        return words.get(text or "none")
    return position(text, "--base", ", ".join(["EPOCH:N", *words]))


@click.command()
@click.argument("session", callback=session_id)
@view_options
@target_options
def describe(
    session: str, offset: int | None, limit: int | None, records: tuple[str, ...], url: str | None, as_json: bool
) -> None:
    """One describe response of SESSION: what can be done and what is there, of one position."""
    settings = target(url)
    params = {"session": session} | view_params(offset, limit, records)
    ask(settings, "describe", params, as_json)


def ask(settings: Settings, method: str, params: dict[str, Any], as_json: bool, *, dispensed: bool = False) -> None:
    """One request, its result on stdout."""

    async def task() -> None:
        async with connect(settings.url) as client:
            check_size(client, params)
            result = await client.request(method, params)
        tell_dropped(result)
        answer(retarget(result, settings.url_source, dispensed=dispensed), compact=compact(as_json))

    run(task)


def tell_dropped(result: dict[str, Any]) -> None:
    """A name no region declares may be a misspelt one: said to people too."""
    if "dropped" in result:
        names = ", ".join(json.dumps(f"{entry.get('region', '')}.{entry['name']}") for entry in result["dropped"][:8])
        more = result["droppedTotal"] - 8
        tell(f"Dropped, for no region declares it: {names}{f' and {more} more' if more > 0 else ''}.")


def check_size(client: Client, params: dict[str, Any]) -> None:
    """Refuse here what the gateway would close the connection for (1009)."""
    maximum = client.server.get("limits", {}).get("publishBytes")
    given = len(msgspec.json.encode(params)) + 256  # what is around them in the message
    if maximum is not None and given > maximum:
        raise exceeded("publishBytes", maximum, given)


@click.command()
@click.argument("session", callback=session_id)
@click.option(
    "--since", required=True, metavar="VIEW:EPOCH:N", help="A view and its position, as a describe told them."
)
@view_options
@target_options
def changes(
    session: str,
    since: str,
    offset: int | None,
    limit: int | None,
    records: tuple[str, ...],
    url: str | None,
    as_json: bool,
) -> None:
    """What came in SESSION since a position, for those who ask now and then."""
    view, _, rest = since.partition(":")
    if not view:
        raise click.BadParameter("It must be VIEW:EPOCH:N.", param_hint="--since")
    settings = target(url)
    params = {"session": session} | view_params(offset, limit, records)
    params["since"] = {"view": view} | position(rest, "--since", "VIEW:EPOCH:N")
    ask(settings, "changes", params, as_json)


@click.command(name="watch")
@click.argument("session", callback=session_id)
@view_options
@click.option("--push", is_flag=True, help="Let the gateway send a new describe right behind an invalidated.")
@target_options
def watch_command(
    session: str,
    offset: int | None,
    limit: int | None,
    records: tuple[str, ...],
    push: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Follow SESSION: a describe, then each change, one JSON object a line, until interrupted.

    A line is {"method": "described" | "after" | "invalidated" | "ended" | "goodbye", "params": {…}} as protocol §9 has
    them. It resumes by itself where it stands when the connection breaks.
    """
    settings = target(url)
    view = view_params(offset, limit, records) | ({"deliver": "push"} if push else {})

    async def task() -> None:
        async with aclosing(watch(settings.url, session, view, told=waiting)) as notes:
            async for note in notes:
                params = retarget(note.params, settings.url_source)
                answer({"method": note.method, "params": params}, compact=True)

    run(task)


def waiting(error: Exception, wait_s: float) -> None:
    """Says on stderr why a watch stands still."""
    sentence = error.message if isinstance(error, GatewayError) else str(error)
    tell(f"{sentence} Next try in {wait_s:.1f} s.")


@click.command()
@click.option("--prefix", default="", help="Only ids that begin with this.")
@target_options
def sessions(prefix: str, url: str | None, as_json: bool) -> None:
    """The sessions there are, ascending by id."""
    settings = target(url)

    async def task() -> None:
        async with connect(settings.url) as client:
            page = min(client.server.get("limits", {}).get("sessionsPage", PAGE), PAGE)
            listed: list[Any] = []
            params: dict[str, Any] = {"prefix": prefix, "limit": page}
            while True:
                result = await client.request("sessions", params)
                listed += result["sessions"]
                if "next" not in result or len(listed) >= SESSIONS_MAX:
                    break
                params["cursor"] = result["next"]
        result["sessions"] = listed
        answer(retarget(result, settings.url_source), compact=compact(as_json))

    run(task)


@click.command()
@click.argument("session", callback=session_id)
@click.argument("file")
@click.option(
    "--base", metavar="EPOCH:N|none|any", help="What is replaced; none (there must be no session) by default."
)
@change_options
@target_options
def publish(session: str, file: str, base: str | None, use_active: bool, url: str | None, as_json: bool) -> None:
    """Publish the snapshot in FILE (- for stdin) as SESSION."""
    settings, dispensed = target_to_change(url, use_active)
    params = {"session": session, "snapshot": None, "base": base_of(base, {"none": None, "any": "any"})}
    params["snapshot"] = read_object(file)
    ask(settings, "publish", params, as_json, dispensed=dispensed)


@click.command()
@click.argument("session", callback=session_id)
@click.argument("file")
@click.option("--base", metavar="EPOCH:N|any", help="What it changes; the position read just before by default.")
@change_options
@target_options
def patch(session: str, file: str, base: str | None, use_active: bool, url: str | None, as_json: bool) -> None:
    """Apply the change in FILE (- for stdin) to SESSION: all of it, or none."""
    settings, dispensed = target_to_change(url, use_active)
    on = base_of(base, {"any": "any"})
    change = read_object(file)

    async def task() -> None:
        async with connect(settings.url) as client:
            read = on if on is not None else await current(client, session)
            params = {"session": session, "change": change, "base": read}
            check_size(client, params)
            result = await client.request("patch", params)
        tell_dropped(result)
        answer(retarget(result, settings.url_source, dispensed=dispensed), compact=compact(as_json))

    run(task)


async def current(client: Client, session: str) -> dict[str, Any]:
    """The session's position now; told on stderr, since nobody named it."""
    told = await client.request("describe", {"session": session, "limit": 1})
    tell(f"The change is made on {told['epoch']}:{told['revision']}, read just now.")
    return {"epoch": told["epoch"], "revision": told["revision"]}


@click.command()
@click.argument("session", callback=session_id)
@change_options
@target_options
def end(session: str, use_active: bool, url: str | None, as_json: bool) -> None:
    """End SESSION: its watchers are told, its data is deleted."""
    settings, dispensed = target_to_change(url, use_active)
    ask(settings, "end", {"session": session}, as_json, dispensed=dispensed)


COMMANDS: Final = (describe, changes, watch_command, sessions, publish, patch, end)
