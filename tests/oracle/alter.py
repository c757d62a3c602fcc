"""Random valid changes of a given state (protocol §6.1), built from a `random.Random` like everything in `invent`."""

from random import Random
from typing import Any

from gateway.core.limits import Limits

from .invent import (
    NAMES,
    TEXTS,
    capability,
    feedback,
    fields,
    fresh_id,
    maybe,
    names_of,
    page,
    region,
    scope,
    unavailable,
    value,
)
from .plain import Object
from .rules import ancestors

TOTAL_REGIONS, TOTAL_CAPABILITIES, TOTAL_FEEDBACK, TOTAL_RECORDS = 8, 12, 6, 320
"""Changes do not grow a session past these."""


class Draft:
    """One change in the making, with what the session would hold by then, so that later operations fit.

    Operations may be drawn in any order, and fit whatever order the protocol applies them in: an id that one of them
    touched is left alone by the others, and what is placed is placed beside records that nobody touched.
    """

    def __init__(self, rng: Random, state: Object, limits: Limits) -> None:
        self.rng = rng
        self.state = state
        self.limits = limits
        self.change: Object = {}
        self.regions: dict[str, Object] = {entry["id"]: entry for entry in state["regions"]}
        self.capabilities: dict[str, Object] = {entry["id"]: entry for entry in state["capabilities"]}
        self.records: list[str] = [entry["id"] for entry in state["records"]]
        self.home: dict[str, str] = {entry["id"]: entry["region"] for entry in state["records"]}
        self.touched: set[tuple[str, str]] = set()
        self.doomed_regions: set[str] = set()

    def part(self, name: str, verb: str) -> list[Any]:
        """The list to append to, for instance `records.upsert`."""
        listed: list[Any] = self.change.setdefault(name, {}).setdefault(verb, [])
        return listed

    def untouched(self, part: str, ids: list[str]) -> list[str]:
        return [identity for identity in ids if (part, identity) not in self.touched]

    def pick(self, part: str, ids: list[str]) -> str | None:
        """An id that no operation of this change touched yet, or None; it is touched then."""
        free = self.untouched(part, ids)
        if not free:
            return None
        chosen = self.rng.choice(free)
        self.touched.add((part, chosen))
        return chosen

    def new_id(self, part: str, known: list[str], prefix: str) -> str:
        taken = set(known) | {identity for name, identity in self.touched if name == part}
        made = fresh_id(self.rng, taken, prefix)
        self.touched.add((part, made))
        return made

    def living_regions(self) -> list[str]:
        return [identity for identity in self.regions if identity not in self.doomed_regions]


def edit(draft: Draft) -> None:
    """Change, add and unset fields of a few known records."""
    for _ in range(draft.rng.choice([1, 1, 2, 8])):
        chosen = draft.pick("records", draft.records)
        if chosen is None:
            return
        rng, names = draft.rng, names_of(draft.regions[draft.home[chosen]])
        given = fields(rng, names, 0.05)
        unset = [name for name in [*names, "nobody declared this"] if name not in given and rng.random() < 0.3]
        part = {"id": chosen} | maybe(rng, 0.8, "fields", given) | maybe(rng, 0.4, "unset", unset)
        draft.part("records", "upsert").append(part | maybe(rng, 0.1, "region", draft.home[chosen]))


def edit_nothing(draft: Draft) -> None:
    """Say of a known record what is so already."""
    chosen = draft.pick("records", draft.records)
    if chosen is not None:
        record = next((entry for entry in draft.state["records"] if entry["id"] == chosen), None)
        told = {} if record is None or "truncated" in record else {"fields": dict(record["fields"])}
        draft.part("records", "upsert").append({"id": chosen} | told)


def placed(draft: Draft) -> Object:
    """`before` or `after` a record that stays where it is, or neither."""
    free = draft.untouched("records", draft.records)
    if not free or draft.rng.random() < 0.3:
        return {}
    return {draft.rng.choice(["before", "after"]): draft.rng.choice(free)}


