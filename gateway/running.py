"""A whole gateway in this process: store, hub, service and server, put together in the order they need each other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import anyio

from gateway import schemas
from gateway.core.view import Target
from gateway.hub import Hub
from gateway.metrics import Holdings, Metrics
from gateway.server import Server
from gateway.sessions import Sessions
from gateway.settings import Settings
from gateway.store.opening import resolved, serving_store


@asynccontextmanager
async def _bare() -> AsyncIterator[None]:
    """What a task group raises for one failure is that failure again: callers tell a taken address from a bug."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


@asynccontextmanager
async def running_gateway(settings: Settings) -> AsyncIterator[str]:
    """A gateway for as long as the block lasts; yields its address (`ws://host:port`), drains at the end.

    Raises:
        ValueError: a store or host that is not served.
        EngineError: the embedded engine cannot be had, or belongs to another process.
        OSError: the address is taken.
    """
    limits, metrics = settings.limits, Metrics()
    target = Target(settings.db_source, resolved(settings.db))
    async with (
        _bare(),
        serving_store(settings.db, limits) as (store, tell_address),
        anyio.create_task_group() as tasks,
    ):
        hub = Hub(store, limits, target, metrics, Random())
        metrics.held = lambda: _holdings(hub)
        await tasks.start(_run_hub, hub)
        server = Server(
            Sessions(store, hub, limits, target, metrics),
            limits,
            metrics,
            ready=store.ready,
            origins=settings.origins,
            schemas=schemas.texts(),
        )
        async with server.listening(settings.host, settings.port) as (host, port):
            address = f"ws://[{host}]:{port}" if ":" in host else f"ws://{host}:{port}"
            tell_address(address)
            yield address
        tasks.cancel_scope.cancel()


async def _run_hub(hub: Hub, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    await hub.run(task_status.started)


def _holdings(hub: Hub) -> Holdings:
    held = hub.every()
    views = [view for session in held for view in session.replica.views.values()]
    return Holdings(len(held), len(views), sum(len(view.watchers) for view in views))
