"""The command line: forms, targets, refusals and exit statuses, against a scripted peer."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from gateway.cli.answers import refused, retarget
from gateway.core.errors import GatewayError, exceeded, invalid
from tests.scripted import Peer, Script, after, scripted

SURFACE = {"db_path_source": "argv", "db_path_resolved": "redis://h:6379/0", "query_limited": True}


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No configuration of this machine's user; the path of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "context-gateway").mkdir()
    return tmp_path / "context-gateway" / "config.toml"


def name_target(config: Path, url: str) -> None:
    config.write_text(f'url = "{url}"')


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


async def run_beside(*arguments: str, stdin: bytes = b"") -> Result:
    """Run a command while the test's own loop serves it."""
    return await anyio.to_thread.run_sync(lambda: run(*arguments, stdin=stdin))


def result_of(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1, "one compact line"
    return msgspec.json.decode(result.stdout_bytes)


def error_of(result: Result, status: int) -> dict[str, Any]:
    assert result.exit_code == status, result.output
    told = msgspec.json.decode(result.stdout_bytes)
    assert set(told) == {"error"}
    error: dict[str, Any] = told["error"]
    assert list(error)[:5] == ["code", "kind", "message", "errorClass", "retryable"]
    assert error["message"] in result.stderr, "people are told too"
    return error


def answering(method: str, result: dict[str, Any], asked: list[dict[str, Any]] | None = None) -> Script:
    async def script(peer: Peer) -> None:
        params = await peer.expect(method)
        if asked is not None:
            asked.append(params)
        await peer.reply(result)

    return script


# Without a gateway


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("describe",),
        ("describe", "s", "--offset", "x"),
        ("describe", "s", "--presence"),
        ("describe", "\udcff"),
        ("changes", "s"),
        ("changes", "s", "--since", "v"),
        ("changes", "s", "--since", "v:e"),
        ("changes", "s", "--since", "v:e:x"),
        ("changes", "s", "--since", ":e:1"),
        ("publish", "s", "-", "--url", "ws://h", "--base", "e:"),
        ("patch", "s", "-", "--url", "ws://h", "--base", "none"),
        ("patch", "s", "-", "--url", "ws://h", "--base", "e:٣"),
        ("demo", "--speed", "0"),
        ("demo", "--speed", "nan"),
        ("serve", "--port", "x"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...]) -> None:
    error = error_of(run(*arguments), 2)
    assert (error["kind"], error["code"], error["errorClass"], error["retryable"]) == ("usage", 2, "permanent", False)


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (("serve", "--workers", "2"), "workers"),
        (("serve", "--auth", "jwt"), "auth"),
        (("serve", "--jwt-key", "f"), "jwt_key"),
        (("serve", "--jwks", "f"), "jwks"),
        (("serve", "--host", "0.0.0.0"), "host"),
        (("serve", "--port", "65536"), "port"),
        (("serve", "--db", "mysql://h"), "db"),
        (("serve", "--origin", "nonsense"), "origins"),
        (("serve", "--config", "/nonexistent"), "config"),
        (("demo", "--db", "redis://:hunter2@h"), "db"),
        (("describe", "s", "--url", "ws://u:hunter2@h"), "url"),
    ],
)
def test_what_is_not_served_or_wrong_is_refused_by_name(arguments: tuple[str, ...], setting: str) -> None:
    result = run(*arguments)
    error = error_of(result, 2)
    assert (error["kind"], error["setting"]) == ("bad_setting", setting)
    assert "hunter2" not in result.output


@pytest.mark.parametrize("command", [("publish", "s", "-"), ("patch", "s", "-"), ("end", "s")])
@pytest.mark.parametrize(
    ("toml", "kind", "source"),
    [("", "target_not_designated", "default"), ('url = "ws://127.0.0.1:9"', "target_inherited", "xdg")],
)
def test_a_change_wants_a_named_target(
    own_config: Path, command: tuple[str, ...], toml: str, kind: str, source: str
) -> None:
    own_config.write_text(toml)
    error = error_of(run(*command, stdin=b"{}"), 2)
    assert (error["code"], error["kind"], error["agent_surface"]) == (2020, kind, {"db_path_source": source})
    assert "--use-active" in error["suggestion"]


