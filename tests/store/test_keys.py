"""Names of keys: hostile ids, one slot for a session, many for all."""

import ast
from pathlib import Path

import pytest
from redis.crc import key_slot

from gateway.core.position import Position
from gateway.store import Committed, Gone, Stored
from gateway.store.keys import channel_of, keys_of
from tests.engines import Flavour, redis_server
from tests.store.support import commit, created, opened

HOSTILE = [
    "plain",
    "a{b",
    "a}b",
    "{}",
    "{x}y",
    "{x}z",
    "}{",
    "a{}b",
    "x" * 500,
    "a:b",
    "a",
    "*",
    "a\nb",
    "é{é}",
    "a\x00b",
]


def test_br_012_the_keys_of_a_session_share_a_slot_and_sessions_do_not() -> None:
    for name in HOSTILE:
        slots = {key_slot(key) for key in (*keys_of(name), channel_of(name))}
        assert len(slots) == 1
    assert len({key_slot(channel_of(name)) for name in HOSTILE}) == len(HOSTILE)
    assert len({key for name in HOSTILE for key in keys_of(name)}) == 4 * len(HOSTILE)


async def test_br_012_hostile_ids_live_their_whole_life(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        positions = {}
        for name in HOSTILE:
            positions[name] = await created(store, name, put={name: name.encode()}, scores={name: 1})
        for name, position in positions.items():
            made = await store.commit(name, commit(position, b"d2", parts={"page": name.encode()}))
            assert isinstance(made, Committed) and made.position == Position(position.epoch, 2)
            stored = await store.read(name)
            assert isinstance(stored, Stored)
            assert stored.records == {name: name.encode()} and stored.parts == {"page": name.encode()}
            log = await store.log(name, position)
            assert not isinstance(log, Gone) and log.entries is not None and len(log.entries) == 1
        listed = await store.sessions("", None, 100)
        assert [name for name, *_ in listed.sessions] == sorted(HOSTILE)
        for name in HOSTILE:
            await store.end(name, None)
            assert await store.read(name) == Gone("ended")


@pytest.mark.parametrize("name", HOSTILE)
def test_br_012_no_id_is_told_by_its_keys(name: str) -> None:
    assert all(key.startswith(b"cg:{") and key.count(b"{") == key.count(b"}") == 1 for key in keys_of(name))


def test_redis_is_imported_in_one_place_only() -> None:
    for module in (Path(__file__).parents[2] / "gateway").rglob("*.py"):
        names = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(module.read_bytes()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        }
        assert "redis" not in names or module.name == "redis.py", module
