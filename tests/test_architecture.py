"""Where what may stand: the imports, sizes and names the design fixes, read from the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GATEWAY = ROOT / "gateway"
MODULES = sorted(GATEWAY.rglob("*.py"))
CORE = sorted((GATEWAY / "core").rglob("*.py"))

MODULE_LINES = 500
FUNCTION_LINES = 70
BANNED = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}

CORE_LIBRARIES = {"msgspec", "immutables", "jsonschema_rs", "rapidfuzz", "gateway.core"}
CORE_STANDARD = {
    "bisect",
    "collections",
    "datetime",
    "difflib",
    "functools",
    "hashlib",
    "itertools",
    "operator",
    "re",
    "typing",
    "urllib.parse",
}
"""What the core may use of the standard library: nothing that waits, opens, asks the time or throws dice."""

ALONE = {
    "redis": {"gateway/store"},
    "websockets": {
        "gateway/connection.py",
        "gateway/deflate.py",
        "gateway/server.py",
        "gateway/pages.py",
        "gateway/client",
    },
    "prometheus_client": {"gateway/metrics.py", "gateway/pages.py"},
    "gateway.cli": {"gateway/cli", "gateway/__main__.py"},
}
"""Who alone may import it: a module, or any of a package."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), name(path))


def imported(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it, by its whole name."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def of(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("path", CORE, ids=name)
def test_the_core_imports_only_what_is_pure(path: Path) -> None:
    assert [module for module in imported(path) if not of(module, CORE_LIBRARIES | CORE_STANDARD)] == []


@pytest.mark.parametrize("path", CORE, ids=name)
def test_the_core_asks_no_clock_and_waits_for_nothing(path: Path) -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert [node.lineno for node in ast.walk(tree(path)) if isinstance(node, waiting)] == []
    clocks = {"now", "today", "utcnow"}
    assert [n.lineno for n in ast.walk(tree(path)) if isinstance(n, ast.Attribute) and n.attr in clocks] == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_library_stands_behind_its_seam(path: Path) -> None:
    for library, allowed in ALONE.items():
        if not any(name(path) == place or name(path).startswith(place + "/") for place in allowed):
            assert [module for module in imported(path) if of(module, {library})] == []


def test_every_seam_is_there() -> None:
    """Or the test above would pass for a library nobody uses any more."""
    for library in ALONE.keys() - {"gateway.cli"}:
        assert any(of(module, {library}) for path in MODULES for module in imported(path)), library


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_and_functions_stay_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MODULE_LINES
    long = [
        node.name
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_names_say_what_is_in_them(path: Path) -> None:
    assert not BANNED & set(path.relative_to(ROOT).with_suffix("").parts)
    words = [node.name.lower() for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    assert [word for word in words if any(word.endswith(banned) for banned in BANNED)] == []


@pytest.mark.parametrize("path", [path for path in CORE if path.stem != "__init__"], ids=name)
def test_every_module_of_the_core_has_its_tests(path: Path) -> None:
    twin = ROOT / "tests" / path.relative_to(GATEWAY).parent / f"test_{path.name}"
    assert twin.is_file()
    assert any(
        node.name.lower().startswith("test")
        for node in tree(twin).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    )


def test_the_reader_of_imports_finds_every_form() -> None:
    source = GATEWAY / "core" / "order.py"
    assert {"bisect.bisect_left", "collections.abc.Generator"} <= set(imported(source))
