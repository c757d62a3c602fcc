"""Writing over a store that moved: what is refused and what is told is of the present, not of an earlier try."""

from pathlib import Path
from typing import Any

import pytest

from gateway.core.errors import GatewayError
from tests.engines import FLAVOURS, redis_server
from tests.service import REGION, board, running_node

GATE = {"records": {"upsert": [{"id": "F-0", "fields": {"gate": "B7", "nobody declared this": 1}}]}}


def beside(id: str, anchor: str) -> dict[str, Any]:
    return {"records": {"upsert": [{"id": id, "region": "board", "after": anchor}]}}


async def test_what_another_node_just_added_can_be_named(tmp_path: Path) -> None:
    async with (
        redis_server(tmp_path, FLAVOURS[0]) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        await ours.call("publish", session="s", snapshot=board(2), base=None)
        ours.faults.hears = lambda session, event: False
        await ours.call("describe", session="s")
        await theirs.call("patch", session="s", change=beside("X", "F-0"), base="any")
        told = await ours.call("patch", session="s", change=beside("Y", "X"), base="any")
        assert told["revision"] == 3
        context = (await ours.call("describe", session="s"))["context"]
        assert context["recordIds"] == ["F-0", "X", "Y", "F-1"]
        with pytest.raises(GatewayError) as caught:
            await ours.call("patch", session="s", change=beside("Z", "not there"), base="any")
        assert caught.value.data["path"] == "/change/records/upsert/0/after"
        assert (await theirs.call("describe", session="s"))["revision"] == 3


async def test_what_an_earlier_try_dropped_is_not_told(tmp_path: Path) -> None:
    declared = board(2) | {"regions": [REGION | {"fields": ["dest", "status", "gate"]}]}
    async with (
        redis_server(tmp_path, FLAVOURS[0]) as engine,
        running_node(engine.url) as ours,
        running_node(engine.url) as theirs,
    ):
        await ours.call("publish", session="s", snapshot=board(2), base=None)
        ours.faults.hears = lambda session, event: False
        await ours.call("describe", session="s")
        await theirs.call("publish", session="s", snapshot=declared, base="any")
        told = await ours.call("patch", session="s", change=GATE, base="any")
        assert told["dropped"] == [{"region": "board", "name": "nobody declared this", "why": "undeclared"}]
        assert (told["revision"], told["droppedTotal"]) == (3, 1)