@pytest.mark.parametrize("command", ["describe", "watch", "sessions"])
def test_nobody_there_is_3_and_retryable(command: str, unused_tcp_port: int) -> None:
    arguments = [] if command == "sessions" else ["s"]
    error = error_of(run(command, *arguments, "--url", f"ws://127.0.0.1:{unused_tcp_port}"), 3)
    assert (error["kind"], error["errorClass"], error["retryable"]) == ("gateway_unreachable", "transient", True)


@pytest.mark.parametrize(
    ("stdin", "kind"),
    [
        (b"", "parse_error"),
        (b"nonsense", "parse_error"),
        (b"\xef\xbb\xbf{}", "parse_error"),
        (b'{"a":"\xff"}', "parse_error"),
        (b'{"a":NaN}', "parse_error"),
        (b"[" * 100_000, "parse_error"),
        (b"[]", "invalid_params"),
        (b"null", "invalid_params"),
    ],
)
@pytest.mark.parametrize("command", ["publish", "patch"])
def test_a_file_that_is_no_json_object_is_refused_before_anything_is_sent(
    command: str, stdin: bytes, kind: str
) -> None:
    assert error_of(run(command, "s", "-", "--url", "ws://127.0.0.1:9", stdin=stdin), 2)["kind"] == kind


def test_a_file_that_is_missing_or_a_directory(tmp_path: Path) -> None:
    publish = ("publish", "s", "--url", "ws://127.0.0.1:9")
    assert error_of(run(*publish, str(tmp_path / "missing")), 4)["kind"] == "file_unreadable"
    assert error_of(run(*publish, str(tmp_path)), 2)["kind"] == "file_unreadable"


# Against a peer


async def test_describe_tells_the_result_as_it_came_with_the_layer_of_its_target() -> None:
    context = {"records": [{"id": "Ä", "fields": {"b": 1.5, "a": None}}], "agent_surface": SURFACE}
    asked: list[dict[str, Any]] = []
    async with scripted(answering("describe", {"session": "s", "context": context, "revision": 3}, asked)) as url:
        result = await run_beside("describe", "s", "--offset", "2", "--limit", "1", "--url", url)
    assert asked == [{"session": "s", "offset": 2, "limit": 1}]
    assert result.stdout_bytes.decode() == (
        '{"session":"s","context":{"records":[{"id":"Ä","fields":{"b":1.5,"a":null}}],"agent_surface":{"db_path_source":'
        '"argv","db_path_resolved":"redis://h:6379/0","query_limited":true}},"revision":3}\n'
    )


@pytest.mark.parametrize(("given", "record"), [(["a"], "a"), (["a", "a/b"], ["a", "a/b"])])
async def test_records_are_one_id_or_a_list(given: list[str], record: Any) -> None:
    asked: list[dict[str, Any]] = []
    async with scripted(answering("describe", {}, asked)) as url:
        await run_beside("describe", "s", "--url", url, *(word for id in given for word in ("--record", id)))
    assert asked == [{"session": "s", "record": record}]


async def test_the_file_names_the_target_of_what_reads(own_config: Path) -> None:
    async with scripted(answering("describe", {"context": {"agent_surface": SURFACE}})) as url:
        name_target(own_config, url)
        told = result_of(await run_beside("describe", "s"))
    assert told["context"]["agent_surface"] == SURFACE | {"db_path_source": "xdg"}


@pytest.mark.parametrize("named", [True, False])
async def test_use_active_is_told_where_it_mattered(own_config: Path, named: bool) -> None:
    asked: list[dict[str, Any]] = []
    async with scripted(answering("end", {"agent_surface": SURFACE}, asked)) as url:
        name_target(own_config, url)
        told = result_of(await run_beside("end", "s", "--use-active", *(["--url", url] if named else [])))
    dispensation = {} if named else {"db_path_source": "xdg", "db_path_dispensation": "use-active"}
    assert told == {"agent_surface": SURFACE | dispensation}
    assert asked == [{"session": "s"}]


