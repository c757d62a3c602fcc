"""Random valid snapshots, views and scopes, built from a `random.Random`: few draws, many sizes.

Everything here is as a publisher or caller would send it. Texts stay short, so that no response comes near
`limits.responseBytes`; texts are longer than the `maxChars` of some fields.
"""

from random import Random

from gateway.core.limits import RECORDS_ASKED, Limits

from .plain import Json, Object
from .sight import Scope

# fmt: off
IDS = [
    "__proto__", "constructor", "1", "01", "a/b", "Ä", "A\u0308", "{x}", "✈️", "é", "e\u0301", "toString", "null",
    "0", " ", "a b", '"', "\\", "\u2028", "~0", "a.b", "a=b", "#", "ids", "\u200d", "\U0001f469\u200d\u2708", "-1",
    "A", "a", "hasOwnProperty", "x" * 200, "true", "1.0", "%2F", "{", "}", "<b>", "\ufeff", "ﬀ", "ß", "SS", "\ue000",
    "\U00010000",
]
# fmt: on
"""Ids that are like any other to us, and not to a careless map, path, pattern or database."""

# fmt: off
NAMES = [
    "dest", "status", "__proto__", "constructor", "1", "01", "a/b", "Ä", "A\u0308", "{x}", "✈️", "id", "region",
    "fields", "unset", "at", "entered", "truncated", "with blank", '"', "\\", "\u2028", "$ref", "toString", "\ue000",
    "\U00010000",
]
# fmt: on
"""Legal names of fields (no `.` `=` `!` `~` `,`) and of members of `state` and `params`."""

# fmt: off
TEXTS = [
    "", "on time", "Boarding", "delayed 25 min", 'It\'s "quoted" \\ back/slash', "tab\tnew\nline",
    "\x00\x01\x1f\x7f", "\u2028\u2029", "e\u0301e\u0301e\u0301e\u0301",
    "\U0001f6eb\U0001f6ec\U0001f6eb\U0001f6ec\U0001f6eb", "null", "0", "</script>",
    "a text that is longer than the few characters its field may keep", "ÄÖÜäöüß" * 6, "{x}", "$5", "80.0",
    "\ufeffbom",
]
# fmt: on

# fmt: off
NUMBERS: list[Json] = [
    0, 1, -1, 80, 80.0, 1e2, -0.0, 0.1, -2.5, 1e16, 1.5e300, 5e-324, 123456.789, 2**53 - 1, 2**53, -(2**53), 2.0**53,
    10**20, -(10**40), 10**308 + 1, 1 / 3,
]
# fmt: on


def value(rng: Random, depth: int = 0) -> Json:
    """Any JSON, mostly scalar, nested at most three deep."""
    kind = rng.random()
    if kind < 0.12:
        return None
    if kind < 0.22:
        return rng.random() < 0.5
    if kind < 0.45:
        return rng.choice(NUMBERS)
    if kind < 0.85 or depth == 3:
        return rng.choice(TEXTS)
    if kind < 0.92:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {name: value(rng, depth + 1) for name in rng.sample(NAMES, rng.randrange(4))}


def maybe(rng: Random, chance: float, name: str, made: Json) -> Object:
    """`{name: made}` with that chance, else `{}`: a member that may be absent."""
    return {name: made} if rng.random() < chance else {}


def fresh_id(rng: Random, taken: set[str], prefix: str) -> str:
    """An id that is not taken, nasty half of the time; it is taken then."""
    candidates = [rng.choice(IDS), f"{prefix}{rng.randrange(1000)}"]
    rng.shuffle(candidates)
    found = next((identity for identity in candidates if identity not in taken), None)
    if found is None:
        found = f"{prefix}-{len(taken)}-{rng.randrange(10**9)}"
    taken.add(found)
    return found


# --- parts of a snapshot -----------------------------------------------------------------------------------------


def page(rng: Random) -> Object:
    params = {name: rng.choice([*TEXTS, True, False, *NUMBERS]) for name in rng.sample(NAMES, rng.randrange(3))}
    return (
        maybe(rng, 0.7, "title", rng.choice(TEXTS))
        | maybe(rng, 0.7, "route", rng.choice(["/", "/departures", "/arrivals"]))
        | maybe(rng, 0.5, "params", params)
    )


