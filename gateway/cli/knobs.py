"""The knobs of the reshaping layer as options of a command (protocol §7)."""

import functools
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from gateway.cli.answers import REFUSED, CommandError
from gateway.cli.commands import ids, session_id
from gateway.core.surface import Refusal

REFUSAL: Final = 2020
"""The code of the layer's refusals (protocol §3)."""
INTEGER: Final = re.compile(r"-?[0-9]{1,18}")

F = TypeVar("F", bound=Callable[..., Any])


def keys(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Comma-separated keys, not trimmed; several occurrences add up."""
    return [key for part in ids(context, parameter, value) for key in part.split(",")]


def texts(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Texts in whatever locale, as JSON has them."""
    return list(ids(context, parameter, value))


def text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A text in whatever locale."""
    return None if value is None else session_id(context, parameter, value)


def number(context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    """An integer; what is none stays a text, for the layer to refuse by name."""
    told = text(context, parameter, value)
    return int(told) if told is not None and INTEGER.fullmatch(told) else told


OPTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "select": click.option(
        "--select", "--fields", "select", multiple=True, metavar="A,B", callback=keys, help="Only these keys."
    ),
    "filter": click.option(
        "--filter", "filter", multiple=True, metavar="EXPR", callback=texts, help="KEY=V, KEY!=V or KEY~V; repeatable."
    ),
    "sort": click.option("--sort", metavar="KEY", callback=text, help="Ascending by this key."),
    "dedupe_by": click.option("--dedupe-by", metavar="KEY", callback=text, help="The first of each value."),
    "max_items": click.option("--max-items", metavar="N", callback=number, help="At most so many of every array."),
    "count_only": click.option("--count-only", is_flag=True, help="The number in place of the answer."),
    "truncate_content": click.option(
        "--truncate-content", metavar="N", callback=number, help="Texts cut to so many characters."
    ),
    "max_output_bytes": click.option(
        "--max-output-bytes", metavar="N", callback=number, help="Elements leave until the answer fits."
    ),
    "filter_scope": click.option(
        "--filter-scope", metavar="page|universe", callback=text, help="page: a part of the whole will do."
    ),
}
"""Knob → option; the option's parameter has the knob's name."""


def knob_options(command: F) -> F:
    """The knobs as options; the command gets those that were given as its argument `surface`."""

    @functools.wraps(command)
    def gathered(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in OPTIONS}
        surface = {name: value for name, value in given.items() if value not in (None, (), []) and value is not False}
        return command(*arguments, surface=surface, **options)

    for option in reversed(OPTIONS.values()):
        gathered = option(gathered)
    return gathered  # type: ignore[return-value]  # click calls it by name


def refused(refusal: Refusal) -> CommandError:
    """A refusal of the layer as a command tells it (cli.md): exit status 2."""
    return CommandError(REFUSED, refusal.reason, refusal.message, code=REFUSAL, **refusal.data())