def test_the_target_members_stand_in_the_order_of_the_seed() -> None:
    told = retarget({"agent_surface": SURFACE}, "xdg", dispensed=True)["agent_surface"]
    assert list(told) == ["db_path_source", "db_path_dispensation", "db_path_resolved", "query_limited"]
    assert SURFACE["db_path_source"] == "argv", "what came is left as it is"


@pytest.mark.parametrize(
    ("base", "sent"),
    [
        ([], None),
        (["--base", "none"], None),
        (["--base", "any"], "any"),
        (["--base", "a:b:7"], {"epoch": "a:b", "revision": 7}),
    ],
)
async def test_publish_sends_the_file_as_it_is_and_no_base_means_none(
    base: list[str], sent: Any, tmp_path: Path
) -> None:
    asked: list[dict[str, Any]] = []
    file = tmp_path / "snapshot.json"
    file.write_text('{"state": {"n": 1}}\n')
    async with scripted(answering("publish", {"epoch": "e", "revision": 1}, asked)) as url:
        told = result_of(await run_beside("publish", "s", str(file), *base, "--url", url))
    assert told == {"epoch": "e", "revision": 1}
    assert asked == [{"session": "s", "snapshot": {"state": {"n": 1}}, "base": sent}]


async def test_patch_without_base_is_made_on_the_position_read_just_before() -> None:
    async def script(peer: Peer) -> None:
        assert await peer.expect("describe") == {"session": "s", "limit": 1}
        await peer.reply({"epoch": "e", "revision": 8})
        params = await peer.expect("patch")
        assert params == {"session": "s", "change": {"state": {}}, "base": {"epoch": "e", "revision": 8}}
        await peer.reply({"epoch": "e", "revision": 9})

    async with scripted(script) as url:
        result = await run_beside("patch", "s", "-", "--url", url, stdin=b'{"state":{}}')
    assert result_of(result) == {"epoch": "e", "revision": 9}
    assert "e:8" in result.stderr


async def test_patch_with_a_base_reads_nothing() -> None:
    asked: list[dict[str, Any]] = []
    async with scripted(answering("patch", {}, asked)) as url:
        result_of(await run_beside("patch", "s", "-", "--base", "any", "--url", url, stdin=b"{}"))
    assert asked == [{"session": "s", "change": {}, "base": "any"}]


async def test_what_is_larger_than_the_gateway_takes_is_not_sent() -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("hello")
        await peer.reply({"limits": {"publishBytes": 1000}})

    text = msgspec.json.encode({"state": {"a": "x" * 1000}})
    async with scripted(script, hello=False) as url:
        error = error_of(await run_beside("publish", "s", "-", "--url", url, stdin=text), 2)
    assert (error["kind"], error["limit"], error["maximum"]) == ("limit_exceeded", "publishBytes", 1000)


async def test_changes_sends_view_and_position() -> None:
    asked: list[dict[str, Any]] = []
    async with scripted(answering("changes", {"kind": "unchanged", "agent_surface": SURFACE}, asked)) as url:
        told = result_of(await run_beside("changes", "s", "--since", "v_1:e:4", "--limit", "2", "--url", url))
    assert told == {"kind": "unchanged", "agent_surface": SURFACE}
    assert asked == [{"session": "s", "limit": 2, "since": {"view": "v_1", "epoch": "e", "revision": 4}}]


async def test_sessions_lists_all_pages_as_one() -> None:
    async def script(peer: Peer) -> None:
        assert await peer.expect("sessions") == {"prefix": "p", "limit": 100}
        await peer.reply({"sessions": [{"session": "p1"}], "next": "p1", "total": 2})
        assert await peer.expect("sessions") == {"prefix": "p", "limit": 100, "cursor": "p1"}
        await peer.reply({"sessions": [{"session": "p2"}], "total": 2})

    async with scripted(script) as url:
        told = result_of(await run_beside("sessions", "--prefix", "p", "--url", url))
    assert told == {"sessions": [{"session": "p1"}, {"session": "p2"}], "total": 2}


