"""The command `context-gateway`; nothing imports it."""

import contextlib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from gateway import __version__
from gateway.cli.answers import (
    BUG,
    DONE,
    INTERRUPTED,
    REFUSED,
    CommandError,
    answer,
    command_error,
    tell,
    wants_json,
)
from gateway.cli.commands import COMMANDS
from gateway.cli.reshape import reshape
from gateway.cli.serving import demo, serve


class Commands(click.Group):
    """The group, with our exit statuses and our form of errors in place of click's."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> NoReturn:
        """Run a command and exit: 0 done, 1 our bug, 2 refused, 3 out of reach, 4 not found, 5 not authorised, 130."""
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            status = super().main(arguments, *rest, **(options | {"standalone_mode": False}))
        except (click.Abort, KeyboardInterrupt):
            status = INTERRUPTED
        except Exception as error:
            status = fail(error, as_json=wants_json(arguments))
        sys.exit(status if isinstance(status, int) else DONE)


def fail(error: Exception, *, as_json: bool) -> int:
    """Tell a failure; its exit status."""
    told = command_error(error)
    if told.status == BUG and not isinstance(error, CommandError):
        traceback.print_exception(error)
    if as_json:
        with contextlib.suppress(click.exceptions.Exit):  # nobody reads: the status still tells
            answer({"error": told.error}, compact=True)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        tell(error.format_message())
    suggestion = told.error.get("suggestion")
    tell(f"context-gateway: {told}" + (f"\n{suggestion}" if suggestion else ""))
    return told.status


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="context-gateway")
def main() -> None:
    """Live, bounded business context: publish it, describe it, watch it change."""


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; say which files do not agree with the code.")
@click.option("--json", "as_json", is_flag=True, help="One compact line, as when piped.")
def schemas(check: bool, as_json: bool) -> None:
    """Write the JSON Schemas of the wire to schemas/, or check that they agree with the code."""
    from gateway import schemas as wire

    directory = Path("schemas")
    if check:
        wrong = wire.check(directory)
        if wrong:
            raise CommandError(
                REFUSED,
                "schemas_differ",
                "Files in schemas/ do not agree with the code.",
                suggestion="context-gateway schemas writes them anew.",
                files=wrong,
            )
        result = {"directory": "schemas", "agree": len(wire.texts())}
    else:
        result = {"directory": "schemas", "written": len(wire.write(directory))}
    answer(result, compact=as_json or wants_json([]))


for command in (serve, demo, *COMMANDS, reshape, schemas):
    main.add_command(command)
