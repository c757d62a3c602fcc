"""From a message to what it changes: a whole snapshot as its difference (`publish`), a change applied (`patch`, §6.1)."""

from collections.abc import Container, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.core import ingest
from gateway.core.errors import exceeded, invalid
from gateway.core.ingest import Content, Dropped
from gateway.core.limits import Limits
from gateway.core.model import SLICE, Change, Page, Record, Region, Snapshot, text
from gateway.core.order import Steps
from gateway.core.params import ChangeIn, RecordUpsert, RegionIn, RegionUpsert
from gateway.core.placing import Records, scores_for

AT = "/change"
_fields_decoder = msgspec.json.Decoder(dict[str, Raw])


def difference(old: Snapshot, new: Content) -> Steps[Change]:
    """The smallest change from `old` to `new`: equal parts and records are not in it."""
    parts = {
        name: getattr(new, name)
        for name in ("page", "capabilities", "state", "feedback", "unavailable", "records_total", "scope")
        if getattr(new, name) != getattr(old, name)
    }
    if list(new.regions.values()) != list(old.regions.values()):  # their order counts; equal dicts may differ in it
        parts["regions"] = new.regions
    known = [old.records.get(record.id) for record in new.records]
    scores = yield from scores_for([None if record is None else record.score for record in known])
    records: dict[str, Record | None] = {}
    moved: dict[str, int] = {}
    for n, (record, before) in enumerate(zip(new.records, known, strict=True)):
        if before is None or not record.same(before):
            records[record.id] = msgspec.structs.replace(record, score=scores[n])
        elif scores[n] != before.score:
            moved[record.id] = scores[n]
        if n % SLICE == SLICE - 1:
            yield
    kept = {record.id for record in new.records}
    for n, id in enumerate(old.records):
        if id not in kept:
            records[id] = None
        if n % SLICE == SLICE - 1:
            yield
    return Change(parts=parts, records=records, scores=moved)


