"""The embedded engine: one owner, no TCP, data found again whoever was killed."""

import os
import signal
import stat
import sys
from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from gateway.core.limits import Limits
from gateway.store import Stored
from gateway.store.embedded import (
    INSTALL,
    EngineError,
    EngineOwned,
    EngineProcess,
    ask,
    embedded_engine,
    find_engine,
    socket_path,
    state_directory,
)
from gateway.store.opening import embedded_directory, open_store, resolved, serving_store
from tests.engines import Flavour, binary_of
from tests.store.support import WAIT_S, commit, records

ROOT = Path(__file__).parents[2]


async def test_data_is_found_again_and_nothing_listens_on_a_port(tmp_path: Path, flavour: Flavour) -> None:
    directory = tmp_path / "state" / "gateway"
    for start in (0, 1):
        async with embedded_engine(directory, binary=binary_of(flavour)) as engine:
            store = open_store(engine.url, Limits())
            if start == 0:
                await store.commit("s", commit(**records(3)))
            stored = await store.read("s")
            assert isinstance(stored, Stored) and len(stored.records) == 3 and stored.position.revision == 1
            await store.close()
            async with Redis.from_url(engine.url) as admin:
                assert (await admin.info("server"))["tcp_port"] == 0
                assert (await admin.config_get("appendonly", "appendfsync")) == {
                    "appendonly": "yes",
                    "appendfsync": "everysec",
                }
        assert await ask(socket_path(directory), b"PING") is None
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


async def test_a_second_starter_is_told_the_owner(tmp_path: Path, flavour: Flavour) -> None:
    binary = binary_of(flavour)
    async with embedded_engine(tmp_path, "ws://127.0.0.1:12345/a-long-address", binary=binary) as engine:
        for address in ("ws://127.0.0.1:12345/a-long-address", "ws://h", ""):
            engine.set_address(address)
            with pytest.raises(EngineOwned) as caught:
                async with embedded_engine(tmp_path, "ws://second", binary=binary):
                    pass
            assert (caught.value.pid, caught.value.address) == (os.getpid(), address)
            assert str(os.getpid()) in str(caught.value) and address in str(caught.value)
        assert await ask(socket_path(tmp_path), b"PING") == b"PONG"  # the first one's engine was left alone
    async with embedded_engine(tmp_path, binary=binary):
        pass


async def test_an_owner_that_is_killed_leaves_its_data_and_no_engine(tmp_path: Path, flavour: Flavour) -> None:
    binary = binary_of(flavour)
    owner = await anyio.open_process(
        [sys.executable, "-m", "tests.store.owner", str(tmp_path), binary], cwd=ROOT, stderr=None
    )
    async with owner:
        assert owner.stdout is not None
        with anyio.fail_after(WAIT_S):
            assert await owner.stdout.receive() == b"owned\n"
        with pytest.raises(EngineOwned) as caught:
            async with embedded_engine(tmp_path, binary=binary):
                pass
        assert (caught.value.pid, caught.value.address) == (owner.pid, "ws://127.0.0.1:1")
        owner.send_signal(signal.SIGKILL)
        await owner.wait()
    async with embedded_engine(tmp_path, binary=binary) as engine:
        store = open_store(engine.url, Limits())
        stored = await store.read("s")
        assert isinstance(stored, Stored) and len(stored.records) == 3
        await store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
async def test_the_kernel_ends_the_engine_of_a_killed_owner(tmp_path: Path, flavour: Flavour) -> None:
    owner = await anyio.open_process(
        [sys.executable, "-m", "tests.store.owner", str(tmp_path), binary_of(flavour)], cwd=ROOT, stderr=None
    )
    async with owner:
        assert owner.stdout is not None
        with anyio.fail_after(WAIT_S):
            assert await owner.stdout.receive() == b"owned\n"
            owner.send_signal(signal.SIGKILL)
            await owner.wait()
            while await ask(socket_path(tmp_path), b"PING") is not None:  # noqa: ASYNC110
                await anyio.sleep(0.02)


