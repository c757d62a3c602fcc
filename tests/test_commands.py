"""Commands against a real gateway, as processes: what they answer, what they leave behind, how they end."""

import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from gateway.core.limits import Limits
from gateway.settings import socket_url
from tests.engines import redis_server
from tests.processes import Lines, command, environment, running

WAIT_S = 60.0  # of a whole test on two busy cores
SNAPSHOT = {
    "page": {"title": "Orders", "route": "/orders"},
    "regions": [{"id": "open", "title": "Open orders", "fields": ["status"]}],
    "records": [{"id": str(n), "region": "open", "fields": {"status": "new"}} for n in range(3)],
}


class Shell:
    """A user's shell: commands with a gateway named by `--url`."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url

    async def run(self, *arguments: str, stdin: Any = None, named: bool = True) -> tuple[int, Any]:
        """Exit status and the JSON of stdout."""
        done = await anyio.run_process(
            command(*arguments, *(["--url", self.url] if named else [])),
            input=msgspec.json.encode(stdin),
            env=environment(self.home),
            cwd=self.home,
            check=False,
        )
        return done.returncode, msgspec.json.decode(done.stdout)

    @asynccontextmanager
    async def watching(self, *arguments: str) -> AsyncIterator[Lines]:
        """The lines of a `watch` that is interrupted at the end, which is 130."""
        process = await anyio.open_process(
            command("watch", *arguments, "--url", self.url),
            env=environment(self.home),
            stderr=subprocess.DEVNULL,
        )
        async with process:
            assert process.stdout
            yield Lines(process.stdout)
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130


@asynccontextmanager
async def shell(home: Path, *arguments: str) -> AsyncIterator[Shell]:
    """A shell beside a gateway of its own on the embedded engine."""
    with anyio.fail_after(WAIT_S):
        async with running(home, "serve", "--port", "0", *arguments) as (url, _):
            yield Shell(home, url)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def test_publish_describe_patch_changes_end(tmp_path: Path) -> None:
    async with shell(tmp_path) as sh:
        assert await sh.run("describe", "orders") == (4, await unknown(sh))
        status, published = await sh.run("publish", "orders", "-", stdin=SNAPSHOT)
        assert (status, published["revision"]) == (0, 1)
        position = f"{published['epoch']}:1"
        status, again = await sh.run("publish", "orders", "-", stdin=SNAPSHOT | {"state": {"a": 1}})
        assert (status, again["error"]["kind"], again["error"]["revision"]) == (2, "conflict", 1)

        status, described = await sh.run("describe", "orders", "--limit", "2")
        assert (status, described["revision"], described["context"]["recordWindow"]["next"]) == (0, 1, 2)
        change = {"records": {"upsert": [{"id": "1", "fields": {"status": "paid"}}]}}
        status, patched = await sh.run("patch", "orders", "-", "--base", position, stdin=change)
        assert (status, patched["revision"]) == (0, 2)
        since = f"{described['view']}:{position}"
        status, changed = await sh.run("changes", "orders", "--since", since, "--limit", "2")
        assert (status, changed["kind"]) == (0, "after")
        assert changed["after"]["records"] == [{"id": "1", "fields": {"status": "paid"}}]
        status, record = await sh.run("describe", "orders", "--record", "1")
        assert record["context"]["records"][0]["fields"] == {"status": "paid"}

        status, listed = await sh.run("sessions")
        assert (status, [each["session"] for each in listed["sessions"]], listed["total"]) == (0, ["orders"], 1)
        for answer in (published, described["context"], patched, changed, listed):
            assert answer["agent_surface"]["db_path_source"] == "argv"
        assert (await sh.run("end", "orders"))[0] == 0
        assert await sh.run("describe", "orders") == (4, await unknown(sh))


async def unknown(sh: Shell) -> Any:
    """The error of a session that is not there."""
    status, told = await sh.run("describe", "another")
    assert (status, told["error"]["kind"], told["error"]["code"]) == (4, "unknown_session", 2003)
    return told


async def test_a_target_that_is_not_named_is_changed_only_knowingly(tmp_path: Path) -> None:
    async with shell(tmp_path) as sh:
        config = anyio.Path(tmp_path / "config" / "context-gateway")
        await config.mkdir(parents=True)
        await (config / "config.toml").write_text(f'url = "{sh.url}"')
        status, refused = await sh.run("publish", "s", "-", stdin={}, named=False)
        assert (status, refused["error"]["kind"]) == (2, "target_inherited")
        assert (await sh.run("sessions"))[1]["total"] == 0, "nothing was sent"
        status, published = await sh.run("publish", "s", "-", "--use-active", stdin={}, named=False)
        surface = published["agent_surface"]
        assert (surface["db_path_source"], surface["db_path_dispensation"]) == ("xdg", "use-active")
        status, described = await sh.run("describe", "s", named=False)
        assert described["context"]["agent_surface"]["db_path_source"] == "xdg"
        assert "db_path_dispensation" not in described["context"]["agent_surface"]


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["describe", "s", "--limit", "0"], "invalid_params"),
        (["describe", "s", "--limit", "101"], "limit_exceeded"),
        (["describe", "s", "--offset", "-1"], "invalid_params"),
        (["describe", "s", "--record", "a", "--offset", "1"], "invalid_params"),
        (["describe", "s" * 201], "invalid_params"),
        (["describe", ""], "invalid_params"),
    ],
)
async def test_the_gateway_judges_and_the_command_tells(tmp_path: Path, arguments: list[str], kind: str) -> None:
    async with shell(tmp_path) as sh:
        status, told = await sh.run(*arguments)
        assert (status, told["error"]["kind"]) == (2, kind)
        assert "path" in told["error"] or kind == "limit_exceeded"


async def test_a_watch_goes_through_a_restart_of_the_gateway_and_its_store(tmp_path: Path) -> None:
    """The embedded engine begins a new epoch: `gap`, a describe of it, nothing twice."""
    port = str(free_port())
    with anyio.fail_after(WAIT_S):
        async with running(tmp_path, "serve", "--port", port) as (url, _):
            sh = Shell(tmp_path, url)
            published = (await sh.run("publish", "s", "-", stdin=SNAPSHOT))[1]
            watching = sh.watching("s", "--limit", "1")
            lines = await watching.__aenter__()
            first = await lines.json()
            await sh.run("patch", "s", "-", stdin={"state": {"set": {"n": 1}}})
            second = await lines.json()
        seen = [first, second]
        async with running(tmp_path, "serve", "--port", port):
            while seen[-1]["method"] != "described" or seen[-1] is first:
                seen.append(await lines.json())
            patched = (await sh.run("patch", "s", "-", stdin={"state": {"set": {"n": 2}}}))[1]
            seen.append(await lines.json())
            await watching.__aexit__(None, None, None)
    methods = [line["method"] for line in seen if line["method"] != "goodbye"]
    assert methods == ["described", "after", "invalidated", "described", "after"]
    gap, anew, last = seen[-3:]
    assert [reason["kind"] for reason in gap["params"]["reasons"]] == ["gap"]
    assert anew["params"]["epoch"] == patched["epoch"] != published["epoch"]
    assert anew["params"]["context"]["state"] == {"n": 1}
    assert (last["params"]["base"], last["params"]["revision"]) == (anew["params"]["revision"], patched["revision"])


@pytest.mark.parametrize("end_with", [signal.SIGTERM, signal.SIGKILL])
async def test_a_watch_resumes_over_a_restart_of_the_gateway_alone(tmp_path: Path, end_with: signal.Signals) -> None:
    """What another gateway took in between comes as one `after`: no gap, nothing twice."""
    store, port = tmp_path / "redis", str(free_port())
    store.mkdir()
    with anyio.fail_after(WAIT_S):
        async with (
            redis_server(store) as engine,
            running(tmp_path, "serve", "--port", "0", "--db", engine.url) as (other, _),
        ):
            serve = ("serve", "--port", port, "--db", engine.url)
            async with running(tmp_path, *serve, end_with=end_with) as (url, _):
                sh, elsewhere = Shell(tmp_path, url), Shell(tmp_path, other)
                await sh.run("publish", "s", "-", stdin=SNAPSHOT)
                watching = sh.watching("s", "--limit", "1")
                lines = await watching.__aenter__()
                seen = [await lines.json()]
                await sh.run("patch", "s", "-", stdin={"state": {"set": {"n": 1}}})
                seen.append(await lines.json())
            for n in (2, 3):
                await elsewhere.run("patch", "s", "-", stdin={"state": {"set": {"n": n}}})
            async with running(tmp_path, *serve):
                while seen[-1]["params"].get("revision") != 4:
                    seen.append(await lines.json())
                await watching.__aexit__(None, None, None)
    told = [(line["method"], line["params"]["revision"]) for line in seen if line["method"] != "goodbye"]
    assert told == [("described", 1), ("after", 2), ("after", 4)]
    assert (seen[-1]["params"]["base"], seen[-1]["params"]["state"]["set"]) == (2, {"n": 3})


async def test_demo_is_live_and_a_second_one_is_refused(tmp_path: Path) -> None:
    with anyio.fail_after(WAIT_S):
        async with running(tmp_path, "demo", "--port", "0", "--speed", "120") as (url, process):
            sh = Shell(tmp_path, url)
            async with sh.watching("departures", "--limit", "3") as lines:
                described = await lines.json()
                assert described["params"]["context"]["page"]["params"]["airport"] == "JFK"
                position = described["params"]["revision"]
                for _ in range(5):
                    line = await lines.json()
                    assert (line["method"], line["params"]["base"]) == ("after", position)
                    position = line["params"]["revision"]
            done = await anyio.run_process(
                command("serve", "--port", "0"), env=environment(tmp_path), check=False, cwd=tmp_path
            )
            error = msgspec.json.decode(done.stdout)["error"]
            assert (done.returncode, error["kind"], error["pid"], error["address"]) == (
                2,
                "store_owned",
                process.pid,
                url,
            )


async def test_the_ready_file_holds_the_address_and_limits_come_from_the_file(tmp_path: Path) -> None:
    ready, config = tmp_path / "ready", anyio.Path(tmp_path / "c.toml")
    await config.write_text("[limits]\nwindowRecords = 20\nwindowDefault = 2\n")
    async with shell(tmp_path, "--ready-file", str(ready), "--config", str(config)) as sh:
        assert await anyio.Path(ready).read_text() == f"{sh.url}\n"
        await sh.run("publish", "s", "-", stdin=SNAPSHOT)
        assert (await sh.run("describe", "s"))[1]["context"]["recordWindow"]["limit"] == 2
        status, told = await sh.run("describe", "s", "--limit", "21")
        assert (status, told["error"]["maximum"]) == (2, 20)
        assert Limits().window_records != 20


async def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = await anyio.run_process(
            command("serve", "--port", str(taken.getsockname()[1])), env=environment(tmp_path), check=False
        )
    assert (done.returncode, msgspec.json.decode(done.stdout)["error"]["kind"]) == (2, "address_in_use")


async def test_an_interrupt_of_serve_is_130_and_ends_the_engine(tmp_path: Path) -> None:
    process = await anyio.open_process(
        command("serve", "--port", "0", "--db", f"embedded:{tmp_path}/store"),
        env=environment(tmp_path),
        stderr=subprocess.DEVNULL,
    )
    async with process:
        assert process.stdout
        with anyio.fail_after(WAIT_S):
            assert (await Lines(process.stdout).json())["pid"] == process.pid
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130
    assert not await anyio.Path(tmp_path / "store" / "engine.sock").exists()


async def test_the_printed_address_is_that_of_the_web_socket(tmp_path: Path) -> None:
    async with shell(tmp_path, "--host", "::1") as sh:
        assert sh.url.startswith("ws://[::1]:")
        assert socket_url(sh.url).endswith("/v1/ws")
        assert (await sh.run("sessions"))[0] == 0


async def test_a_ready_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    done = await anyio.run_process(
        command("serve", "--port", "0", "--ready-file", str(tmp_path / "missing" / "ready")),
        env=environment(tmp_path),
        check=False,
    )
    error = msgspec.json.decode(done.stdout)["error"]
    assert (done.returncode, error["kind"], error["setting"]) == (2, "bad_setting", "ready_file")


async def test_a_board_that_is_refused_for_good_ends_the_demo(tmp_path: Path) -> None:
    await anyio.Path(tmp_path / "c.toml").write_text("[limits]\nrecords = 10\n")
    with anyio.fail_after(WAIT_S):
        done = await anyio.run_process(
            command("demo", "--port", "0", "--config", str(tmp_path / "c.toml")), env=environment(tmp_path), check=False
        )
    _, told = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert (done.returncode, told["error"]["kind"], told["error"]["limit"]) == (2, "limit_exceeded", "records")
    assert b"Traceback" not in done.stderr


async def test_sigterm_while_the_engine_starts_ends_it_too(tmp_path: Path) -> None:
    """An engine that never answers: a script in its place that says it runs, and waits."""
    runs, engine = tmp_path / "runs", anyio.Path(tmp_path / "bin" / "valkey-server")
    os.mkfifo(runs)
    await engine.parent.mkdir()
    await engine.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec echo "Server v=8.0.0"\necho yes > {runs}\nexec sleep 600\n'
    )
    await engine.chmod(0o755)
    path = f"{engine.parent}:{os.environ['PATH']}"
    process = await anyio.open_process(
        command("serve", "--port", "0"), env=environment(tmp_path, PATH=path), stderr=subprocess.DEVNULL
    )
    with anyio.fail_after(WAIT_S):
        async with process:
            assert await anyio.Path(runs).read_text() == "yes\n"
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


async def test_without_a_redis_the_gateway_listens_and_says_so(tmp_path: Path) -> None:
    async with shell(tmp_path, "--db", f"redis://127.0.0.1:{free_port()}/0") as sh:
        status, told = await sh.run("describe", "s")
        assert (status, told["error"]["kind"], told["error"]["retryable"]) == (3, "store_unavailable", True)
