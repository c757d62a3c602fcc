"""The README is run: its console blocks in order against a real gateway, its Python, its promises."""

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from gateway.cli import main
from gateway.settings import CHECKS, LATER, Settings
from tests.processes import ROOT, Lines, environment, running

README = (ROOT / "README.md").read_text()
CLI_DOC = (ROOT / "docs" / "cli.md").read_text()
ADDRESS = "127.0.0.1:8787"  # as the README writes it; a test's gateway has a free port
STEP_S = 30.0  # of one command of the README


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[str, list[str]]]:
    """Every command of the console blocks with the lines it shows; `> ` goes on with the command above."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return found


def pattern(shown: str) -> re.Pattern[str]:
    """A line as the README shows it: `…` stands for anything."""
    return re.compile(".*?".join(re.escape(part) for part in shown.split("…")))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout as the README's reader has it: `.venv/bin/context-gateway` below the working directory."""
    program = tmp_path / ".venv" / "bin" / "context-gateway"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gateway "$@"\n')
    program.chmod(0o755)
    return tmp_path


async def test_the_tour_of_the_readme(home: Path) -> None:
    tour = steps()
    assert tour.pop(0) == ("make demo", [f"The departures board is live at ws://{ADDRESS}"])
    async with running(home, "demo", "--port", "0", "--speed", "60") as (url, _):
        config = home / "config" / "context-gateway" / "config.toml"
        await anyio.Path(config.parent).mkdir(parents=True)
        await anyio.Path(config).write_text(f'url = "{url}"\n')
        for command, shown in tour:
            command = command.replace(f"ws://{ADDRESS}", url)
            with anyio.fail_after(STEP_S):
                lines = await (follow if " watch " in command else once)(home, command, len(shown))
            assert len(lines) == len(shown), (command, lines)
            for line, expected in zip(lines, shown, strict=True):
                assert pattern(expected).fullmatch(line), f"{command}\nshown: {expected}\ncame:  {line}"


async def once(home: Path, command: str, count: int) -> list[str]:
    """What a command prints, people's sentences first; each of its `> `-lines included it is one script."""
    done = await anyio.run_process(["sh", "-c", command], cwd=home, env=environment(home), check=False)
    return [*done.stderr.decode().splitlines(), *done.stdout.decode().splitlines()]


async def follow(home: Path, command: str, count: int) -> list[str]:
    """The first lines of a command that runs until it is interrupted."""
    process = await anyio.open_process(
        ["sh", "-c", f"exec {command}"], cwd=home, env=environment(home), stderr=subprocess.DEVNULL
    )
    async with process:
        assert process.stdout
        lines = Lines(process.stdout)
        told = [(await lines.text()).rstrip("\n") for _ in range(count)]
        process.terminate()
    return told


async def test_the_python_of_the_readme(home: Path) -> None:
    [program] = blocks("python")
    async with running(home, "demo", "--port", "0", "--speed", "60") as (url, _):
        with anyio.fail_after(STEP_S):
            done = await anyio.run_process(
                [sys.executable, "-W", "error", "-c", program.replace(f"ws://{ADDRESS}", url)], env=environment(home)
            )
    assert re.fullmatch(r"\d{3} records\ndescribed \d+\nafter \d+\n", done.stdout.decode())


def test_the_readme_begins_with_the_two_commands() -> None:
    first = blocks("sh")[0]
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
    assert README.index("```sh") < 900


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_every_command_and_option_is_documented() -> None:
    for name, command in main.commands.items():
        assert f"`{name}" in CLI_DOC, name
        for parameter in command.params:
            for option in [word for word in parameter.opts if word.startswith("--")]:
                assert option in CLI_DOC, f"{name} {option}"


def test_every_setting_of_the_file_is_documented_with_its_default() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)? ?\|", CLI_DOC, re.MULTILINE))
    assert table.keys() == CHECKS.keys() - {"ready_file"}
    defaults = Settings()
    for name, shown in table.items():
        default = getattr(defaults, name)
        if name != "limits":
            told = {str: f'"{default}"', int: str(default), tuple: "[]"}[type(default)]
            assert shown == told, name
    assert not LATER.keys() & table.keys()