class _Patch:
    """One change on one snapshot: each step works on the result of the one before (§6.1)."""

    def __init__(self, old: Snapshot, given: ChangeIn, limits: Limits, dropped: Dropped) -> None:
        self.old, self.given, self.limits, self.dropped = old, given, limits, dropped
        self.regions = dict(old.regions)
        self.capabilities = dict(old.capabilities)
        self.records = Records(old)
        self.feedback = old.feedback
        self.unavailable = dict(old.unavailable)
        self.gone_regions: list[str] = []

    def run(self) -> Steps[Change]:
        given = self.given
        if given.regions is not UNSET:
            self._regions()
        if given.capabilities is not UNSET:
            yield from self._capabilities()
        if given.records is not UNSET:
            yield from self._records()
        yield from self.records.settle()
        self._feedback()
        if given.unavailable is not UNSET:
            yield from self._unavailable()
        yield
        self._check_result()
        parts = self._parts()
        records, scores = yield from self.records.change()
        if not parts and not records and self._stays(scores):
            scores = {}
        return Change(parts=parts, records=records, scores=scores)

    def _stays(self, scores: dict[str, int]) -> bool:
        """Whether every moved record came back to where it was: its neighbours are the same."""
        old, new = self.old.order, self.records.order
        return all(old.neighbours(self.old.records[id].score) == new.neighbours(n) for id, n in scores.items())

    def _regions(self) -> None:
        at = AT + "/regions"
        change = self.given.regions
        assert not isinstance(change, UnsetType)
        once(at, "an id", [item.id for item in change.upsert], change.remove)
        for n, item in enumerate(change.upsert):
            known = self.regions.get(item.id)
            make = _new_region if known is None else _changed_region
            self.regions[item.id] = make(item, f"{at}/upsert/{n}", self.limits, known)
        for n, id in enumerate(change.remove):
            if self.regions.pop(id, None) is None:
                raise invalid(f"{at}/remove/{n}", "the id of a region of the snapshot")
        self.gone_regions = change.remove
        if len(self.regions) > self.limits.regions:
            raise exceeded("regions", self.limits.regions, len(self.regions), path=at + "/upsert")
        for n, id in enumerate(change.remove):
            if any(region.parent == id for region in self.regions.values()):
                raise invalid(f"{at}/remove/{n}", "a region without children")
        ingest.check_parents(self.regions, [item.id for item in change.upsert], at + "/upsert")

    def _capabilities(self) -> Steps[None]:
        at = AT + "/capabilities"
        change = self.given.capabilities
        assert not isinstance(change, UnsetType)
        once(at, "an id", [item.id for item in change.upsert], change.remove)
        ingest.check_arguments_bytes(change.upsert, at + "/upsert", self.limits)
        for n, item in enumerate(change.upsert):
            self.capabilities[item.id] = ingest.capability(item, f"{at}/upsert/{n}", self.limits)
        for n, id in enumerate(change.remove):
            if self.capabilities.pop(id, None) is None:
                raise invalid(f"{at}/remove/{n}", "the id of a capability of the snapshot")
            self.unavailable.pop(id, None)
        if len(self.capabilities) > self.limits.capabilities:
            raise exceeded("capabilities", self.limits.capabilities, len(self.capabilities), path=at + "/upsert")
        ingest.check_capability_bytes(self.capabilities, at + "/upsert", self.limits)
        gone = set(change.remove)
        if any(capability in gone for _, capability in self.old.blocked):
            yield from self._unblock(gone)

    def _unblock(self, gone: set[str]) -> Steps[None]:
        for n, (id, record) in enumerate(self.old.records.items()):
            if not gone.isdisjoint(record.unavailable):
                kept = {key: reason for key, reason in record.unavailable.items() if key not in gone}
                self.records.work[id] = msgspec.structs.replace(record, unavailable=kept)
            if n % SLICE == SLICE - 1:
                yield

    def _records(self) -> Steps[None]:
        at = AT + "/records"
        change = self.given.records
        assert not isinstance(change, UnsetType)
        once(at, "an id", [item.id for item in change.upsert], change.remove)
        yield
        for n, id in enumerate(change.remove):
            if id not in self.records:
                raise invalid(f"{at}/remove/{n}", "the id of a record of the snapshot")
        if change.remove:
            yield from self.records.remove(change.remove)
        for n, item in enumerate(change.upsert):
            yield from self._record(item, f"{at}/upsert/{n}")
            if n % SLICE == SLICE - 1:
                yield
        if not isinstance(change.order, UnsetType):
            yield from self.records.arrange(change.order, at + "/order")

    def _record(self, item: RecordUpsert, at: str) -> Steps[None]:
        if item.before is not UNSET and item.after is not UNSET:
            raise invalid(at + "/before", "`before` or `after`, not both")
        _once_unset(item.fields, item.unset, at, "fields")
        known = self.records.get(item.id)
        if known is None and item.region is UNSET:
            raise invalid(at + "/region", "the region of a new record")
        home_id = known.region if known is not None and item.region is UNSET else item.region
        home = self.regions.get(home_id) if isinstance(home_id, str) else None
        if home is None:
            raise invalid(at + "/region", "the id of a region of the snapshot")
        record = self._merged(item, known, home, at)
        if not isinstance(item.before, UnsetType):
            yield from self.records.place(record, known is not None, item.before, False, at + "/before")
        elif not isinstance(item.after, UnsetType):
            yield from self.records.place(record, known is not None, item.after, True, at + "/after")
        elif known is None:
            self.records.append(record)
        else:
            yield from self.records.replace(record, known)

    def _merged(self, item: RecordUpsert, known: Record | None, home: Region, at: str) -> Record:
        values: dict[str, Any] = {}
        cut: set[str] = set()
        if known is not None:
            values = dict(_fields_decoder.decode(known.fields))
            cut = set(known.truncated)
            if known.region != home.id:
                stale = {name: msgspec.json.decode(raw) for name, raw in values.items() if name not in item.fields}
                values, now_cut = ingest.fields(stale, home, at, self.dropped)
                cut = (cut & set(values)) | now_cut
        new, now_cut = ingest.fields(item.fields, home, at, self.dropped)
        values |= new
        for name in item.unset:
            values.pop(name, None)
        cut = ((cut - set(new)) | now_cut) & set(values)
        record = ingest.finished(item.id, home.id, values, cut, at, self.limits)
        return record if known is None else msgspec.structs.replace(record, unavailable=known.unavailable)

    def _feedback(self) -> None:
        if not isinstance(self.given.feedback, UnsetType):
            self.feedback = ingest.feedback(
                self.given.feedback, AT + "/feedback", self.limits, self.records, self.regions, self.capabilities
            )
        else:
            self.feedback = tuple(
                entry
                for entry in self.feedback
                if (entry.record is None or entry.record in self.records)
                and (entry.capability is None or entry.capability in self.capabilities)
            )
        for n, id in enumerate(self.gone_regions):
            if any(entry.region == id for entry in self.feedback):
                raise invalid(f"{AT}/regions/remove/{n}", "a region that no feedback names")

    def _unavailable(self) -> Steps[None]:
        at = AT + "/unavailable"
        change = self.given.unavailable
        assert not isinstance(change, UnsetType)
        put = [(item.capability, None if item.record is UNSET else item.record) for item in change.set]
        unset = [(item.capability, None if item.record is UNSET else item.record) for item in change.unset]
        yield
        once(at, "a pair", put, unset, ("set", "unset"))
        for n, (capability, id) in enumerate(unset):
            self._block(capability, id, None)
            if n % SLICE == SLICE - 1:
                yield
        whole, by_record = yield from ingest.unavailable(
            change.set, at + "/set", self.limits, self.capabilities, self.records
        )
        self.unavailable |= whole
        for n, (id, entries) in enumerate(by_record.items()):
            for capability, reason in entries.items():
                self._block(capability, id, reason)
            if n % SLICE == SLICE - 1:
                yield

    def _block(self, capability: str, id: Any, reason: str | None) -> None:
        if id is None:
            self.unavailable.pop(capability, None)
            return
        record = self.records.get(id)
        if record is None or (reason is None and capability not in record.unavailable):
            return
        entries = {key: value for key, value in record.unavailable.items() if key != capability}
        if reason is not None:
            entries[capability] = reason
        self.records.work[id] = msgspec.structs.replace(record, unavailable=entries)

    def _check_result(self) -> None:
        order = self.records.order
        if order.size > self.limits.records:
            raise exceeded("records", self.limits.records, order.size, path=AT + "/records/upsert")
        for n, id in enumerate(self.gone_regions):
            if order.count(frozenset({id})):
                raise invalid(f"{AT}/regions/remove/{n}", "a region without records")
        if self.given.unavailable is not UNSET:
            entries = sum(self.old.blocked.values()) + len(self.unavailable)
            entries += sum(
                (0 if record is None else len(record.unavailable))
                - (len(self.old.records[id].unavailable) if id in self.old.records else 0)
                for id, record in self.records.work.items()
            )
            if entries > self.limits.records:
                raise exceeded("records", self.limits.records, entries, path=AT + "/unavailable/set")

    def _parts(self) -> dict[str, Any]:
        given, old = self.given, self.old
        new: dict[str, Any] = {"feedback": self.feedback, "unavailable": self.unavailable}
        if given.page is not UNSET:
            new["page"] = self._page()
        if not isinstance(given.state, UnsetType):
            new["state"] = _state(given.state.set, given.state.unset, old.state, self.limits)
        if given.records_total is not UNSET:
            new["records_total"] = given.records_total
        if not isinstance(given.scope, UnsetType):
            new["scope"] = ingest.scope(given.scope, AT + "/scope", self.limits)
        parts = {name: value for name, value in new.items() if value != getattr(old, name)}
        if list(self.regions.values()) != list(old.regions.values()):
            parts["regions"] = self.regions
        if self.capabilities != old.capabilities:
            parts["capabilities"] = self.capabilities
        return parts

    def _page(self) -> Page | None:
        page = self.given.page
        assert not isinstance(page, UnsetType)
        return None if page.unset is True else ingest.page(page, AT + "/page", self.limits)


