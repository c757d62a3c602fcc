"""`truncate_content`: texts cut to a number of code points, but in protected places (surface behaviour §5.8, mapping §9)."""

from typing import Any

from gateway.core.surface.facts import Facts, Pattern


class Whole(str):
    """A text no knob cuts. It is marked before anything is projected, so it is known wherever `select` puts it."""

    __slots__ = ()


def protected(envelope: Any, facts: Facts) -> Any:
    """The envelope with the texts of all protected places marked."""
    for pattern in facts.protected:
        envelope = _marked(envelope, pattern)
    return _without_aliases(envelope, facts) if facts.aliased else envelope


def _marked(value: Any, pattern: Pattern) -> Any:
    if not pattern:
        return _whole(value)
    head, below = pattern[0], pattern[1:]
    if isinstance(value, dict):
        if head == "*":
            return {name: _marked(item, below) for name, item in value.items()}
        return value | {head: _marked(value[head], below)} if head in value else value
    if isinstance(value, list) and head == "*":
        return [_marked(item, below) for item in value]
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return Whole(value)
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _without_aliases(envelope: Any, facts: Facts) -> Any:
    """The texts of aliased fields marked, in the records of the regions that declare them."""
    if not isinstance(envelope, dict):
        return envelope

    def record(element: Any) -> Any:
        fields, region = (element.get("fields"), element.get("region")) if isinstance(element, dict) else (None, None)
        if not isinstance(fields, dict) or not isinstance(region, str):
            return element
        aliased = {name: _whole(value) for name, value in fields.items() if (region, name) in facts.aliased}
        return element | {"fields": fields | aliased}

    arrays = {name: envelope[name] for name in facts.declared if isinstance(envelope.get(name), list)}
    return envelope | {name: [record(element) for element in elements] for name, elements in arrays.items()}


def cut(value: Any, chars: int) -> tuple[Any, bool]:
    """The value with every longer text cut to its first `chars` code points, and whether one was; names are no texts."""
    if isinstance(value, Whole):
        return str(value), False
    if isinstance(value, str):
        return value[:chars], len(value) > chars
    if isinstance(value, dict):
        pairs = {name: cut(item, chars) for name, item in value.items()}
        return {name: item for name, (item, _) in pairs.items()}, any(was for _, was in pairs.values())
    if isinstance(value, list):
        items = [cut(item, chars) for item in value]
        return [item for item, _ in items], any(was for _, was in items)
    return value, False
