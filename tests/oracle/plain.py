"""JSON values as plain Python: order of members, text, numbers (protocol §2, "Text of JSON")."""

import json
from typing import Any

Json = Any
Object = dict[str, Any]


def ascending(value: Json) -> Json:
    """The same value with the members of every object in it ascending by name, by code point."""
    if isinstance(value, dict):
        return {name: ascending(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [ascending(item) for item in value]
    return value


def text(value: Json) -> str:
    """Compact JSON with the members as they stand."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def canonical(value: Json) -> bytes:
    """Canonical form: compact UTF-8, all members ascending by name. `1`, `1.0` and `true` differ in it."""
    return text(ascending(value)).encode()


def same(one: Json, other: Json) -> bool:
    """Equal as JSON. Python's `==` would take `1`, `1.0` and `True` for one."""
    return canonical(one) == canonical(other)


def normal(value: Json) -> Json:
    """Ingest's numbers: one whose value is an integer below 2⁵³ (either sign) becomes that integer, at any depth."""
    if isinstance(value, dict):
        return {name: normal(item) for name, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def cut(value: Json, max_chars: int) -> Json:
    """Every text in a value at most `max_chars` code points long; the names of members are not texts of the value."""
    if isinstance(value, str):
        return value[:max_chars]
    if isinstance(value, dict):
        return {name: cut(item, max_chars) for name, item in value.items()}
    if isinstance(value, list):
        return [cut(item, max_chars) for item in value]
    return value


def holds_member(value: Json, name: str) -> bool:
    """Whether an object at any depth of the value has a member of that name."""
    if isinstance(value, dict):
        return name in value or any(holds_member(item, name) for item in value.values())
    if isinstance(value, list):
        return any(holds_member(item, name) for item in value)
    return False
