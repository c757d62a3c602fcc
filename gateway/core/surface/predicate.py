"""Filters: one text each, `KEY=VALUE`, `KEY==VALUE`, `KEY!=VALUE` or `KEY~VALUE` (surface behaviour §5.2)."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gateway.core.surface.path import Reader, reader, scalar_text

OPERATOR: Final = re.compile("==|!=|=|~")
"""Found at the earliest place, there the longer one."""


class Predicate(msgspec.Struct, frozen=True):
    key: str
    operator: str
    value: str


def predicate(expression: str) -> Predicate | None:
    """The predicate an expression says; None without an operator or with a blank key."""
    found = OPERATOR.search(expression)
    key = expression[: found.start()].strip() if found else ""
    if found is None or not key:
        return None
    return Predicate(key, found[0], expression[found.end() :])


def keeps(predicate: Predicate, value: Any) -> bool:
    """Whether an element that carries `value` under the predicate's key stays."""
    text = scalar_text(value)
    if predicate.operator == "!=":
        return text != predicate.value
    if text is None:
        return False
    if predicate.operator == "~":
        return predicate.value.lower() in text.lower()  # lower case, not case folding
    return text == predicate.value


def filtered(elements: list[Any], predicates: tuple[Predicate, ...], synonyms: Mapping[str, str]) -> list[Any]:
    """The elements every predicate keeps."""
    read: list[tuple[Predicate, Reader]] = [(each, reader(each.key, synonyms)) for each in predicates]
    return [element for element in elements if all(keeps(each, value(element)) for each, value in read)]
