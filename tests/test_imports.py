"""Imports point one way: sdk to runtime, compiler to the file formats, sdk to compiler late."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import BundleFactory

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "edgewise_runtime": ROOT / "runtime/edgewise_runtime",
    "edgewise_compiler": ROOT / "compiler/edgewise_compiler",
    "edgewise": ROOT / "sdk/edgewise",
}
# What the compiler may share with the runtime: the formats that both sides of a bundle agree on,
# how files are written and signed, what is installed, and what this machine's processor is.
SHARED = {
    f"edgewise_runtime.{name}"
    for name in (
        "cost",
        "cpuid",
        "errors",
        "files",
        "folders",
        "format",
        "installed",
        "trust",
    )
}


@dataclass(frozen=True)
class Import:
    """One import statement: which module, where, and whether it runs when the file is imported."""

    module: str
    where: str
    late: bool


def imports_of(package: str) -> list[Import]:
    """Every import of a package's files; `from a import b` also counts as `a.b`."""
    folder = FOLDERS[package]
    found: list[Import] = []
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder).with_suffix("").parts
        home = [package, *inside][:-1]
        where = path.relative_to(ROOT).as_posix()
        found += imports_in(ast.parse(path.read_text("utf-8")), home, where)
    return found


def imports_in(tree: ast.Module, home: list[str], where: str) -> Iterator[Import]:
    late = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(outer)
    } | {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.unparse(outer.test)
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        line = f"{where}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(name.name, line, id(node) in late)
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield Import(module, line, id(node) in late)
            for name in node.names:
                yield Import(f"{module}.{name.name}", line, id(node) in late)


def within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("package", FOLDERS)
def test_a_package_has_files_to_check(package: str) -> None:
    assert imports_of(package)


def test_the_runtime_imports_neither_compiler_nor_sdk_nor_a_framework() -> None:
    banned = {"edgewise_compiler", "edgewise", "tvm", "torch", "transformers"}
    assert [i for i in imports_of("edgewise_runtime") if within(i.module, banned)] == []


def test_the_compiler_shares_only_the_file_formats_with_the_runtime() -> None:
    banned = {"edgewise", "torch", "transformers"}
    used = imports_of("edgewise_compiler")
    assert [i for i in used if within(i.module, banned)] == []
    from_runtime = [i for i in used if within(i.module, {"edgewise_runtime"})]
    assert [
        i for i in from_runtime if i.module != "edgewise_runtime" and not within(i.module, SHARED)
    ] == []


def test_the_sdk_imports_the_compiler_only_where_something_is_compiled() -> None:
    used = imports_of("edgewise")
    late = {"edgewise_compiler", "torch", "transformers"}
    assert [i for i in used if not i.late and within(i.module, late)] == []
    assert [i for i in used if within(i.module, {"tvm"})] == []


def test_the_sdk_compiles_in_a_process_of_its_own() -> None:
    used = imports_of("edgewise")
    assert [i for i in used if within(i.module, {"edgewise_compiler.compile"})] == []
    assert [i for i in used if within(i.module, {"edgewise_compiler.apart"})]


def test_relative_and_late_imports_are_understood() -> None:
    source = "from ..plan import read\nfrom . import files\ndef f():\n    import tvm.relax\n"
    found = list(imports_in(ast.parse(source), ["edgewise_runtime", "devices"], "x.py"))
    assert [(i.module, i.late) for i in found] == [
        ("edgewise_runtime.plan", False),
        ("edgewise_runtime.plan.read", False),
        ("edgewise_runtime.devices", False),
        ("edgewise_runtime.devices.files", False),
        ("tvm.relax", True),
    ]


def loaded_after(code: str) -> str:
    """Which packages of the compiler's side a fresh process has loaded once it ran `code`."""
    watched = ("tvm", "edgewise_compiler", "torch")
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(set({watched}) & sys.modules.keys())"],
        env={**os.environ, "PYTHONPATH": ":".join(str(f.parent) for f in FOLDERS.values())},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["edgewise_runtime", "edgewise"])
def test_importing_what_runs_bundles_never_loads_the_compiler(package: str) -> None:
    assert loaded_after(f"import {package}") == "set()"


def test_a_command_loads_no_other() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom edgewise.cli.main import parse\nparse(['run', 'model', 'text'])\n"
            "print(*sorted(name for name in sys.modules if name.startswith('edgewise.cli.')))\n"
            "print('starlette' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    mine, server = done.stdout.splitlines()
    assert "edgewise.cli.run" in mine.split()
    assert not {"edgewise.cli.serve", "edgewise.cli.chat"} & set(mine.split())
    assert server == "False"


def test_the_help_of_a_command_loads_names_of_targets_and_not_what_makes_them() -> None:
    code = (
        "import contextlib, io\n"
        "from edgewise.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:\n"
        "    main(['compile', '--help'])\n"
        "assert 'webgpu' in said.getvalue()"
    )
    assert loaded_after(code) == "{'edgewise_compiler'}"


def test_what_cannot_be_compiled_is_refused_before_tvm_is_loaded(tmp_path: Path) -> None:
    code = (
        "from edgewise_compiler.compile import compile_model\n"
        "from edgewise_runtime.errors import CheckpointError\n"
        "try:\n"
        f"    compile_model({str(tmp_path)!r}, {str(tmp_path / 'bundle')!r})\n"
        "except CheckpointError:\n"
        "    pass"
    )
    assert loaded_after(code) == "{'edgewise_compiler'}"


def test_running_a_bundle_never_loads_the_compiler(bundles: BundleFactory) -> None:
    bundle = bundles("llama-gqa2-tied-linear")
    code = (
        "from edgewise import Engine\n"
        f"with Engine({str(bundle)!r}) as engine:\n"
        "    assert len(engine.generate([1, 2, 3], max_tokens=4, ignore_eos=True).token_ids) == 4"
    )
    assert loaded_after(code) == "set()"
