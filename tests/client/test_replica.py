"""The client's replica against the oracle: describe at base + `after` = describe at revision (§9)."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client import Unfit, apply_after
from tests.oracle.describe import describe
from tests.oracle.plain import Object, canonical
from tests.oracle.reasons import required_reasons
from tests.oracle.session import patch, publish
from tests.oracle.sight import Scope
from tests.oracle.strategies import SMALL, change_for, scopes_for, snapshots, views_for
from tests.oracle.test_replica import OLD, STEP, simple_after


def told(state: Object, view: Object, scope: Scope, revision: int) -> Object:
    return describe(
        state,
        session="s",
        view_id="v",
        view=view,
        scope=scope,
        epoch="e",
        revision=revision,
        as_of=f"t{revision}",
        target={"db_path_source": "argv"},
        limits=SMALL,
        publisher="none",
    )


@given(st.data())
def test_after_after_after_is_a_fresh_describe(data: st.DataObject) -> None:
    state = publish(data.draw(snapshots(SMALL)), SMALL)
    view, scope = data.draw(views_for(state, SMALL)), data.draw(scopes_for(state))
    replica = told(state, view, scope, 1)
    for revision in (2, 3):
        changed = patch(state, data.draw(change_for(state, SMALL)), SMALL)
        fresh = told(changed, view, scope, revision)
        if required_reasons(state, changed, None, view, scope, SMALL):
            replica = fresh
        else:
            step = simple_after(replica, fresh)
            kept = deepcopy((replica, step))
            made = apply_after(replica, step)
            assert canonical([replica, step]) == canonical(list(kept)), "an argument was changed"
            replica = made
        assert canonical(replica) == canonical(fresh)
        state = changed


@pytest.mark.parametrize(
    "member",
    [
        {"view": "w"},
        {"epoch": "f"},
        {"base": 6},
        {"left": ["9"]},
        {"left": ["1", "1"]},
        {"records": [{"id": "9", "fields": {"a": 1}}]},
        {"records": [{"id": "1", "region": "g", "fields": {}, "entered": True, "at": 0}]},
        {"records": [{"id": "9", "region": "g", "fields": {}, "entered": True, "at": 7}]},
        {"recordIds": {"removed": ["9"]}},
        {"recordIds": {"added": [{"id": "9", "at": 9}]}},
        {"withdrawn": ["b"]},
    ],
)
def test_what_does_not_fit_is_not_taken_in_some_way(member: dict[str, Any]) -> None:
    kept = deepcopy(OLD)
    with pytest.raises(Unfit):
        apply_after(OLD, STEP | member)
    assert kept == OLD


def test_a_projected_record_is_replaced_whole() -> None:
    """Of a view with `select` (§9): the projection as it stands in the window."""
    entry = {"id": "2", "record": {"id": "2", "dest": "IAH"}}
    new = {"id": "7", "entered": True, "at": 0, "record": {"id": "7"}}
    made = apply_after(OLD, STEP | {"records": [entry, new], "left": ["3"]})
    assert [record["id"] for record in made["context"]["records"]] == ["7", "1", "2"]
    assert made["context"]["records"][2] == {"id": "2", "dest": "IAH"}


def test_what_is_null_goes() -> None:
    made = apply_after(OLD, STEP | {"recordIdsWindow": None, "records": [{"id": "1", "truncated": None}]})
    assert "recordIdsWindow" not in made["context"]
    assert made["context"]["records"][0] == {"id": "1", "region": "g", "fields": {"a": 1, "b": 2}}
