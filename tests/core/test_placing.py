"""Where records stand: places that are used up are made anew, whatever comes between (design §3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import model
from gateway.core.order import GAP, finish
from gateway.core.placing import scores_for
from tests.core.build import Json, board, change_of_patch, changed, ids, published


def upsert(*records: Json) -> Json:
    return {"records": {"upsert": list(records)}}


def test_hundreds_of_inserts_at_one_place_find_room() -> None:
    snapshot = published(board(600))
    order = ids(snapshot)
    for n in range(300):
        anchor = {"before": "F-300"} if n % 2 else {"after": "F-299"}
        snapshot = changed(snapshot, upsert({"id": f"X-{n}", "region": "board"} | anchor))
        order.insert(order.index("F-300") if n % 2 else order.index("F-299") + 1, f"X-{n}")
    assert ids(snapshot) == order


def test_many_inserts_at_one_place_in_one_change_find_room() -> None:
    first = published(board(40))
    new = [{"id": f"X-{n}", "region": "board", "after": "F-19"} for n in range(100)]
    order = [f"F-{n}" for n in range(20)] + [f"X-{n}" for n in reversed(range(100))] + [f"F-{n}" for n in range(20, 40)]
    assert ids(changed(first, upsert(*new))) == order


def test_a_place_taken_back_and_forth_costs_no_revision() -> None:
    snapshot = published(board(5))
    for _ in range(60):
        snapshot = changed(snapshot, upsert({"id": "F-4", "before": "F-1"}))
        snapshot = changed(snapshot, upsert({"id": "F-4", "after": "F-3"}))
    assert ids(snapshot) == [f"F-{n}" for n in range(5)]
    assert change_of_patch(snapshot, upsert({"id": "F-4", "after": "F-3"})).empty()


@given(st.data())
def test_records_stand_where_a_plain_list_has_them(data: st.DataObject) -> None:
    """Scores one apart now and then, so that there is hardly ever room."""
    snapshot, order = published(board(12)), [f"F-{n}" for n in range(12)]
    for step in range(data.draw(st.integers(1, 12))):
        given_: list[Json] = []
        used: set[str] = set()
        for n in range(data.draw(st.integers(1, 6))):
            free = [id for id in order if id not in used]
            id = data.draw(st.sampled_from([f"X-{step}-{n}", *free]))
            anchors = [other for other in order if other != id]
            behind, anchor = data.draw(st.booleans()), data.draw(st.sampled_from(anchors[:3] or anchors))
            used.add(id)
            given_.append({"id": id, "region": "board", "after" if behind else "before": anchor})
            order = [other for other in order if other != id]
            order.insert(order.index(anchor) + behind, id)
        snapshot = changed(snapshot, upsert(*given_))
        assert ids(snapshot) == order


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=30))
def test_scores_rise_and_keep_as_many_as_they_can(known: list[Any]) -> None:
    seen: set[int] = set()
    known = [None if score in seen or (score is not None and seen.add(score)) else score for score in known]  # type: ignore[func-returns-value]
    scores = finish(scores_for(known))
    assert scores == sorted(set(scores)) and len(scores) == len(known)
    kept = [n for n, score in enumerate(known) if score == scores[n]]
    assert kept or not any(score is not None for score in known) or scores == [GAP * n for n in range(len(known))]


@pytest.mark.parametrize(
    ("known", "scores"),
    [
        ([], []),
        ([None, None], [0, GAP]),
        ([5], [5]),
        ([None, 5, None], [5 - GAP, 5, 5 + GAP]),
        ([4, None, 8], [4, 6, 8]),
        ([4, None, 5], [0, GAP, 2 * GAP]),
        ([9, 4, 6], [4 - GAP, 4, 6]),
    ],
)
def test_scores_of_known_and_new_records(known: list[int | None], scores: list[int]) -> None:
    assert finish(scores_for(known)) == scores


def test_where_every_score_is_taken_far_and_wide_room_is_made() -> None:
    """Nothing between any two of 300 records: all of them are renumbered, not only those around the place."""
    first = published(board(300))
    records = {id: model.encode_record(record) for id, record in first.records.items()}
    parts = {name: model.encode_part(name, getattr(first, name)) for name in model.PARTS}
    scores = {f"F-{n}": n for n in range(300)}
    tight = finish(model.load(first.position, first.as_of, parts, records, scores))
    after = changed(tight, upsert({"id": "X", "region": "board", "after": "F-149"}))
    assert ids(after) == [f"F-{n}" for n in range(150)] + ["X"] + [f"F-{n}" for n in range(150, 300)]


def test_a_place_that_is_where_it_was_is_no_change_though_its_score_is_another() -> None:
    snapshot = changed(published(board(3)), upsert({"id": "X", "region": "board", "after": "F-0"}))
    snapshot = changed(snapshot, upsert({"id": "Y", "region": "board", "after": "X"}))
    again = upsert({"id": "X", "before": "Y"})
    assert change_of_patch(snapshot, again).empty()
    assert not change_of_patch(snapshot, again | {"state": {"set": {"a": 1}}}).empty()
    assert not change_of_patch(snapshot, upsert({"id": "X", "after": "Y"})).empty()
