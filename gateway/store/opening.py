"""From the URL of a store to the store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from gateway.core.limits import Limits
from gateway.store import Store
from gateway.store.embedded import embedded_engine, state_directory

_FORMS = "redis://, rediss://, unix://, embedded: or embedded:/dir"


def open_store(url: str, limits: Limits) -> Store:
    """The store at `redis://`, `rediss://` or `unix://`; nothing is connected yet.

    Raises:
        ValueError: another form of URL, `embedded:` among them (see `serving_store`). The message never holds the URL.
    """
    scheme = url.partition(":")[0]
    if scheme in ("redis+sentinel", "redis+cluster"):
        raise ValueError(f"{scheme} stores are not supported yet; use {_FORMS}")
    if scheme == "embedded":
        raise ValueError("an embedded store is started and stopped by serve or demo, and by nobody else")
    if scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"the store's URL must be {_FORMS}")
    from gateway.store.redis import Links  # redis-py takes a third of a second to import: only those who open a store
    from gateway.store.scripted import ScriptedStore

    return ScriptedStore(Links(url), limits)


@asynccontextmanager
async def serving_store(url: str, limits: Limits) -> AsyncIterator[tuple[Store, Callable[[str], None]]]:
    """The store of any URL for as long as the block lasts, with the engine of an `embedded:` one.

    Gives the store and a function that takes the gateway's own address once it is known: an engine's directory tells
    it to whoever tries to start a second one there; for any other store it does nothing. `Store.run` is the caller's.

    Raises:
        ValueError: as `open_store`.
        EngineError: of `embedded_engine`.
    """
    if url.partition(":")[0] != "embedded":
        store = open_store(url, limits)
        try:
            yield store, lambda address: None
        finally:
            await store.close()
        return
    async with embedded_engine(embedded_directory(url)) as engine:
        store = open_store(engine.url, limits)
        try:
            yield store, engine.set_address
        finally:
            await store.close()


def embedded_directory(url: str) -> Path:
    """The absolute directory of `embedded:` (the state directory of this user) or `embedded:/dir`."""
    path = url.removeprefix("embedded:")
    return Path(path).expanduser().absolute() if path else state_directory()


def resolved(url: str) -> str:
    """The URL as it may be told: without user, password and query; the directory of an embedded store absolute."""
    if url.partition(":")[0] == "embedded":
        return f"embedded:{embedded_directory(url)}"
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
