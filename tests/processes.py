"""The command as processes: gateways started, told apart from one another and ended as a user would."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

ROOT = Path(__file__).parent.parent
LINE_BYTES = 1_048_576
START_S = 30.0  # of a gateway on two busy cores
STOP_S = 30.0


def command(*arguments: str) -> list[str]:
    """`context-gateway …` by the interpreter that runs the tests."""
    return [sys.executable, "-m", "gateway", *arguments]


def environment(home: Path, **more: str) -> Mapping[str, str]:
    """Of a user whose configuration and state stand below `home`, and nowhere else."""
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    return os.environ | own | {"PYTHONPATH": str(ROOT)} | more


class Lines:
    """Lines of a stream as they come."""

    def __init__(self, stream: ByteReceiveStream) -> None:
        self._stream = BufferedByteReceiveStream(stream)

    async def text(self) -> str:
        return (await self._stream.receive_until(b"\n", LINE_BYTES)).decode()

    async def json(self) -> Any:
        return msgspec.json.decode(await self.text())


@asynccontextmanager
async def running(
    home: Path, *arguments: str, end_with: signal.Signals = signal.SIGTERM
) -> AsyncIterator[tuple[str, Process]]:
    """`serve` or `demo` once it has said its address: its url and process. At the end SIGTERM, which must end it cleanly."""
    process = await anyio.open_process(command(*arguments), env=environment(home), cwd=home, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout
        with anyio.fail_after(START_S):
            told = await Lines(process.stdout).json()
        yield told["url"], process
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.send_signal(end_with)
            with anyio.move_on_after(STOP_S) as waited:
                await process.wait()
            if waited.cancelled_caught:
                process.kill()
            await process.aclose()
    expected = 0 if end_with == signal.SIGTERM else -end_with
    assert process.returncode == expected, "SIGTERM ends a gateway cleanly"