def insert(draft: Draft) -> None:
    """New records, in places or appended."""
    rng = draft.rng
    for _ in range(rng.choice([1, 1, 2, 5])):
        homes = draft.living_regions()
        if not homes or len(draft.records) >= TOTAL_RECORDS:
            return
        place = placed(draft)
        made = draft.new_id("records", draft.records, "n")
        home = rng.choice(homes)
        part = {"id": made, "region": home} | maybe(
            rng, 0.9, "fields", fields(rng, names_of(draft.regions[home]), 0.05)
        )
        draft.part("records", "upsert").append(part | place)
        draft.records.append(made)
        draft.home[made] = home


def keep_anchors(draft: Draft) -> set[str]:
    """The records that upserts of this change are placed beside."""
    upserts = draft.change.get("records", {}).get("upsert", [])
    return {entry[name] for entry in upserts for name in ("before", "after") if name in entry}


def remove(draft: Draft) -> None:
    """Known records go, a few or many."""
    for _ in range(draft.rng.choice([1, 1, 2, 10, 40])):
        anchors = keep_anchors(draft)
        chosen = draft.pick("records", [identity for identity in draft.records if identity not in anchors])
        if chosen is None:
            return
        draft.part("records", "remove").append(chosen)
        draft.records.remove(chosen)


def move(draft: Draft) -> None:
    """Known records stand beside others."""
    for _ in range(draft.rng.choice([1, 1, 3])):
        chosen = draft.pick("records", draft.records)
        if chosen is not None:
            draft.part("records", "upsert").append({"id": chosen} | placed(draft))


def order(draft: Draft) -> None:
    """Asks for every record in an order of its own; written when all other operations are known (`finished`)."""
    draft.change.setdefault("records", {})["order"] = []


def change_region(draft: Draft) -> None:
    """A record goes over to another region."""
    chosen = draft.pick("records", draft.records)
    homes = draft.living_regions()
    if chosen is not None and homes:
        home = draft.rng.choice(homes)
        given = fields(draft.rng, names_of(draft.regions[home]), 0.05)
        draft.part("records", "upsert").append({"id": chosen, "region": home} | maybe(draft.rng, 0.5, "fields", given))
        draft.home[chosen] = home


def region_upsert(draft: Draft) -> None:
    """Switch a known region on, off, modal or not; give it another title or parent."""
    rng = draft.rng
    chosen = draft.pick("regions", draft.living_regions())
    if chosen is None:
        return
    part: Object = {"id": chosen}
    part |= maybe(rng, 0.3, "title", rng.choice(TEXTS)) | maybe(rng, 0.2, "description", rng.choice(TEXTS))
    part |= maybe(rng, 0.5, "active", rng.random() < 0.6) | maybe(rng, 0.3, "modal", rng.random() < 0.5)
    if rng.random() < 0.3:
        # Above it may stand whatever does not stand below it already.
        free = [other for other in draft.living_regions() if chosen not in ancestors(draft.regions, other)]
        part["parent"] = rng.choice([None, *free])
    draft.regions[chosen] = draft.regions[chosen] | part
    draft.part("regions", "upsert").append(part)


def region_insert(draft: Draft) -> None:
    if len(draft.regions) < TOTAL_REGIONS:
        made = draft.new_id("regions", list(draft.regions), "g")
        part = region(draft.rng, made, draft.living_regions(), draft.limits)
        draft.regions[made] = {"parent": None} | part
        draft.part("regions", "upsert").append(part)


def region_remove(draft: Draft) -> None:
    """A region nobody names goes; the records it has go with it when they are few and untouched."""
    named = {entry.get("region") for entry in draft.state["feedback"] + draft.change.get("feedback", [])}
    named |= {entry.get("region") for entry in draft.capabilities.values()}
    named |= {entry["parent"] for entry in draft.regions.values()}
    anchors = keep_anchors(draft)
    candidates = []
    for identity in draft.untouched("regions", draft.living_regions()):
        living = [record for record in draft.records if draft.home[record] == identity]
        free = [record for record in draft.untouched("records", living) if record not in anchors]
        if identity not in named and len(living) <= 20 and free == living:
            candidates.append((identity, living))
    if candidates:
        identity, living = draft.rng.choice(candidates)
        draft.touched.add(("regions", identity))
        draft.doomed_regions.add(identity)
        draft.regions.pop(identity)
        draft.part("regions", "remove").append(identity)
        for record in living:
            draft.touched.add(("records", record))
            draft.part("records", "remove").append(record)
            draft.records.remove(record)