def declaration(rng: Random, name: str, limits: Limits) -> Json:
    if rng.random() < 0.4:
        return name
    return (
        {"name": name}
        | maybe(rng, 0.3, "expose", "plain")
        | maybe(rng, 0.5, "source", rng.choice(["application", "user", "external"]))
        | maybe(rng, 0.6, "maxChars", rng.randint(1, min(20, limits.field_chars)))
    )


def region(rng: Random, identity: str, parents: list[str], limits: Limits) -> Object:
    parent = rng.choice(parents) if parents and rng.random() < 0.5 else None
    return (
        {"id": identity, "title": rng.choice(TEXTS)}
        | maybe(rng, 0.3, "description", rng.choice(TEXTS))
        | (maybe(rng, 0.5, "parent", None) if parent is None else {"parent": parent})
        | maybe(rng, 0.4, "active", rng.random() < 0.6)
        | maybe(rng, 0.3, "modal", rng.random() < 0.5)
        | maybe(
            rng,
            0.95,
            "fields",
            [declaration(rng, name, limits) for name in rng.sample(NAMES, rng.choice([0, 1, 3, 4, 6]))],
        )
    )


def names_of(declared: Object) -> list[str]:
    """The names of the fields a region declares, as sent or as stored."""
    return [entry if isinstance(entry, str) else entry["name"] for entry in declared.get("fields", [])]


def fields(rng: Random, declared: list[str], undeclared: float) -> Object:
    """Values for some declared fields, and now and then for one nobody declared."""
    chosen = [name for name in declared if rng.random() < 0.7]
    if rng.random() < undeclared:
        chosen.append(rng.choice([*NAMES, "nobody declared this"]))
    rng.shuffle(chosen)
    return {name: value(rng) for name in chosen}


def capability(rng: Random, identity: str, applies_to: str, regions: list[str]) -> Object:
    properties = {
        name: {"type": "integer", "minimum": 1.0} for name in rng.sample(["minutes", "ä", "1"], rng.randrange(3))
    }
    arguments = {"type": "object", "properties": properties, "additionalProperties": False}
    within = rng.choice(regions) if regions and rng.random() < 0.5 else None
    return (
        {"id": identity, "title": rng.choice(TEXTS), "description": rng.choice(TEXTS), "appliesTo": applies_to}
        | (maybe(rng, 0.5, "region", None) if within is None else {"region": within})
        | maybe(rng, 0.4, "arguments", arguments)
        | {"effect": rng.choice(["read", "write", "destructive"])}
        | maybe(rng, 0.3, "confirm", rng.random() < 0.5)
        | maybe(rng, 0.3, "idempotent", rng.random() < 0.5)
    )


def feedback(rng: Random, records: list[str], regions: list[str], capabilities: list[str], count: int) -> list[Object]:
    taken: set[str] = set()
    listed = []
    for _ in range(count):
        entry: Object = {"id": fresh_id(rng, taken, "f"), "level": rng.choice(["error", "warning", "notice", "status"])}
        entry["message"] = rng.choice(TEXTS)
        for name, ids in (("record", records), ("region", regions), ("capability", capabilities)):
            if ids and rng.random() < 0.3:
                entry[name] = rng.choice(ids)
        entry |= maybe(rng, 0.5, "source", rng.choice(["application", "user", "external"]))
        listed.append(entry)
    return listed


def unavailable(rng: Random, capabilities: list[Object], records: list[str], count: int) -> list[Object]:
    """At most `count` entries of distinct pairs; with a record only for a capability that applies to records."""
    listed: dict[tuple[str, str | None], Object] = {}
    for _ in range(count if capabilities else 0):
        chosen = rng.choice(capabilities)
        entry: Object = {"capability": chosen["id"]}
        if chosen["appliesTo"] == "record" and records and rng.random() < 0.75:
            entry["record"] = rng.choice(records)
        entry["reason"] = rng.choice(TEXTS)
        listed[chosen["id"], entry.get("record")] = entry
    return list(listed.values())


