"""What the top level promises: pins, the compose file, the two commands."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_are_exact_pins_without_addresses() -> None:
    for pin in PINS:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][0-9A-Za-z.]*", pin), pin


def test_every_dependency_is_pinned() -> None:
    pinned = {normal(pin.partition("==")[0]) for pin in PINS}
    wanted = [*PROJECT["dependencies"], *(d for extra in PROJECT["optional-dependencies"].values() for d in extra)]
    names = {normal(re.split(r"[<>=!~\[; ]", line)[0]) for line in wanted}
    assert names <= pinned


def test_compose_file_has_the_form_of_the_compose_specification() -> None:
    assert set(COMPOSE) == {"services", "volumes"}
    assert set(COMPOSE["services"]) == {"redis", "gateway"}
    for service in COMPOSE["services"].values():
        assert ("image" in service) != ("build" in service)
        assert service["healthcheck"]["test"][0] == "CMD"
        assert all(re.fullmatch(r"\d+s", service["healthcheck"][key]) for key in ("interval", "timeout"))
        assert service["healthcheck"]["retries"] > 0
        assert all(isinstance(word, str) for word in service["command"])
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "nothing without authentication is published beyond this machine"
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"], "named volumes only, no path of a host"
    assert COMPOSE["services"]["gateway"]["depends_on"] == {"redis": {"condition": "service_healthy"}}


def test_compose_builds_from_files_that_exist() -> None:
    build = COMPOSE["services"]["gateway"]["build"]
    copied = re.findall(r"^COPY (.+) \S+$", build["dockerfile_inline"], re.MULTILINE)
    for path in " ".join(copied).split():
        assert (ROOT / path).exists(), path


def test_compose_command_is_one_the_gateway_takes() -> None:
    """The service's command line, parsed by the real command."""
    from gateway.cli import main

    words = [re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in COMPOSE["services"]["gateway"]["command"]]
    context = main.commands[words[0]].make_context("serve", words[1:])
    assert context.params["db"] == "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize("target", ["demo", "test", "check", "faults", "soak", "schemas"])
def test_every_target_of_the_makefile_installs_first(target: str) -> None:
    rules = re.findall(rf"^{target}:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [rule.split() for rule in rules] == [["install"]]


def test_requirements_names_what_is_missing_and_stops(tmp_path: Path) -> None:
    """No apt-get in PATH, no redis-server: exit 1 and the packages' names."""
    for tool in ("sh", "id", "grep"):
        (tmp_path / tool).symlink_to(next(p for d in ("/bin", "/usr/bin") if (p := Path(d, tool)).exists()))
    run = subprocess.run(
        [tmp_path / "sh", ROOT / "tests/requirements.sh", "redis"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert run.returncode == 1
    assert "apt-get install redis-server" in run.stderr
    run = subprocess.run(
        [tmp_path / "sh", ROOT / "tests/requirements.sh", "venv", "", tmp_path / "venv"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert run.returncode == 1
    assert "No Python 3.11 or newer found" in run.stderr
