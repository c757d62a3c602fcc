"""The list of sessions: order, prefix, pages, and how it heals."""

from pathlib import Path

import anyio
import pytest

from gateway.store import Gone
from gateway.store.keys import SESSIONS, keys_of
from tests.engines import Flavour, redis_server
from tests.store.support import WAIT_S, commit, created, opened, running

NAMES = ["a", "a\x20b", "ab", "b", "é", "ﬀ", "\U0001f600", "\U0001f601x"]  # ascending by code point


async def test_sessions_come_by_code_point_in_pages(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        for name in reversed(NAMES):
            await created(store, name, parts={"page": name.encode()})
        found: list[str] = []
        after = None
        while True:
            page = await store.sessions("", after, 3)
            assert page.total == len(NAMES)
            found += [name for name, *_ in page.sessions]
            assert all(title == name.encode() for name, _, _, title in page.sessions)
            after = page.next
            if after is None:
                break
            assert after == found[-1] and len(page.sessions) == 3
        assert found == NAMES
        for prefix in ("a", "\U0001f600", "z", "é"):
            page = await store.sessions(prefix, None, 100)
            assert [name for name, *_ in page.sessions] == [name for name in NAMES if name.startswith(prefix)]
            assert page.total == len(page.sessions) and page.next is None
        assert [s[0] for s in (await store.sessions("a", "a", 100)).sessions] == ["a b", "ab"]
        assert [s[0] for s in (await store.sessions("b", "a", 100)).sessions] == ["b"]
        assert (await store.sessions("a", "b", 100)).sessions == []


async def test_a_full_page_that_is_the_last_names_no_next(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        for name in ("a", "b"):
            await created(store, name)
        assert (await store.sessions("", None, 2)).next is None
        assert (await store.sessions("", None, 1)).next == "a"


async def test_dead_sessions_leave_the_list_when_it_is_read(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        for number in range(50):
            await created(store, f"s{number:02}")
        gone = [f"s{number:02}" for number in range(50) if number % 5]
        await engine.admin.delete(*[key for name in gone[:20] for key in keys_of(name)])
        for name in gone[20:]:
            await store.end(name, None)
            await engine.admin.zadd(SESSIONS, {name: 0})  # as if the node had died in between
        page = await store.sessions("", None, 7)
        assert [name for name, *_ in page.sessions] == ["s00", "s05", "s10", "s15", "s20", "s25", "s30"]
        rest = await store.sessions("", page.next, 7)
        assert [name for name, *_ in rest.sessions] == ["s35", "s40", "s45"]
        assert rest.next is None and rest.total == 10
        assert await engine.admin.zcard(SESSIONS) == 10


async def test_check_mends_the_list(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store)
        await engine.admin.delete(SESSIONS)
        assert await store.check("s") == first
        assert await engine.admin.zrange(SESSIONS, 0, -1) == [b"s"]
        await engine.admin.zadd(SESSIONS, {"dead": 0})
        assert await store.check("dead") == Gone("lost")
        assert await engine.admin.zrange(SESSIONS, 0, -1) == [b"s"]


async def test_a_session_created_again_is_listed(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        await created(store)
        await store.end("s", None)
        assert (await store.sessions("", None, 10)).total == 0
        await store.commit("s", commit())
        assert (await store.sessions("", None, 10)).total == 1


async def test_the_sweep_ends_what_expired_though_nobody_asks(
    tmp_path: Path, flavour: Flavour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.store.scripted.SWEEP_S", 0.01)
    monkeypatch.setattr("gateway.store.scripted.SWEEP_IDS", 2)
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store) as heard:
        for number in range(5):
            await created(store, f"s{number}", ttl_ms=1 if number == 4 else None)
        await store.watch("s4")
        with anyio.fail_after(WAIT_S):
            while await engine.admin.zcard(SESSIONS) != 4:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert await engine.admin.hget(keys_of("s4")[0], "reason") == b"expired"
        assert heard.doubts == 0
