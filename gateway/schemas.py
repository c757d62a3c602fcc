"""The JSON Schemas of the wire, made from the types in the code: what stands in `schemas/` and under `/v1/schemas/`.

One file per schema, JSON Schema 2020-12. `<method>-params` and `<method>-result` are of requests, `<method>` alone of
notifications, `error` of the `error` member of an error reply.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.core import answers
from gateway.core.params import METHODS

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SUFFIX: Final = ".schema.json"
_REF: Final = "#/$defs/{name}"

RESULTS: Final[dict[str, tuple[type, ...]]] = {
    "hello": (answers.HelloResult,),
    "ping": (answers.Empty,),
    "describe": (answers.DescribeResult,),
    "changes": (answers.Unchanged, answers.ChangedAfter, answers.ChangedInvalidated),
    "subscribe": (answers.SubscribedFresh, answers.SubscribedRecovered),
    "unsubscribe": (answers.Empty,),
    "sessions": (answers.SessionsResult,),
    "publish": (answers.PublishResult,),
    "patch": (answers.PublishResult,),
    "end": (answers.EndResult,),
}
"""The results of each method; of several types it is exactly one."""

NOTIFICATIONS: Final[dict[str, tuple[type, ...]]] = {
    "after": (answers.After,),
    "invalidated": (answers.Invalidated,),
    "described": (answers.DescribeResult,),
    "ended": (answers.Ended,),
    "goodbye": (answers.Goodbye,),
}


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its name, ascending."""
    made = {f"{method}-params": _schema(f"{method}-params", shape) for method, shape in METHODS.items()}
    made |= {f"{method}-result": _schema(f"{method}-result", *shapes) for method, shapes in RESULTS.items()}
    made |= {method: _schema(method, *shapes) for method, shapes in NOTIFICATIONS.items()}
    made["error"] = _schema("error", answers.Error)
    return dict(sorted(made.items()))


def texts() -> dict[str, bytes]:
    """The text of every schema file by its file name, ascending; the same for the same code."""
    return {
        f"{name}{SUFFIX}": msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"
        for name, schema in schemas().items()
    }


def write(directory: Path) -> list[Path]:
    """Write every schema file, and remove files of this suffix that are none any more; the paths written.

    Raises:
        OSError: the directory cannot be made or written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    made = texts()
    for stale in _files(directory) - made.keys():
        (directory / stale).unlink()
    for name, text in made.items():
        (directory / name).write_bytes(text)
    return [directory / name for name in made]


def check(directory: Path) -> list[str]:
    """Names of the schema files that are missing, differ from the code, or are none any more; ascending.

    Raises:
        OSError: a file cannot be read.
    """
    made, there = texts(), _files(directory)
    wrong = there ^ made.keys()
    wrong |= {name for name in there & made.keys() if (directory / name).read_bytes() != made[name]}
    return sorted(wrong)


def _files(directory: Path) -> set[str]:
    return {path.name for path in directory.glob(f"*{SUFFIX}")}


def _schema(name: str, *shapes: type) -> dict[str, Any]:
    roots, defs = msgspec.json.schema_components(shapes, ref_template=_REF)
    if answers.DescribeResult.__name__ in defs:  # its `context` names these by a `$ref` of its own
        defs |= msgspec.json.schema_components([answers.Context, answers.Stub], ref_template=_REF)[1]
    head = {"$schema": DIALECT, "$id": f"{name}{SUFFIX}"}
    root = roots[0] if len(shapes) == 1 else {"oneOf": list(roots)}
    return head | root | {"$defs": dict(sorted(defs.items()))}