def scope(rng: Random) -> Object:
    return {name: rng.choice(["t1", "t2"]) for name in rng.sample(["tenant", "__proto__", "Ä"], rng.randrange(3))}


def snapshot(rng: Random, size: int, limits: Limits) -> Object:
    """Params of a `publish` with `size` records (none when no region came out)."""
    taken: set[str] = set()
    regions: list[Object] = []
    for _ in range(rng.choice([1, 1, 2, 3, 4, 5]) if size else rng.randrange(4)):
        regions.append(region(rng, fresh_id(rng, taken, "g"), [entry["id"] for entry in regions], limits))
    rng.shuffle(regions)
    region_ids = [entry["id"] for entry in regions]

    taken = set()
    records = []
    for _ in range(size):
        home = rng.choice(regions)
        entry = {"id": fresh_id(rng, taken, "r"), "region": home["id"]}
        records.append(entry | maybe(rng, 0.9, "fields", fields(rng, names_of(home), 0.05)))
    record_ids = [entry["id"] for entry in records]

    taken = set()
    capabilities = [
        capability(rng, fresh_id(rng, taken, "c"), rng.choice(["record", "session"]), region_ids)
        for _ in range(rng.choice([0, 1, 2, 3, 8, 10, 12]))
    ]
    capability_ids = [entry["id"] for entry in capabilities]
    return (
        maybe(rng, 0.7, "page", page(rng))
        | maybe(rng, 1.0 if regions else 0.5, "regions", regions)
        | maybe(rng, 1.0 if records else 0.5, "records", records)
        | maybe(rng, 0.7, "state", {name: value(rng) for name in rng.sample(NAMES, rng.randrange(4))})
        | maybe(rng, 0.6, "feedback", feedback(rng, record_ids, region_ids, capability_ids, rng.randrange(4)))
        | maybe(rng, 0.7, "unavailable", unavailable(rng, capabilities, record_ids, rng.choice([0, 1, 3, 12])))
        | maybe(rng, 1.0 if capabilities else 0.5, "capabilities", capabilities)
        | maybe(rng, 0.3, "recordsTotal", rng.choice([0, size, size + 1, 10**6]))
        | maybe(rng, 0.3, "scope", scope(rng))
    )


# --- views and scopes --------------------------------------------------------------------------------------------


def view(rng: Random, state: Object, limits: Limits) -> Object:
    """A view's own members: a default window, one in the middle, at or past the end, or a list of ids."""
    total = len(state["records"])
    kind = rng.random()
    if kind < 0.15:
        return {}
    if kind < 0.75:
        offset = rng.choice(
            [0, 0, 1, total // 2, max(0, total - 2), total, total + 3, rng.randrange(total + 1), 10**12]
        )
        limit = rng.choice([1, 2, 5, limits.window_records, rng.randint(1, limits.window_records)])
        return maybe(rng, 0.8, "offset", offset) | maybe(rng, 0.8, "limit", min(limit, limits.window_records))
    known = [record["id"] for record in state["records"]]
    asked = rng.sample(known, min(len(known), rng.choice([0, 1, 1, 3, 10])))
    asked += [identity for identity in rng.sample(IDS, rng.choice([0, 1, 3])) if identity not in asked]
    if not asked:
        asked = ["nowhere"]
    rng.shuffle(asked)
    asked = asked[:RECORDS_ASKED]
    return {"record": asked[0] if len(asked) == 1 and rng.random() < 0.5 else asked}


def granted(rng: Random, state: Object) -> Scope:
    """A narrowed scope: some regions of the session, none, or one it does not have."""
    known = [entry["id"] for entry in state["regions"]]
    return frozenset(rng.sample(known, rng.randint(0, len(known))) + ["no such region"] * rng.randrange(2))


def cause(rng: Random) -> Object | None:
    """Mostly none, or one that requires nothing; sometimes of a kind that does."""
    kind = rng.random()
    if kind < 0.6:
        return None
    if kind < 0.9:
        return {"kind": rng.choice(["action", "data"])}
    required = ["navigation", "modal", "filter", "sort", "pagination", "scope", "availability"]
    return {"kind": rng.choice(required)}