@pytest.mark.parametrize(
    ("kind", "error_class", "status"),
    [
        ("invalid_params", "permanent", 2),
        ("conflict", "transient", 2),
        ("limit_exceeded", "permanent", 2),
        ("rate_limited", "transient", 2),
        ("unknown_method", "permanent", 2),
        ("of_a_later_version", "permanent", 2),
        ("unknown_session", "permanent", 4),
        ("unauthorized", "permanent", 5),
        ("forbidden", "permanent", 5),
        ("store_unavailable", "transient", 3),
        ("internal", "transient", 1),
    ],
)
async def test_a_refusal_is_told_whole_and_by_its_status(kind: str, error_class: str, status: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("describe")
        await peer.refuse(kind, error_class, path="/session")

    async with scripted(script) as url:
        error = error_of(await run_beside("describe", "s", "--url", url), status)
    assert (error["kind"], error["errorClass"], error["path"]) == (kind, error_class, "/session")


@pytest.mark.parametrize(("code", "status"), [(1009, 2), (1011, 1), (1012, 3), (1013, 3), (4004, 3), (4501, 5)])
async def test_a_close_before_the_answer(code: int, status: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.expect("describe")
        await peer.socket.close(code)

    async with scripted(script) as url:
        error = error_of(await run_beside("describe", "s", "--url", url), status)
    assert error["close"] == code


async def test_watch_prints_a_line_for_each_item_and_says_on_stderr_why_it_waits() -> None:
    async def first(peer: Peer) -> None:
        params = await peer.subscribed(1)
        assert params == {"session": "s", "limit": 5, "deliver": "push"}
        await peer.after(1, 2)
        await peer.socket.close(1011)

    async def second(peer: Peer) -> None:
        await peer.expect("subscribe")
        await peer.reply({"view": "v", "epoch": "e", "revision": 2, "recovered": True})
        await peer.after(2, 3)
        await peer.socket.close(4501)

    async with scripted(first, second) as url:
        result = await run_beside("watch", "s", "--limit", "5", "--push", "--url", url)
    lines = [msgspec.json.decode(line) for line in result.stdout_bytes.splitlines()]
    assert [line.get("method") for line in lines] == ["described", "after", "after", None]
    assert lines[1] == {"method": "after", "params": after(1, 2)}
    assert lines[3]["error"]["close"] == 4501
    assert "(1011)" in result.stderr
    assert result.exit_code == 5


# As a process


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gateway", *arguments]


async def test_a_reader_that_leaves_ends_a_watch_quietly() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)
        await gone.wait()
        await peer.after(1, 2)

    gone = anyio.Event()
    reader, writer = os.pipe()
    async with (
        scripted(script) as url,
        await anyio.open_process(command("watch", "s", "--url", url), stdout=writer) as process,
    ):
        os.close(writer)
        assert b"described" in await anyio.to_thread.run_sync(os.read, reader, 65_536)
        os.close(reader)
        gone.set()
        assert process.stderr
        errors = b"".join([text async for text in process.stderr])
        assert (await process.wait(), errors) == (0, b"")


async def test_an_interrupt_is_130() -> None:
    async def script(peer: Peer) -> None:
        await peer.subscribed(1)

    async with scripted(script) as url, await anyio.open_process(command("watch", "s", "--url", url)) as process:
        assert process.stdout and process.stderr
        assert b"described" in await process.stdout.receive()
        process.send_signal(signal.SIGINT)
        errors = b"".join([text async for text in process.stderr])
        assert (await process.wait(), errors.strip()) == (130, b"")


def test_a_locale_without_utf8_changes_no_byte(unused_tcp_port: int) -> None:
    environ = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        command("describe", "Ä", "--url", f"ws://127.0.0.1:{unused_tcp_port}"), env=environ, capture_output=True
    )
    assert (done.returncode, msgspec.json.decode(done.stdout)["error"]["kind"]) == (3, "gateway_unreachable")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (invalid("/snapshot/records/0/region", "a region"), 'At "/snapshot/records/0/region": expected is a region.'),
        (exceeded("windowRecords", 100, 101, path="/limit"), 'At "/limit": windowRecords is 100, and 101 were given.'),
        (exceeded("capabilities", 200, 201), "capabilities is 200, and 201 were given."),
    ],
)
def test_a_refusal_says_to_people_where_and_what_would_be_right(error: GatewayError, advice: str) -> None:
    assert refused(error).error["suggestion"] == advice
