"""Run as a process of its own: owns an embedded engine, keeps one session in it, and waits to be killed."""

import sys
from pathlib import Path

import anyio

from gateway.core.limits import Limits
from gateway.store.embedded import embedded_engine
from gateway.store.opening import open_store
from tests.store.support import commit, records


async def own(directory: Path, binary: str) -> None:
    async with embedded_engine(directory, "ws://127.0.0.1:1", binary=binary) as engine:
        store = open_store(engine.url, Limits())
        await store.commit("s", commit(**records(3)))
        sys.stdout.write("owned\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(own, Path(sys.argv[1]), sys.argv[2])
