"""`context-gateway reshape`: the reshaping layer on any JSON document, without a gateway."""

from typing import Any, Literal

import click
import msgspec

from gateway.cli.answers import REFUSED, CommandError, answer, tell
from gateway.cli.commands import compact, read_json
from gateway.cli.knobs import knob_options, refused
from gateway.core.surface import Ceiling, Facts, Refusal, Shaped, Target, parse
from gateway.core.surface import reshape as shape


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: int
    source: Literal["flag", "default"]
    kind: Literal["pagination", "top-k"]
    universe_total: int | None = None
    offset: int = 0


class Store(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: Literal["argv", "xdg", "default"]
    resolved: str
    use_active: bool = False


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `--context` takes: the facts in the form of the conformance vectors, and `synonyms`."""

    declared_keys: tuple[str, ...] = ("records", "results", "items")
    aliases: dict[str, tuple[str, ...]] = {}
    query: Query | None = None
    target: Store | None = None
    mutates: bool = False
    streamed: bool = False
    synonyms: dict[str, str] = {}

    def facts(self) -> Facts:
        query, target = self.query, self.target
        return Facts(
            declared=self.declared_keys,
            aliases=self.aliases,
            synonyms=self.synonyms,
            ceiling=None
            if query is None
            else Ceiling(
                limit=query.limit, source=query.source, kind=query.kind, offset=query.offset, total=query.universe_total
            ),
            target=None if target is None else Target(target.source, target.resolved, target.use_active),
            mutates=self.mutates,
            streamed=self.streamed,
        )


class Case(msgspec.Struct, frozen=True):
    name: str
    envelope: Any
    knobs: dict[str, Any] = {}
    context: dict[str, Any] = {}


class Cases(msgspec.Struct, frozen=True):
    """The form of `vectors-shared.json`, as far as it is used."""

    vectors: list[Case]
    default_declared_keys: list[str] | None = None


@click.command()
@click.argument("file", default="-", metavar="[FILE|-]")
@knob_options
@click.option("--context", metavar="JSON", help="Facts: declared_keys, aliases, query, target, mutates, streamed.")
@click.option("--cases", metavar="FILE", help="Run the cases of a file instead, one result a line.")
@click.option("--allow-unknown-keys", is_flag=True, help="Judge no key; an unknown one keeps nothing.")
@click.option("--json", "as_json", is_flag=True, help="One compact line, as when piped.")
def reshape(
    file: str,
    surface: dict[str, Any],
    context: str | None,
    cases: str | None,
    allow_unknown_keys: bool,
    as_json: bool,
) -> None:
    """Reshape a JSON document: select, filter, sort, dedupe, cap, count, cut; what was done is told in agent_surface."""
    if allow_unknown_keys:
        surface = surface | {"allow_unknown_keys": True}
    try:
        if cases is not None:
            if surface or context is not None or file != "-":
                raise click.UsageError("--cases brings its own documents, knobs and context.")
            run_cases(cases)
        else:
            run_one(file, surface, context, as_json)
    except RecursionError:
        raise CommandError(REFUSED, "limit_exceeded", "The document is nested too deep.", limit="depth") from None


def run_one(file: str, surface: dict[str, Any], context: str | None, as_json: bool) -> None:
    """One document to stdout."""
    facts = facts_of(context)
    knobs = parse(surface)
    if isinstance(knobs, Refusal):
        raise refused(knobs)
    _, document = read_json(file)
    told = Shaped(document) if is_failure(document) else shape(document, knobs, facts)
    if isinstance(told, Refusal):
        raise refused(told)
    if not knobs.inert() and not isinstance(document, dict) and not isinstance(told.envelope, dict):
        tell("The document is no object: it has no place for agent_surface, so what was cut is not told in it.")
    answer(told.envelope, compact=compact(as_json) or not knobs.inert())


def is_failure(document: Any) -> bool:
    """An error of a command or of JSON-RPC; like the failures the layer knows itself, it is handed on as it is."""
    error = document.get("error") if isinstance(document, dict) else None
    return isinstance(error, dict) and "code" in error and "message" in error


def facts_of(context: str | None) -> Facts:
    """The facts `--context` tells."""
    try:
        return msgspec.json.decode("{}" if context is None else context, type=Context).facts()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise click.BadParameter(
            f"It must be a JSON object of: {', '.join(Context.__struct_fields__)}.", param_hint="--context"
        ) from None


def run_cases(file: str) -> None:
    """One line for each case of a file: `{"name", "output"}` or `{"name", "refused"}`."""
    try:
        given = msgspec.convert(read_json(file)[1], Cases)
        defaults = {} if given.default_declared_keys is None else {"declared_keys": given.default_declared_keys}
        facts = [msgspec.convert(defaults | case.context, Context).facts() for case in given.vectors]
    except msgspec.ValidationError:
        expected = "an object with vectors, each with name, envelope, knobs and context"
        raise CommandError(
            REFUSED, "invalid_params", "The file holds no cases.", code=-32602, expected=expected
        ) from None
    for case, known in zip(given.vectors, facts, strict=True):
        answer({"name": case.name} | outcome(case, known), compact=True)


def outcome(case: Case, facts: Facts) -> dict[str, Any]:
    """What a case comes to."""
    knobs = parse(case.knobs)
    told = knobs if isinstance(knobs, Refusal) else shape(case.envelope, knobs, facts)
    if isinstance(told, Refusal):
        reason = {"reason": told.reason, "discarded": told.discarded, "suggestions": told.suggestions}
        return {"refused": reason}
    return {"output": told.envelope}