def patched(old: Snapshot, given: ChangeIn, limits: Limits, dropped: Dropped) -> Steps[Change]:
    """The change `given` makes to `old`; all of it applies, or it is refused (protocol §6.1)."""
    change = yield from _Patch(old, given, limits, dropped).run()
    return change


def once(
    at: str, noun: str, upsert: Sequence[Any], remove: Sequence[Any], names: tuple[str, str] = ("upsert", "remove")
) -> None:
    """No id twice in a list, none in both."""
    seen: set[Any] = set()
    for name, ids in zip(names, (upsert, remove), strict=True):
        for n, id in enumerate(ids):
            if id in seen:
                raise invalid(f"{at}/{name}/{n}", f"{noun} that stands once in `{names[0]}` and `{names[1]}` together")
            seen.add(id)


def _new_region(item: RegionUpsert, at: str, limits: Limits, _: Region | None) -> Region:
    if isinstance(item.title, UnsetType):
        raise invalid(at + "/title", "the title of a new region")
    given = RegionIn(
        id=item.id,
        title=item.title,
        description="" if isinstance(item.description, UnsetType) else item.description,
        parent=None if isinstance(item.parent, UnsetType) else item.parent,
        active=True if isinstance(item.active, UnsetType) else item.active,
        modal=False if isinstance(item.modal, UnsetType) else item.modal,
        fields=[] if isinstance(item.fields, UnsetType) else item.fields,
    )
    return ingest.region(given, at, limits)


def _changed_region(item: RegionUpsert, at: str, limits: Limits, known: Region | None) -> Region:
    assert known is not None
    if item.fields is not UNSET:
        raise invalid(at + "/fields", "no `fields`: those of a known region change only by publish")
    named = {
        name: value
        for name in ("title", "description", "parent", "active", "modal")
        if (value := getattr(item, name)) is not UNSET
    }
    for name in ("title", "description"):
        if name in named:
            ingest.short(named[name], f"{at}/{name}", limits)
    return msgspec.structs.replace(known, **named)


def _once_unset(put: Container[str], unset: Sequence[str], at: str, member: str) -> None:
    """No name twice in `unset`, none in it and in the member that sets it."""
    seen: set[str] = set()
    for n, name in enumerate(unset):
        if name in put:
            raise invalid(f"{at}/{member}/{ingest.escaped(name)}", f"a name in `{member}` or in `unset`, not both")
        if name in seen:
            raise invalid(f"{at}/unset/{n}", "a name that stands once in `unset`")
        seen.add(name)


def _state(put: dict[str, Any], unset: list[str], old: dict[str, Raw], limits: Limits) -> dict[str, Raw]:
    at = AT + "/state"
    _once_unset(put, unset, at, "set")
    merged = dict(old)
    for name in unset:
        merged.pop(name, None)
    merged |= {name: Raw(text(ingest.clean(value)[0])) for name, value in put.items()}
    result = {name: merged[name] for name in sorted(merged)}
    ingest.check_state_bytes(result, at, limits)
    return result
