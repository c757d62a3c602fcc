"""What goes wrong between a node and its store, and what the node makes of it."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from gateway.core.errors import GatewayError
from gateway.core.position import Position
from gateway.store import Changed, Committed, Ended, Event, Gone, Moved, Stored
from gateway.store.keys import keys_of
from gateway.store.redis import LINKS_MOST
from gateway.store.scripted import ScriptedStore
from tests.engines import Flavour, RunningEngine, redis_server
from tests.relay import relayed
from tests.store.support import WAIT_S, commit, created, opened, records, running


async def until(condition: Callable[[], bool]) -> None:
    """Poll what has no event, such as readiness."""
    with anyio.fail_after(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def refusal(store: ScriptedStore, session: str = "s") -> str:
    """The sentence of `store_unavailable` that a commit is answered."""
    with pytest.raises(GatewayError) as caught:
        await store.commit(session, commit())
    assert caught.value.kind == "store_unavailable"
    assert caught.value.data["retryAfterMs"] > 0
    for told in (caught.value.message, str(caught.value), repr(caught.value.__cause__)):
        assert "sock" not in told and "127.0.0.1" not in told and "secret" not in told
    return caught.value.message


async def test_a_retry_after_a_lost_answer_finds_its_own_commit(tmp_path: Path, flavour: Flavour) -> None:
    async with (
        redis_server(tmp_path, flavour) as engine,
        relayed(engine.url, tmp_path) as relay,
        opened(engine, url=relay.url) as store,
    ):
        await store.end("other", None)
        await created(store, "other")  # the store knows the scripts
        relay.lose_the_answer_to(b"marker-1")
        made = await store.commit("s", commit(redo=b"marker-1"))
        assert isinstance(made, Committed) and made.repeated and made.position.revision == 1
        relay.lose_the_answer_to(b"marker-2")
        again = await store.commit("s", commit(made.position, b"d2", redo=b"marker-2", **records(2)))
        assert isinstance(again, Committed) and again.repeated
        assert again.position == Position(made.position.epoch, 2) == await store.check("s")
        relay.lose_the_answer_to(keys_of("s")[0])
        assert await store.end("s", again.position) == again.position


async def test_a_commit_is_all_or_nothing_when_the_log_is_in_the_way(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store, **records(2))
        await engine.admin.xadd(keys_of("s")[3], {"foreign": "hand"}, id="99-0")
        with pytest.raises(GatewayError):
            await store.commit("s", commit(first, b"d2", put={"r0": b"new"}, drop=["r1"], parts={"page": b"1"}))
        stored = await store.read("s")
        assert isinstance(stored, Stored) and stored.position == first and stored.digest == b"d1"
        assert stored.records == {"r0": b"{}", "r1": b"{}"} and stored.parts == {}


async def test_an_emptied_store_is_lost(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store, **records(2))
        await engine.flush()
        assert await store.check("s") == await store.read("s") == await store.log("s", first) == Gone("lost")
        assert await store.commit("s", commit(first, b"d2")) == Moved(None)
        assert (await store.sessions("", None, 10)).sessions == []


@pytest.mark.parametrize("missing", ["meta", "records", "order", "a record", "a place", "epoch", "count"])
async def test_br_094_a_session_that_lost_a_part_is_lost_whole(tmp_path: Path, flavour: Flavour, missing: str) -> None:
    meta, records_key, order, _ = keys_of("s")
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store) as heard:
        await store.watch("s")
        first = await created(store, **records(20), parts={"page": b"{}"})
        admin = engine.admin
        match missing:
            case "meta":
                await admin.delete(meta)
            case "records":
                await admin.delete(records_key)
            case "order":
                await admin.delete(order)
            case "a record":
                await admin.hdel(records_key, "r7")
            case "a place":
                await admin.zrem(order, "r7")
            case field:
                await admin.hdel(meta, field)
        assert await store.read("s") == Gone("lost")
        assert await heard.wait_for(Ended) == Ended("lost")
        assert await admin.exists(*keys_of("s")) == 0
        assert await store.commit("s", commit(first, b"d2")) == Moved(None)
        assert (await store.sessions("", None, 10)).sessions == []
        again = await created(store, **records(3))
        stored = await store.read("s")
        assert again.epoch != first.epoch
        assert isinstance(stored, Stored) and len(stored.records) == 3 and stored.parts == {}


async def test_br_094_a_lost_log_only_ends_the_reach(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store:
        first = await created(store, **records(2))
        await store.commit("s", commit(first, b"d2"))
        await engine.admin.delete(keys_of("s")[3])
        made = await store.commit("s", commit(Position(first.epoch, 2), b"d3"))
        assert isinstance(made, Committed) and made.position.revision == 3
        broken = await store.log("s", first)
        assert not isinstance(broken, Gone) and broken.entries is None
        near = await store.log("s", Position(first.epoch, 2))
        assert not isinstance(near, Gone) and near.entries is not None and len(near.entries) == 1


async def test_a_killed_link_is_replaced_and_doubted(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store) as heard:
        names = [f"s{number}" for number in range(20)]
        for name in names:
            await store.watch(name)
        await until(store.ready)
        assert heard.doubts == 0
        for already in (0, 1):
            assert await engine.kill_pubsub() == 1
            await heard.wait_for_doubt(already)
            assert heard.doubts == store.links_replaced() == already + 1
        for name in names:
            await created(store, name)
        await until(lambda: len(heard.events) == len(names))
        assert {name for name, _ in heard.events} == set(names)


async def test_a_silent_link_is_found_by_the_probe(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path) as engine,
        relayed(engine.url, tmp_path) as relay,
        opened(engine, url=relay.url) as store,
        opened(engine) as other,
        running(store) as heard,
    ):
        await store.watch("s")
        await until(store.ready)
        relay.silence()
        await created(other)  # said into the void
        await heard.wait_for_doubt(0)
        assert heard.events == []
        await created(other, "t")
        first = await store.check("s")
        assert isinstance(first, Position)
        await other.commit("s", commit(first, b"d2"))
        changed = await heard.wait_for(Changed)
        assert changed.position.revision == 2
        await until(store.ready)


async def test_a_store_that_goes_and_comes_back(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store) as heard:
        await store.watch("s")
        first = await created(store, **records(2))
        await until(store.ready)
        await engine.kill()
        assert await refusal(store) == "The store is out of reach."
        assert not store.ready()
        await engine.start()
        await heard.wait_for_doubt(0)
        await until(store.ready)
        stored = await store.read("s")
        assert isinstance(stored, Stored) and len(stored.records) == 2 and stored.position.epoch != first.epoch
        assert store.reached_ms_ago() < 5_000


async def test_a_store_that_comes_after_its_node(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine:
        await engine.stop()
        async with opened(engine) as store, running(store) as heard:
            assert not store.ready() and store.reached_ms_ago() > 10**6
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.watch, "s")
                assert await refusal(store) == "The store is out of reach."
                await engine.start()
            await until(store.ready)
            await created(store)
            await heard.wait_for(Changed)


async def test_watching_out_of_reach_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.store.subscriber.CONFIRM_S", 0.2)
    async with redis_server(tmp_path) as engine:
        await engine.stop()
        async with opened(engine) as store, running(store):
            with pytest.raises(GatewayError) as caught:
                await store.watch("s")
            assert caught.value.kind == "store_unavailable"


async def test_a_refusal_of_the_store_is_told_without_values(tmp_path: Path, flavour: Flavour) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store):
        await until(store.ready)
        await engine.admin.config_set("maxmemory", "1")
        assert await refusal(store) == "The store's memory is full."
        await engine.admin.config_set("maxmemory", "0")
        await engine.admin.replicaof("127.0.0.1", "1")
        assert await refusal(store) == "The store accepts no writes now."
        await engine.admin.replicaof("NO", "ONE")
        await engine.admin.acl_setuser("default", enabled=True, commands=["-evalsha", "-eval"])
        assert await refusal(store) == "The store refuses the gateway's credentials or rights."
        await engine.admin.acl_setuser("default", enabled=True, commands=["+@all"])
        await engine.admin.config_set("requirepass", "secret")
        await engine.admin.client_kill_filter(_type="normal", skipme=True)
        await engine.kill_pubsub()
        assert await refusal(store) == "The store refuses the gateway's credentials or rights."
        await until(lambda: not store.ready())
        await engine.admin.config_set("requirepass", "")
        await until(store.ready)
        await created(store)


async def test_a_node_without_the_right_to_its_channels_is_not_ready_and_accepts(
    tmp_path: Path, flavour: Flavour
) -> None:
    async with redis_server(tmp_path, flavour) as engine, opened(engine) as store, running(store):
        await until(store.ready)
        await engine.admin.execute_command("ACL", "SETUSER", "default", "resetchannels")  # type: ignore[no-untyped-call]
        await engine.kill_pubsub()
        await until(lambda: not store.ready())
        position = await created(store)  # written whole: watchers learn of it by position
        assert await store.check("s") == position
        await engine.admin.execute_command("ACL", "SETUSER", "default", "allchannels")  # type: ignore[no-untyped-call]
        await until(store.ready)


async def test_br_006_watched_again_is_never_deaf(tmp_path: Path) -> None:
    chance = random.Random(6)
    async with redis_server(tmp_path) as engine, opened(engine) as store, running(store) as heard:
        position = await created(store)
        for _ in range(200):
            await store.watch("s")
            for _ in range(chance.randrange(4)):
                await store.unwatch("s")
                for _ in range(chance.randrange(3)):
                    await anyio.lowlevel.checkpoint()
                await store.watch("s")
            heard.events.clear()
            made = await store.commit("s", commit(position, str(position.revision).encode()))
            assert isinstance(made, Committed)
            position = made.position
            assert (await heard.wait_for(Changed)).position == position
            await store.unwatch("s")
        assert heard.doubts == 0


@pytest.mark.parametrize("confirmed", [True, False])
async def test_br_006_only_the_latest_subscription_counts(tmp_path: Path, confirmed: bool) -> None:
    channel = keys_of("s")[0][:-5]

    async def subscribers(engine: RunningEngine, count: int) -> None:
        with anyio.fail_after(WAIT_S):
            while (await engine.admin.pubsub_shardnumsub(channel))[0][1] != count:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    async with (
        redis_server(tmp_path) as engine,
        relayed(engine.url, tmp_path) as relay,
        opened(engine, url=relay.url) as store,
        opened(engine) as other,
        running(store) as heard,
    ):
        await until(store.ready)
        if confirmed:
            await store.watch("s")
            await store.unwatch("s")
        else:
            relay.answers = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(store.watch, "s")
                await subscribers(engine, 1)
                tasks.cancel_scope.cancel()
        await subscribers(engine, 0)
        relay.requests = anyio.Event()  # the new subscription does not reach the store …
        watching = True

        async def watch() -> None:
            nonlocal watching
            await store.watch("s")
            watching = False

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await anyio.wait_all_tasks_blocked()
            relay.answers.set()  # … while the answers to the former ones come
            await until(lambda: len(store._subscriber._unanswered) == 1)
            await anyio.wait_all_tasks_blocked()
            assert watching
            relay.requests.set()
        await created(other)
        await heard.wait_for(Changed)
        assert heard.doubts == 0


async def test_br_006_one_of_two_watchers_leaves(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, opened(engine) as store, running(store) as heard:
        await store.watch("s")
        await store.watch("s")
        await store.unwatch("s")
        await created(store)
        await heard.wait_for(Changed)
        await store.unwatch("s")
        await store.unwatch("never watched")
        heard.events.clear()
        await store.watch("t")
        await store.end("s", None)
        await created(store, "t")
        await heard.wait_for(Changed)
        assert [name for name, _ in heard.events] == ["t"]


async def test_strange_messages_are_doubted(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, opened(engine) as store, running(store) as heard:
        await store.watch("s")
        strange = [b"", b"\xff", b"changed", b"changed e x 1 0 0\n", b"renewed e\n", b"changed e 1 1 0 1"]
        for number, message in enumerate(strange):
            await engine.admin.execute_command("SPUBLISH", keys_of("s")[0][:-5], message)  # type: ignore[no-untyped-call]
            await heard.wait_for_doubt(number)
        assert heard.events == [] and store.ready()


async def test_br_016_cancelled_requests_leave_no_link_in_use(tmp_path: Path) -> None:
    chance = random.Random(16)
    async with redis_server(tmp_path) as engine, opened(engine) as store:
        await created(store, **records(50))

        async def hasty(number: int) -> None:
            with anyio.move_on_after(chance.random() * 0.02):
                position = await store.check("s")
                assert isinstance(position, Position)
                await store.commit("s", commit(position, b"%d" % number, put={"r1": b"x" * 5_000}))
                await store.read("s")

        for start in range(0, 2_000, 100):
            async with anyio.create_task_group() as tasks:
                for number in range(start, start + 100):
                    tasks.start_soon(hasty, number)
        assert store._links.in_use == 0
        with anyio.fail_after(2):
            position = await store.check("s")
            assert isinstance(position, Position)
            assert isinstance(await store.commit("s", commit(position, b"quiet")), Committed)
        assert await _clients(engine) <= LINKS_MOST + 2


async def test_many_at_once_share_the_links(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, opened(engine) as store:
        async with anyio.create_task_group() as tasks:
            for number in range(500):
                tasks.start_soon(created, store, f"s{number}")
        assert store._links.in_use == 0
        assert await _clients(engine) <= LINKS_MOST + 1
        assert (await store.sessions("", None, 10)).total == 500


async def _clients(engine: RunningEngine) -> int:
    return len(await engine.admin.client_list())


async def test_a_listener_that_fails_is_not_hidden(tmp_path: Path) -> None:
    async with redis_server(tmp_path) as engine, opened(engine) as store:

        def broken(session: str, event: Event) -> None:
            raise ZeroDivisionError

        async def run() -> None:
            with contextlib.suppress(GatewayError):
                await store.run(broken, lambda: None, started=lambda: None)

        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await store.watch("s")
                await created(store)
                await anyio.sleep(WAIT_S)
        assert caught.value.split(ZeroDivisionError)[1] is None
