"""Places and their order."""

import anyio
import anyio.lowlevel

from gateway.slots import Slots


async def test_places_go_round_in_the_order_of_asking() -> None:
    slots = Slots(2)
    got: list[int] = []
    gates = [anyio.Event() for _ in range(6)]

    async def visit(n: int) -> None:
        await slots.take()
        got.append(n)
        await gates[n].wait()
        slots.give()

    async with anyio.create_task_group() as tasks:
        for n in range(6):
            tasks.start_soon(visit, n)
        await anyio.wait_all_tasks_blocked()
        assert got == [0, 1]
        gates[1].set()
        await anyio.wait_all_tasks_blocked()
        assert got == [0, 1, 2]
        for gate in gates:
            gate.set()
    assert got == [0, 1, 2, 3, 4, 5]


async def test_who_is_cancelled_leaves_no_place_taken_and_none_behind() -> None:
    slots = Slots(1)
    await slots.take()
    got: list[str] = []

    async def visit(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await slots.take()
            got.append(name)
            slots.give()

    waiting, handed = anyio.CancelScope(), anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(visit, "waiting", waiting)
        tasks.start_soon(visit, "handed", handed)
        tasks.start_soon(visit, "last", anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        waiting.cancel()
        await anyio.wait_all_tasks_blocked()
        slots.give()
        handed.cancel()  # its turn came in this very moment
        await anyio.wait_all_tasks_blocked()
    assert got[-1] == "last" and "waiting" not in got
    with anyio.fail_after(1):
        await slots.take()
