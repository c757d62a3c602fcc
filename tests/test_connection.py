"""One peer on a real socket: what is answered, refused, told and closed (protocol §2)."""

from pathlib import Path

from tests.ring import running
from tests.service import board, status


async def test_the_main_job(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, gateway.peer() as publisher, gateway.peer() as watcher:
        base = await publisher.result("publish", session="s", snapshot=board(), base=None)
        view = await watcher.result("subscribe", session="s")
        await publisher.result("patch", session="s", change=status("F-1", "Boarding"), base="any")
        after = await watcher.until("after")
        assert (after["view"], after["base"], after["revision"]) == (view["view"], base["revision"], 2)
        assert after["records"] == [{"id": "F-1", "fields": {"status": "Boarding"}}]
