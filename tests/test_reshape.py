"""`context-gateway reshape`: documents, cases, and refusals an agent can act on."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from tests.core.surface.shapes import SURFACE

DATA = Path(__file__).parent / "data" / "vectors-shared.json"
ROWS = {"records": [{"id": n, "status": "ok" if n % 2 else "hold"} for n in range(4)], "other": ["long text"] * 3}


def run(*arguments: str, stdin: Any = ROWS) -> Result:
    text = stdin if isinstance(stdin, bytes) else json.dumps(stdin, ensure_ascii=False).encode()
    return CliRunner().invoke(main, ("reshape", *arguments), input=text)


def told(*arguments: str, stdin: Any = ROWS) -> Any:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


def refused(*arguments: str, stdin: Any = ROWS, code: int = 2020) -> Any:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    error = json.loads(result.stdout)["error"]
    assert error["code"] == code and error["message"] in result.stderr
    return error


def test_cases_come_out_as_the_vectors_expect() -> None:
    result = run("--cases", str(DATA))
    vectors = json.loads(DATA.read_text())["vectors"]
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and len(lines) == len(vectors)
    for line, vector in zip(lines, vectors, strict=True):
        assert line.pop("name") == vector["name"]
        assert json.dumps(line, sort_keys=True) == json.dumps(vector["expect"], sort_keys=True)


def test_cases_may_come_by_stdin_and_leave_out_what_is_empty() -> None:
    cases = {"vectors": [{"name": "n", "envelope": {"rows": [1, 2]}}, {"name": "m", "envelope": 1, "knobs": {"x": 1}}]}
    lines = run("--cases", "-", stdin=cases).stdout.splitlines()
    assert lines == [
        '{"name":"n","output":{"rows":[1,2]}}',
        '{"name":"m","refused":{"reason":"bad_value","discarded":["x"],"suggestions":[]}}',
    ]


@pytest.mark.parametrize(
    "cases", [[], {}, {"vectors": [{}]}, {"vectors": [{"name": "n", "envelope": 1, "context": {"q": 1}}]}]
)
def test_a_file_without_cases(cases: Any) -> None:
    assert refused("--cases", "-", stdin=cases, code=-32602)["kind"] == "invalid_params"


def test_cases_bring_everything_themselves() -> None:
    assert refused("--cases", "-", "--max-items", "1", code=2)["kind"] == "usage"


def test_all_knobs_at_once() -> None:
    options: tuple[str, ...] = (
        "--filter",
        "status~O",
        "--filter",
        "id!=9",
        "--sort",
        "status",
        "--dedupe-by",
        "status",
    )
    options += ("--max-items", "1", "--select", "id,nope", "--fields", "status", "--truncate-content", "3")
    answer = told(*options, "--max-output-bytes", "2000")
    assert answer["records"] == [{"id": 0, "status": "hol"}]
    assert answer["other"] == ["lon"] and answer["truncated"] is True
    record = answer["agent_surface"]
    SURFACE.validate(record)
    assert record["select"] == ["id", "nope", "status"] and record["filters"] == 2
    assert (record["input_count"], record["output_count"]) == (4, 1)
    assert told("--count-only")["count"] == 4
    assert told("--allow-unknown-keys", "--filter", "x=1")["records"] == []


def test_the_context_is_that_of_the_vectors() -> None:
    context = {
        "declared_keys": ["other"],
        "aliases": {"other": ["records"]},
        "query": {"limit": 3, "source": "default", "kind": "pagination", "universe_total": 7},
        "target": {"source": "xdg", "resolved": "unix:///s", "use_active": True},
        "mutates": True,
        "streamed": False,
        "synonyms": {},
    }
    record = told("--context", json.dumps(context), "--max-items", "2")["agent_surface"]
    assert record["aliases_removed"] == ["records"] and record["db_path_dispensation"] == "use-active"
    assert (record["universe_total"], record["filter_scope"]) == (7, "page")
    told_plainly = told("--context", json.dumps(context))
    assert "input_count" not in told_plainly["agent_surface"] and told_plainly["records"] == ROWS["records"]


@pytest.mark.parametrize("context", ["", "[]", '{"query":{"limit":1}}', '{"unknown":1}', '{"mutates":1}', "{"])
def test_a_context_that_is_none(context: str) -> None:
    assert refused("--context", context, code=2)["kind"] == "usage"


def test_a_wrong_field_is_corrected_in_one_refusal() -> None:
    error = refused("--filter", "statsu=ok")
    assert (error["kind"], error["discarded"], error["suggestions"]) == ("key_absent", ["filter"], ["status"])
    assert (error["key"], error["array"]) == ("statsu", "records")
    assert len(told("--filter", f"{error['suggestions'][0]}=ok")["records"]) == 2


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("--max-items", "-1"), "bad_value"),
        (("--max-items", "1.0"), "bad_value"),
        (("--truncate-content", "many"), "bad_value"),
        (("--max-output-bytes", "9" * 30), "bad_value"),
        (("--filter-scope", "corpus"), "bad_value"),
        (("--filter", "status"), "filter_syntax"),
        (("--select", " id"), "select_unresolved"),
        (("--sort", "other"), "key_envelope_only"),
    ],
)
def test_what_cannot_be_done_is_refused(options: tuple[str, ...], kind: str) -> None:
    assert refused(*options)["kind"] == kind


@pytest.mark.parametrize("stdin", [{"error": {"code": 2, "message": "m"}}, {"ok": False}, {"$schema": 1}])
def test_failures_are_handed_on_as_they_are(stdin: Any) -> None:
    assert told("--select", "nope", "--count-only", stdin=stdin) == stdin


def test_without_a_knob_a_document_stays_what_it_is() -> None:
    text = '{"z":[1.50,9007199254740993,"é😀\\u0000"],"a":null,"big":123456789012345678901234567890}'
    result = run(stdin=text.encode())
    assert result.stdout == text.replace("1.50", "1.5") + "\n"


def test_a_bare_array_is_shaped_and_people_are_told_what_it_cannot_tell() -> None:
    result = run("--max-items", "1", stdin=[1, 2])
    assert result.stdout == "[1]\n" and "agent_surface" in result.stderr


def test_a_file_or_stdin(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(ROWS))
    assert told(str(file), "--count-only", stdin=b"") == told("-", "--count-only") == told("--count-only")
    assert run(str(tmp_path / "none.json")).exit_code == 4
    assert refused(stdin=b"{", code=-32700)["kind"] == "parse_error"


@pytest.mark.parametrize("depth", [400, 900, 5_000, 100_000])
def test_deep_documents_are_shaped_or_refused(depth: int) -> None:
    result = run("--truncate-content", "1", stdin=b"[" * depth + b'"ab"' + b"]" * depth)
    if result.exit_code:
        assert json.loads(result.stdout)["error"]["kind"] in ("limit_exceeded", "parse_error")
        assert result.exit_code == 2
    else:
        assert result.stdout.strip() == "[" * depth + '"a"' + "]" * depth
