"""Snapshots and changes: as text and back, applied, applied twice, taken back."""

import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import model
from gateway.core.limits import Limits
from gateway.core.model import EMPTY, Change, Snapshot
from gateway.core.order import finish
from gateway.core.position import Position
from tests.core.build import (
    AS_OF,
    EPOCH,
    Json,
    applied,
    board,
    capability,
    change_of_patch,
    change_of_publish,
    changed,
    described,
    ids,
    published,
)
from tests.oracle import session as oracle_session
from tests.oracle import strategies

LIMITS = Limits()


def stored(snapshot: Snapshot) -> Snapshot:
    """What another node reads from the store."""
    return finish(
        model.load(
            snapshot.position,
            snapshot.as_of,
            {name: model.encode_part(name, getattr(snapshot, name)) for name in model.PARTS},
            {id: model.encode_record(record) for id, record in snapshot.records.items()},
            {id: record.score for id, record in snapshot.records.items()},
        )
    )


def same(one: Snapshot, other: Snapshot) -> bool:
    """Equal in everything, the way the order is cut apart."""
    parts = all(getattr(one, name) == getattr(other, name) for name in model.PARTS)
    orders = list(one.order) == list(other.order) and list(one.regions) == list(other.regions)
    return parts and orders and one.records == other.records and dict(one.blocked) == dict(other.blocked)


@given(st.data())
def test_a_change_is_undone_repeated_and_read_back(data: st.DataObject) -> None:
    first = data.draw(strategies.snapshots(LIMITS, st.integers(0, 30)))
    before = published(first)
    if data.draw(st.booleans()):
        change = change_of_publish(before, data.draw(strategies.snapshots(LIMITS, st.integers(0, 30))))
    else:
        state = oracle_session.publish(first, LIMITS)
        change = change_of_patch(before, data.draw(strategies.change_for(state, LIMITS)))
    after = applied(before, change)
    assert model.decode_change(model.encode_change(change)) == change
    assert same(applied(after, change), after)
    assert same(applied(after, model.inverse(before, change)), before)
    assert same(stored(after), after)
    differing = finish(model.differing(before, after))
    assert differing <= change.touched()
    assert all(before.records.get(id) == after.records.get(id) for id in change.touched() - differing)
    assert change.empty() == same(before, after)


def test_an_empty_change_moves_only_the_position() -> None:
    before = published(board())
    after = applied(before, Change())
    assert same(before, after) and after.records is before.records and after.order is before.order
    assert after.position == Position(EPOCH, 2) and after.as_of == AS_OF + 1


def test_unchanged_records_are_shared() -> None:
    before = published(board(1000))
    after = changed(before, {"records": {"upsert": [{"id": "F-500", "fields": {"dest": "x"}}]}})
    assert [id for id in before.records if before.records[id] is not after.records[id]] == ["F-500"]
    assert after.order is before.order


@pytest.mark.parametrize("count", [10, 90_000])
def test_the_text_of_a_small_change_is_the_same_at_any_size(count: int) -> None:
    before = published(board(count), Limits(publish_bytes=2**25))
    change = change_of_patch(before, {"records": {"upsert": [{"id": "F-5", "fields": {"dest": "MCO"}}]}})
    insert = change_of_patch(before, {"records": {"upsert": [{"id": "X", "region": "board", "after": "F-5"}]}})
    assert len(model.encode_change(change)) == 106
    assert (len(insert.records), insert.scores) == (1, {})


def test_what_a_change_holds_is_not_the_whole_message() -> None:
    big = {"upsert": [{"id": f"F-{n}", "fields": {"dest": "x" * 3000}} for n in range(20)]}
    before = published(board(20))
    change = model.decode_change(
        model.encode_change(change_of_patch(before, {"records": big, "state": {"set": {"a": 1}}}))
    )
    record = change.records["F-3"]
    assert record is not None
    assert len(memoryview(record.fields)) < 3100 and sys.getsizeof(bytes(record.fields)) < 3200


def test_blocked_counts_follow_records_through_regions_and_removal() -> None:
    first: Json = board(3) | {
        "regions": [*board()["regions"], {"id": "other", "title": "O"}],
        "capabilities": [capability("c"), capability("d")],
        "unavailable": [{"capability": "c", "record": f"F-{n}", "reason": "r"} for n in range(3)],
    }
    snapshot = published(first)
    assert dict(snapshot.blocked) == {("board", "c"): 3}
    snapshot = changed(snapshot, {"records": {"upsert": [{"id": "F-0", "region": "other"}], "remove": ["F-1"]}})
    assert dict(snapshot.blocked) == {("board", "c"): 1, ("other", "c"): 1}
    change: Json = {"unavailable": {"set": [{"capability": "d", "record": "F-2", "reason": "r"}]}}
    change["unavailable"]["unset"] = [{"capability": "c", "record": "F-2"}]
    snapshot = changed(snapshot, change)
    assert dict(snapshot.blocked) == {("board", "d"): 1, ("other", "c"): 1}
    assert dict(changed(snapshot, {"capabilities": {"remove": ["c"]}}).blocked) == {("board", "d"): 1}


def test_a_page_knows_its_place_apart_from_its_title() -> None:
    one, other = (model.page_of(text) for text in (b'{"title":"A","route":"/"}', b'{"title":"B","route":"/"}'))
    assert one != other and one.place == other.place
    assert model.page_of(b'{"params":{}}').place != model.page_of(b"{}").place


@pytest.mark.parametrize("name", list(model.PARTS))
def test_a_part_that_is_absent_is_read_back_as_absent(name: str) -> None:
    value = getattr(EMPTY, name)
    assert model.decode_part(name, model.encode_part(name, value)) == value


def test_scores_of_a_whole_new_order_keep_as_many_as_they_can() -> None:
    before = published(board(100))
    moved = board(100)
    moved["records"].insert(3, moved["records"].pop(70))
    change = change_of_publish(before, moved)
    assert list(change.scores) == ["F-70"] and not change.records and not change.parts
    assert ids(applied(before, change)) == [record["id"] for record in moved["records"]]
    assert described(published(moved, old=before))["context"]["recordIds"][3] == "F-70"


def test_a_record_is_stored_without_its_score() -> None:
    record = published(board(3)).records["F-2"]
    assert record.score != 0
    assert msgspec.json.decode(model.encode_record(record))[-1] == 0
