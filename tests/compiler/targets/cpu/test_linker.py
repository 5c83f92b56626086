"""What links a program's library, and what is said where nothing can."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from edgewise_compiler.kernels.cpu.isa import ELSEWHERE, ISAS
from edgewise_compiler.targets.cpu.linker import (
    COMPILERS,
    TRIPLES,
    find_linker,
    link,
)
from edgewise_runtime import installed
from edgewise_runtime.errors import CompileError, StorageError

HERE = next(iter(ISAS.values()))
MAC = ELSEWHERE["apple-m1"][0]


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """An object file with a function that returns 3."""
    source = tmp_path / "three.c"
    source.write_text("int three(void) { return 3; }\n")
    subprocess.run([*find_linker(), "-c", "-fPIC", source, "-o", tmp_path / "three.o"], check=True)
    return tmp_path / "three.o"


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_objects_become_a_library_and_nothing_else_is_left(compiled: Path, tmp_path: Path) -> None:
    link([compiled], tmp_path / "three.so", HERE)
    assert ctypes.CDLL(str(tmp_path / "three.so")).three() == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["three.c", "three.o", "three.so"]


@pytest.mark.parametrize("name", COMPILERS)
def test_any_of_the_usual_names_will_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_linker() == (str(tmp_path / name),)


def test_the_package_ziglang_links_where_there_is_no_compiler(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    # Zig's compiler takes the arguments of others; here the system's does the work.
    (package / "__main__.py").write_text(
        "import os, sys\n"
        f"os.environ['PATH'] = {os.environ['PATH']!r}\n"
        f"os.execv({find_linker()[0]!r}, sys.argv[1:])\n"
    )
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("PATH", "")
    assert find_linker() == (sys.executable, "-P", "-m", "ziglang", "cc")
    link([compiled], tmp_path / "three.so", HERE)
    assert ctypes.CDLL(str(tmp_path / "three.so")).three() == 3


def test_where_there_is_none_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(CompileError, match="needs a C compiler") as error:
        find_linker()
    assert error.value.code == "compile.linker"
    for words in ("apt install gcc", "pip install ziglang"):
        assert words in error.value.remedy


def absent(name: str) -> str:
    raise PackageNotFoundError(name)


def test_without_zig_nothing_is_linked_for_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "version", absent)
    with pytest.raises(CompileError, match=r"another kind of machine needs .* ziglang") as error:
        link([tmp_path / "a.o"], tmp_path / "a.so", MAC)
    assert error.value.code == "compile.linker"
    assert installed.ZIG.install in error.value.remedy


def test_zig_is_told_which_machine_it_links_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site/ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import pathlib, sys\n"
        f"pathlib.Path({str(tmp_path / 'told')!r}).write_text(' '.join(sys.argv[1:]))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setattr(installed, "version", lambda name: "0.17.1")
    link([tmp_path / "a.o"], tmp_path / "a.so", MAC)
    told = (tmp_path / "told").read_text()
    assert told.startswith("cc -target aarch64-macos.11.0 -shared ")
    assert "-undefined,dynamic_lookup" in told


def test_every_machine_that_can_be_asked_for_is_one_that_zig_knows() -> None:
    assert {(isa.arch, isa.system) for isas in ELSEWHERE.values() for isa in isas} == {*TRIPLES}


def test_what_the_linker_says_is_handed_on(tmp_path: Path) -> None:
    (tmp_path / "broken.o").write_text("no object at all")
    with pytest.raises(CompileError, match=r"could not link broken.so: .*broken\.o") as error:
        link([tmp_path / "broken.o"], tmp_path / "broken.so", HERE)
    assert error.value.code == "compile.linker"


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "storage.full"), (errno.EROFS, "storage.permission")]
)
def test_a_disk_that_refuses_is_not_the_linkers_fault(
    number: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "cc", f"echo 'ld: final link failed: {os.strerror(number)}' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageError, match=r"Could not link .*a\.so") as error:
        link([tmp_path / "a.o"], tmp_path / "a.so", HERE)
    assert error.value.code == code
