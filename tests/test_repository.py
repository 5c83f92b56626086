"""What lies in the repository: no machine's paths, no index hosts, nothing large, thin packages."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MIB = 1 << 20
# The demo checkpoint is the one large thing that is meant to be here.
LARGEST_FILE = MIB // 2
LARGEST_DEMO_FILE = 12 * MIB
LARGEST_SOURCE_LINES = 500

# Written in pieces, so that this file does not find itself.
FORBIDDEN = {
    "a package index": r"py"
    r"pi\.org|python"
    r"hosted\.org|index"
    r"-url|find"
    r"-links"
    r"|npm"
    r"js\.|\"resol"
    r"ved\":",
    "a path of one machine": r"(?<![\w.])/(?:ro" r"ot|ho" r"me|wo" r"rk|Us" r"ers)/\w",
    "an issue number": r"(?i)\b(?:issue|pull request|pr) ?#\d+",
    "something left undone": r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b",
}
SOURCES = {".py", ".pyi", ".ts", ".tsx", ".mjs", ".sh"}


@cache
def tracked() -> tuple[Path, ...]:
    """The files git would commit: tracked ones and new ones that are not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def text_of(path: Path) -> str | None:
    """A file's text, or None for a binary one."""
    data = path.read_bytes()
    return None if b"\0" in data[:8192] else data.decode("utf-8")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_mentions(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        if (text := text_of(path)) is not None
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_files_are_small() -> None:
    def limit(path: Path) -> int:
        demo = path.is_relative_to(ROOT / "examples/demo-model")
        return LARGEST_DEMO_FILE if demo else LARGEST_FILE

    assert [p.relative_to(ROOT) for p in tracked() if p.stat().st_size > limit(p)] == []


def test_sources_have_one_subject() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in tracked()
        if path.suffix in SOURCES
    }
    assert {name: n for name, n in lengths.items() if n > LARGEST_SOURCE_LINES} == {}


def test_generated_folders_are_not_committed() -> None:
    generated = {"dist", "build", ".venv", "node_modules"}
    assert [p for p in tracked() if generated & set(p.relative_to(ROOT).parts)] == []


@pytest.mark.parametrize("folder", ["runtime", "compiler", "sdk"])
def test_packages_only_hand_names_on(folder: str) -> None:
    """An __init__ holds a docstring, imports, and tables of names: its logic has a file's name."""
    allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)

    def logic(path: Path) -> list[str]:
        return [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.parse(path.read_text("utf-8")).body
            if not isinstance(node, allowed)
            and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            and not (isinstance(node, ast.FunctionDef) and node.name == "__getattr__")
            and not _only_for_types(node, allowed)
        ]

    packages = [path for path in tracked() if path.name == "__init__.py"]
    ours = [path for path in packages if path.is_relative_to(ROOT / folder)]
    assert ours
    assert [line for path in ours for line in logic(path)] == []


def _only_for_types(node: ast.stmt, allowed: tuple[type[ast.stmt], ...]) -> bool:
    """Whether it hands on names that type checkers see, of modules that are imported when used."""
    return (
        isinstance(node, ast.If)
        and ast.unparse(node.test) == "TYPE_CHECKING"
        and all(isinstance(one, allowed) for one in node.body)
    )


def test_tests_are_never_skipped() -> None:
    pattern = re.compile(r"pytest\.sk" r"ip|mark\.(?:sk" r"ip|xf" r"ail)|import" r"orskip")
    tests = [p for p in tracked() if p.is_relative_to(ROOT / "tests") and p.suffix == ".py"]
    assert tests
    assert [p.relative_to(ROOT) for p in tests if pattern.search(p.read_text("utf-8"))] == []