def capability_upsert(draft: Draft) -> None:
    """Known capabilities are replaced, new ones come; a known one keeps what it applies to."""
    rng = draft.rng
    for _ in range(rng.choice([1, 1, 2, 9])):
        known = draft.pick("capabilities", list(draft.capabilities)) if rng.random() < 0.5 else None
        if known is not None:
            part = capability(rng, known, draft.capabilities[known]["appliesTo"], draft.living_regions())
        elif len(draft.capabilities) < TOTAL_CAPABILITIES:
            made = draft.new_id("capabilities", list(draft.capabilities), "c")
            part = capability(rng, made, rng.choice(["record", "session"]), draft.living_regions())
        else:
            continue
        draft.capabilities[part["id"]] = part
        draft.part("capabilities", "upsert").append(part)


def capability_remove(draft: Draft) -> None:
    for _ in range(draft.rng.choice([1, 1, 9])):
        chosen = draft.pick("capabilities", list(draft.capabilities))
        if chosen is not None:
            draft.capabilities.pop(chosen)
            draft.part("capabilities", "remove").append(chosen)


def feedback_whole(draft: Draft) -> None:
    draft.change["feedback"] = []


def unavailable_change(draft: Draft) -> None:
    draft.change["unavailable"] = {}


def page_change(draft: Draft) -> None:
    """Another title, another page, or none."""
    rng = draft.rng
    kind = rng.random()
    if kind < 0.5 and "page" in draft.state:
        draft.change["page"] = draft.state["page"] | {"title": rng.choice(TEXTS)}
    else:
        draft.change["page"] = {"unset": True} if kind > 0.85 else page(rng)


def state_change(draft: Draft) -> None:
    rng = draft.rng
    put = {name: value(rng) for name in rng.sample(NAMES, rng.randrange(3))}
    unset = [name for name in rng.sample(NAMES, 6) if name not in put]
    draft.change["state"] = maybe(rng, 0.8, "set", put) | maybe(rng, 0.5, "unset", unset)


def total_change(draft: Draft) -> None:
    count = len(draft.records)
    draft.change["recordsTotal"] = draft.rng.choice([None, None, 0, count, count + 1, count + 50])


def scope_change(draft: Draft) -> None:
    draft.change["scope"] = scope(draft.rng)


def finished(draft: Draft) -> Object:
    """The change, with those parts that name what the others left."""
    rng, change = draft.rng, draft.change
    if "order" in change.get("records", {}):
        if rng.random() < 0.5 or len(draft.records) < 2:
            rng.shuffle(draft.records)
        else:
            draft.records.insert(rng.randrange(len(draft.records)), draft.records.pop())
        change["records"]["order"] = draft.records
    if "feedback" in change:
        names = (draft.records, list(draft.regions), list(draft.capabilities))
        change["feedback"] = feedback(rng, *names, rng.randrange(TOTAL_FEEDBACK))
    if "unavailable" in change:
        put = unavailable(rng, list(draft.capabilities.values()), draft.records, rng.choice([0, 1, 3, 15]))
        kept = {(entry["capability"], entry.get("record")) for entry in put}
        known = [
            entry for entry in draft.state["unavailable"] if (entry["capability"], entry.get("record")) not in kept
        ]
        known = rng.sample(known, rng.randint(0, len(known)))
        unset = [{name: entry[name] for name in ("capability", "record") if name in entry} for entry in known]
        unset += [{"capability": "never declared"}] * rng.randrange(2)
        change["unavailable"] = maybe(rng, 0.9, "set", put) | maybe(rng, 0.6, "unset", unset)
    return change


OPERATIONS = {
    operation.__name__: operation
    for operation in (
        *(edit, insert, remove, move, order, change_region, edit_nothing),
        *(state_change, unavailable_change, feedback_whole, region_upsert, region_insert, region_remove),
        *(capability_upsert, capability_remove, page_change, total_change, scope_change),
    )
}
"""The kinds of change, simplest first: a failing example shrinks towards the front."""


def change(rng: Random, state: Object, operations: list[str], limits: Limits) -> Object:
    """Params of a `patch` that carries out these operations, as far as the state has something for them."""
    draft = Draft(rng, state, limits)
    for name in operations:
        OPERATIONS[name](draft)
    return finished(draft)