async def test_an_engine_left_behind_is_shut_down_first(tmp_path: Path, flavour: Flavour) -> None:
    binary = binary_of(flavour)
    left_over = EngineProcess(binary, tmp_path, socket_path(tmp_path))
    await left_over.start()
    store = open_store(left_over.url, Limits())
    await store.commit("s", commit(**records(3)))
    await store.close()
    assert left_over.pid
    async with embedded_engine(tmp_path, binary=binary) as engine:
        assert left_over.pid == 0
        store = open_store(engine.url, Limits())
        stored = await store.read("s")
        assert isinstance(stored, Stored) and len(stored.records) == 3
        await store.close()
    await left_over.stop()


async def test_a_killed_engine_loses_nothing_acknowledged(tmp_path: Path, flavour: Flavour) -> None:
    process = EngineProcess(binary_of(flavour), tmp_path, socket_path(tmp_path))
    await process.start()
    store = open_store(process.url, Limits())
    for number in range(200):
        await store.commit(f"s{number}", commit(**records(2)))
    await process.kill()
    await process.start()
    assert (await store.sessions("", None, 1)).total == 200
    for number in range(200):
        assert isinstance(await store.read(f"s{number}"), Stored)
    await store.close()
    await process.stop()


async def test_a_directory_too_long_for_a_socket(tmp_path: Path, flavour: Flavour) -> None:
    directory = tmp_path / ("d" * 100)
    assert len(str(socket_path(directory))) <= 100
    assert socket_path(directory) == socket_path(directory) != socket_path(tmp_path / ("e" * 100))
    async with serving_store(f"embedded:{directory}", Limits()) as (store, set_address):
        set_address("ws://127.0.0.1:1")
        await store.commit("s", commit())
        assert isinstance(await store.read("s"), Stored)
    assert not socket_path(directory).parent.exists()


async def test_a_directory_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(EngineError, match="not writable by everybody"):
        async with embedded_engine(shared, binary=binary_of("redis")):
            pass


async def test_an_engine_that_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"ended at once; .*engine\.log"):
        async with embedded_engine(tmp_path, binary="/bin/false"):
            pass
    with pytest.raises(EngineError, match="cannot be run"):
        async with embedded_engine(tmp_path, binary=str(tmp_path / "nothing")):
            pass


async def test_an_old_engine_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "old-server"
    old.write_text(
        f"#!{sys.executable}\n"
        "import socket, sys\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(sys.argv[sys.argv.index('--unixsocket') + 1])\n"
        "listener.listen()\n"
        "while True:\n"
        "    link = listener.accept()[0]\n"
        "    asked = link.recv(100)\n"
        "    link.sendall(b'+PONG\\r\\n' if asked == b'PING\\r\\n' else b'$20\\r\\nredis_version:6.2.7\\r\\n\\r\\n')\n"
        "    link.close()\n"
    )
    old.chmod(0o700)
    with pytest.raises(EngineError, match="too old"):
        async with embedded_engine(tmp_path / "state", binary=str(old)):
            pass


def test_without_an_engine_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_engine() == binary_of("valkey")
    monkeypatch.setattr("gateway.store.embedded.find_spec", lambda name: None)
    with pytest.raises(EngineError) as caught:
        find_engine()
    assert str(caught.value) == INSTALL
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o700)
        assert find_engine() == str(tmp_path / name)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://user:secret@h:6379/3?ssl_ca_certs=x", "redis://h:6379/3"),
        ("rediss://:secret@h", "rediss://h"),
        ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
        ("unix://user:secret@/run/redis.sock", "unix:///run/redis.sock"),
        ("embedded:/some/dir", "embedded:/some/dir"),
    ],
)
def test_a_url_is_told_without_its_secrets(url: str, told: str) -> None:
    assert resolved(url) == told


def test_embedded_means_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert resolved("embedded:") == f"embedded:{state_directory()}"
    assert embedded_directory("embedded:sub") == tmp_path / "sub"
    if sys.platform == "linux":
        assert state_directory() == tmp_path / "context-gateway"


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://secret@h1,h2/service",
        "redis+cluster://secret@h1,h2",
        "embedded:/dir/secret",
        "http://secret@h",
        "secret",
        "",
        "redis://secret@h?socket_timeout=3",
        "redis://secret@h?unknown=1",
        "redis://h:port-secret",
        "redis://h?db=secret",
        "redis://:secret@h/1",
        "redis://h?ssl_certfile=secret",
        "unix://?db=1&password=secret",
    ],
)
def test_other_urls_are_refused_without_being_told(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        open_store(url, Limits())
    assert "secret" not in str(caught.value)
