"""`serve` and `demo`: the gateway as a process."""

import errno
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click
import structlog

from gateway.cli.answers import DONE, INTERRUPTED, REFUSED, CommandError, answer, tell, wants_json
from gateway.demo.board import AIRPORTS, Airport
from gateway.demo.publisher import publish_departures
from gateway.demo.replay import SPEED_DEFAULT, SPEED_MAX, SPEED_MIN
from gateway.demo.steer import HELP, keyboard
from gateway.running import running_gateway
from gateway.settings import Settings, SettingsError, load_settings
from gateway.store.embedded import EngineError, EngineOwned

F = TypeVar("F", bound=Callable[..., Any])
Beside = Callable[[str], Coroutine[Any, Any, None]]
"""What runs beside a gateway until it is cancelled: given its address, ended before it."""


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
def serve(origins: tuple[str, ...], **arguments: Any) -> int:
    """Run the gateway until SIGTERM or an interrupt."""
    settings = load_settings(arguments | {"origins": origins or None}, environ=os.environ)

    def listening(url: str) -> None:
        announce(f"The gateway listens at {url}", url)

    async def alone(url: str) -> None:
        await anyio.sleep_forever()

    return run(settings, listening, alone)


@click.command()
@process_options
@click.option("--speed", type=float, default=SPEED_DEFAULT, show_default=True, help="Seconds of the day per second.")
@click.option(
    "--airport",
    type=click.Choice(AIRPORTS, case_sensitive=False),
    default=AIRPORTS[0],
    show_default=True,
    help="Where the day begins; the script of the day goes on to the others.",
)
def demo(speed: float, airport: Airport, **arguments: Any) -> int:
    """Run the gateway with the departures board: a real day of three airports, replayed.

    On a terminal, keys steer it: what they do is told at the start.
    """
    if not SPEED_MIN <= speed <= SPEED_MAX:
        raise CommandError(REFUSED, "usage", f"--speed must be between {SPEED_MIN:g} and {SPEED_MAX:g}.")
    settings = load_settings(arguments, environ=os.environ)

    def listening(url: str) -> None:
        announce(f"The departures board is live at {url}", url)
        where = "" if url == settings.url else f" --url {url}"
        tell(f"Watch it from another shell: {program()} watch departures{where}")

    async def board(url: str) -> None:
        with keyboard(sys.stdin) as keys:
            if keys is not None:
                tell(HELP)
            await publish_departures(url, speed=speed, airport=airport, keys=keys, told=standing_still)

    return run(settings, listening, board)


def announce(sentence: str, url: str) -> None:
    """One line with the address: for people on a terminal, JSON when piped."""
    if wants_json([]):
        answer({"url": url, "pid": os.getpid()}, compact=True)
    else:
        click.echo(sentence)


def program() -> str:
    """This command as the user called it."""
    name = click.get_current_context().find_root().command_path
    called = Path(sys.argv[0])
    return str(called) if called.name == name else name


def standing_still(error: Exception, wait_s: float) -> None:
    """Says on stderr why the board stands still."""
    tell(f"The board's publisher lost its gateway ({error}); next try in {wait_s:.1f} s.")


def run(settings: Settings, listening: Callable[[str], None], beside: Beside) -> int:
    """A gateway until a signal; the exit status: 0 after SIGTERM, 130 after an interrupt.

    Raises:
        CommandError: it cannot start: the address or the store cannot be had.
    """
    log_to_stderr()
    fast = find_spec("uvloop") is not None
    process = Process(settings, listening, beside)
    try:
        return anyio.run(process.run, backend_options={"use_uvloop": fast})
    except BaseExceptionGroup as group:
        error = first_of(group)
    except (OSError, EngineError, ValueError) as single:
        error = single
    if not process.listens and isinstance(error, OSError | EngineError | ValueError):
        raise refusal(error)
    raise error


class Process:
    """A gateway until the first signal, and beside it what talks to it. `listens`: it has started."""

    def __init__(self, settings: Settings, listening: Callable[[str], None], beside: Beside) -> None:
        self.listens = False
        self._settings = settings
        self._listening = listening
        self._beside = beside
        self._received: signal.Signals | None = None
        self._ends: anyio.CancelScope | None = None

    async def run(self) -> int:
        """Its exit status. Both end cleanly with the first signal, however far the start is; later ones are waited out.

        Once the gateway listens a signal ends what runs beside it, never the gateway's own tasks: leaving it drains, and
        until its turn to go every peer is answered as ever (protocol §2).
        """
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as tasks:
                self._ends = tasks.cancel_scope
                tasks.start_soon(self._until_signal, signals)
                async with running_gateway(self._settings) as url:
                    with anyio.CancelScope() as self._ends:
                        self.listens = True
                        self._tell_ready(url)
                        await self._beside(url)
                tasks.cancel_scope.cancel()
        return INTERRUPTED if self._received == signal.SIGINT else DONE

    async def _until_signal(self, signals: AsyncIterator[signal.Signals]) -> None:
        self._received = await anext(signals)
        assert self._ends is not None, "set before this task was started"
        self._ends.cancel()

    def _tell_ready(self, url: str) -> None:
        file = self._settings.ready_file
        if file:
            try:
                write_whole(file, f"{url}\n")
            except OSError as error:
                raise SettingsError("ready_file", f"It cannot be written ({error.strerror}).") from None
        self._listening(url)


def write_whole(path: Path, text: str) -> None:
    """Write a file that whoever waits for it never sees half written."""
    half = path.with_name(f"{path.name}.{os.getpid()}")
    half.write_text(text)
    half.replace(path)


def log_to_stderr() -> None:
    """Logs are JSON lines on stderr: ids, kinds, sizes and times, never content."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )


def first_of(error: BaseException) -> BaseException:
    """What a task group wrapped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def refusal(error: BaseException) -> CommandError:
    """Why a gateway cannot start, as a command tells it."""
    if isinstance(error, EngineOwned):
        return CommandError(REFUSED, "store_owned", str(error), pid=error.pid, address=error.address)
    if isinstance(error, EngineError):
        return CommandError(REFUSED, "store_refused", str(error))
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return CommandError(
            REFUSED,
            "address_in_use",
            "Another process listens at this address.",
            suggestion="Name another with --port; 0 takes a free one.",
        )
    if isinstance(error, OSError):
        return CommandError(
            REFUSED, "address_refused", f"The gateway cannot listen there ({os.strerror(error.errno or 0)})."
        )
    return CommandError(REFUSED, "bad_setting", str(error))
