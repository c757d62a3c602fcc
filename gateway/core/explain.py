"""The second, slow look at params that msgspec refused: where, and what would be right (protocol §3).

msgspec's own messages carry values and no JSON Pointer through free objects, so none of them is passed on. What is
told here is made from the place and from the declared type alone.
"""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from gateway.core.errors import GatewayError, exceeded, invalid
from gateway.core.params import Closed


def explain(members: dict[str, Any], shape: type[Closed]) -> GatewayError:
    """The first fault of `members`, which `msgspec.convert` to `shape` refused.

    Members are judged in the order they stand; a missing one behind those that are there. `invalid_params` with `path`
    and `expected`, or `limit_exceeded` (with `path` too) for an integer above its maximum.
    """
    for fault in _faults(members, _type_info(shape), ""):
        return fault
    # Not reached as long as this module knows every construct `params.py` uses; a test compares the two.
    return invalid("", "params as the protocol says")


@cache  # bounded by the number of methods
def _type_info(shape: type[Closed]) -> inspect.Type:
    return inspect.type_info(shape)


def _faults(value: Any, type: inspect.Type, path: str) -> Iterator[GatewayError]:
    """The faults of `value` under `type`, lazily, in the order described at `explain`."""
    type, description = _bare(type)
    if not _is_kind(value, type):
        yield invalid(path, description or expected(type))
    elif isinstance(type, inspect.UnionType):
        yield from _faults(value, next(option for option in type.types if _is_kind(value, option)), path)
    elif isinstance(type, inspect.StructType):
        yield from _member_faults(value, type, path)
    elif isinstance(type, inspect.DictType):
        for name, member in value.items():
            at = f"{path}/{escape(name)}"
            yield from _faults(name, type.key_type, at)
            yield from _faults(member, type.value_type, at)
    elif isinstance(type, inspect.ListType):
        if not _is_within(len(value), type.min_length, type.max_length):
            yield invalid(path, description or expected(type))
        for index, item in enumerate(value):
            yield from _faults(item, type.item_type, f"{path}/{index}")
    elif isinstance(type, inspect.IntType) and type.le is not None and value > type.le:
        yield exceeded(_named(path), type.le, value, path=path)
    elif not _fits(value, type):
        yield invalid(path, description or expected(type))


def _member_faults(value: dict[str, Any], type: inspect.StructType, path: str) -> Iterator[GatewayError]:
    fields = {field.encode_name: field for field in type.fields}
    for name, member in value.items():
        at = f"{path}/{escape(name)}"
        if name in fields:
            yield from _faults(member, fields[name].type, at)
        elif type.forbid_unknown_fields:
            yield invalid(at, f"no member of this name: {expected(type)}")
    for name, field in fields.items():
        if field.required and name not in value:
            yield invalid(f"{path}/{name}", f"this member: {expected(field.type)}")


def _bare(type: inspect.Type) -> tuple[inspect.Type, str | None]:
    """The type without what is said about it, and the description, when it has one."""
    description: str | None = None
    while isinstance(type, inspect.Metadata):
        description = (type.extra_json_schema or {}).get("description", description)
        type = type.type
    return type, description


def _is_kind(value: Any, type: inspect.Type) -> bool:
    """Whether the value is of the JSON type, its bounds apart. A bool is no number; an integer literal is a float too."""
    type, _ = _bare(type)
    match type:
        case inspect.AnyType():
            return True
        case inspect.UnionType(types=types):
            return any(_is_kind(value, option) for option in types)
        case inspect.StructType() | inspect.DictType():
            return isinstance(value, dict)
        case inspect.ListType():
            return isinstance(value, list)
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case inspect.NoneType():
            return value is None
        case inspect.LiteralType(values=values):
            return any(value.__class__ is option.__class__ and value == option for option in values)
    raise AssertionError(f"a type params.py does not use: {type!r}")


def _fits(value: Any, type: inspect.Type) -> bool:
    """Whether a value of the right JSON type keeps the bounds of a type without members."""
    match type:
        case inspect.StrType():
            # msgspec judges the pattern here too: one reading of it
            return _is_within(len(value), type.min_length, type.max_length) and (
                type.pattern is None or _matches(value, type.pattern)
            )
        case inspect.IntType():
            return _is_within(value, type.ge, None)
        case _:
            return True


def _matches(value: str, pattern: str) -> bool:
    try:
        msgspec.convert(value, _patterned(pattern))
    except msgspec.ValidationError:
        return False
    return True


@cache  # bounded by the number of patterns in params.py
def _patterned(pattern: str) -> Any:
    return Annotated[str, msgspec.Meta(pattern=pattern)]


def _is_within(number: int, least: int | None, most: int | None) -> bool:
    return (least is None or number >= least) and (most is None or number <= most)


def expected(type: inspect.Type) -> str:
    """What would be right, as a fragment of a sentence made from the declared type."""
    type, description = _bare(type)
    if description:
        return description
    match type:
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(expected(option) for option in types))
        case inspect.StructType():
            names = [field.encode_name for field in type.fields]
            return f"an object with no other members than {', '.join(names)}" if names else "an object without members"
        case inspect.DictType():
            return f"an object whose members are: {expected(type.value_type)}"
        case inspect.ListType():
            return f"an array{_range(type.min_length, type.max_length, 'items')}"
        case inspect.StrType():
            return f"a text{_range(type.min_length, type.max_length, 'characters')}"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return f"an integer{_range(type.ge, type.le, '')}"
        case inspect.FloatType():
            return "a number"
        case inspect.NoneType():
            return "null"
        case inspect.LiteralType(values=values):
            return "one of " * (len(values) > 1) + ", ".join(msgspec.json.encode(option).decode() for option in values)
    return "any JSON"


def _range(least: int | None, most: int | None, unit: str) -> str:
    if least is None and most is None:
        return ""
    if most is None:
        return f" of at least {least} {unit}".rstrip()
    return (f" of at most {most} {unit}" if least is None else f" of {least} to {most} {unit}").rstrip()


def escape(name: str) -> str:
    """A name as one part of a JSON Pointer (RFC 6901 §3)."""
    return name.replace("~", "~0").replace("/", "~1")


def _named(path: str) -> str:
    """The name of the member a path leads to or through: the last part that is no index."""
    return next(part for part in reversed(path.split("/")) if not part.isdigit())
