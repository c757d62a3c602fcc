"""`serve` and `demo`: the gateway as a process."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gateway.cli.answers import REFUSED, CommandError
from gateway.demo.replay import SPEED_DEFAULT, SPEED_MAX, SPEED_MIN
from gateway.settings import Settings, load_settings

F = TypeVar("F", bound=Callable[..., Any])


def process_options(command: F) -> F:
    """What `serve` and `demo` share; defaults stand in `Settings`, so that "not given" is None."""
    for option in (
        click.option("--ready-file", metavar="FILE", help="Written with the address once the gateway listens."),
        click.option("--config", metavar="FILE", help="Settings, in place of the file in the XDG directory."),
        click.option("--db", metavar="URL", help="redis:// rediss:// unix:// or embedded:[/DIRECTORY] (the default)."),
        click.option("--port", type=int, help="8787 by default; 0 takes a free one."),
        click.option("--host", help="127.0.0.1 by default."),
    ):
        command = option(command)
    return command


@click.command()
@process_options
@click.option("--workers", type=int, help="1; more are not served yet.")
@click.option("--auth", help="none; jwt is not served yet.")
@click.option("--jwt-key", metavar="FILE", help="Not served yet.")
@click.option("--jwks", metavar="URL|FILE", help="Not served yet.")
@click.option("--origin", "origins", multiple=True, help="An Origin that browsers may send; repeatable.")
def serve(origins: tuple[str, ...], **arguments: Any) -> None:
    """Run the gateway until SIGTERM or an interrupt."""
    settings = load_settings(arguments | {"origins": origins or None}, environ=os.environ)
    raise NotImplementedError(settings)


@click.command()
@process_options
@click.option("--speed", type=float, default=SPEED_DEFAULT, show_default=True, help="Seconds of the day per second.")
def demo(speed: float, **arguments: Any) -> None:
    """Run the gateway with the departures board: a real day of three airports, replayed."""
    if not SPEED_MIN <= speed <= SPEED_MAX:
        raise CommandError(REFUSED, "usage", f"--speed must be between {SPEED_MIN:g} and {SPEED_MAX:g}.")
    settings: Settings = load_settings(arguments, environ=os.environ)
    raise NotImplementedError(settings)
