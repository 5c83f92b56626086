"""Generated code is kept: nothing is generated twice, and nothing else is taken for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm.script import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.isa import ISAS, Isa
from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu import thread as gpu
from edgewise_compiler.kernels.gpu.thread import Thread, store
from edgewise_compiler.targets import kept
from edgewise_compiler.targets.cpu.codegen import build_library
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.webgpu.codegen import shader
from edgewise_runtime.errors import StorageError

FIRST = [*ISAS.values()][-1]
OTHER = replace(FIRST, mcpu={"x86_64": "haswell", "aarch64": "cortex-a76"}[FIRST.arch])
HERE = Path(__file__)
ONE, NEXT = 1.0, 1.0 + 2**-52


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where code is kept; nothing is there yet."""
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The modules that TVM compiled since the test began."""
    modules: list[object] = []
    compile_module: Callable[..., object] = tvm.compile

    def counted(module: object, **options: Any) -> object:
        modules.append(module)
        return compile_module(module, **options)

    monkeypatch.setattr(tvm, "compile", counted)
    return modules


def kernel(number: float = ONE) -> PrimFunc:
    """A new object each time, so that what the process itself remembers does not find it."""

    @T.prim_func(s_tir=True)
    def add(x: T.Buffer((16,), "float64")):
        T.func_attr({"global_symbol": "add"})
        for i in range(16):
            x[i] = x[i] + T.float64(number)

    return add


def library(path: Path, number: float = ONE, isa: Isa = FIRST) -> bytes:
    build_library({"add": kernel(number)}, [], isa, path, lambda done, total: None)
    return path.read_bytes()


def module(number: float = ONE) -> tvm.IRModule:
    return tvm.IRModule({"add": kernel(number)})


def answer(content: bytes, number: float = ONE, driver: Path = HERE) -> bytes:
    """What is kept for `module`, and ``content`` where nothing is."""
    return kept.kept(lambda: content, module(number), FIRST.target(), driver)


def test_a_second_build_takes_nothing_from_llvm(
    folder: Path, compiled: list[object], tmp_path: Path
) -> None:
    first = library(tmp_path / "a.so")
    assert len(compiled) == 2, "the kernel and the functions that hand on its arguments"
    assert library(tmp_path / "a.so") == first
    assert len(compiled) == 2


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"number": NEXT}, id="the last bit of a number in the kernel"),
        pytest.param({"isa": OTHER}, id="the instruction set"),
    ],
)
def test_code_is_generated_anew_for_another(
    change: dict[str, Any], folder: Path, compiled: list[object], tmp_path: Path
) -> None:
    first = library(tmp_path / "a.so")
    count = len(compiled)
    assert library(tmp_path / "b.so", **change) != first
    assert len(compiled) > count


def test_a_shader_is_kept_as_it_was_generated(folder: Path) -> None:
    def made() -> Shader:
        def body(thread: Thread, y: Buffer) -> None:
            store(y, 1.5, 0)

        arguments = [Arg("y", "float32", (4,))]
        launch = gpu.kernel("one", arguments, body, threads=1, grid=(1, 1), bounds={})
        return shader(launch.function)

    first = made()
    (entry,) = folder.iterdir()
    assert first.source.encode() == entry.read_bytes()[32:]
    written = entry.stat().st_ino
    assert made() == first
    assert entry.stat().st_ino == written


def test_another_version_of_the_code_that_generates_finds_nothing(
    folder: Path, tmp_path: Path
) -> None:
    driver = tmp_path / "codegen.py"
    driver.write_text("first")
    assert answer(b"of the first", driver=driver) == b"of the first"
    driver.write_text("second")
    assert answer(b"of the second", driver=driver) == b"of the second"
    driver.write_text("first")
    assert answer(b"not asked for", driver=driver) == b"of the first"


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 1]), id="flipped"),
        pytest.param(lambda data: data[:-1], id="cut"),
        pytest.param(lambda data: data[:7], id="cut in its hash"),
        pytest.param(lambda data: b"", id="empty"),
    ],
)
def test_a_damaged_entry_is_replaced(damage: Callable[[bytes], bytes], folder: Path) -> None:
    answer(b"right")
    (entry,) = folder.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert answer(b"right again") == b"right again"
    assert answer(b"not asked for") == b"right again"
    assert list(folder.iterdir()) == [entry]


def test_what_several_write_at_once_is_whole(folder: Path) -> None:
    contents = [bytes([i]) * 100_000 for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(answer, contents))
    assert set(found) <= set(contents)
    assert answer(b"not asked for") in contents
    assert len(list(folder.iterdir())) == 1


@pytest.mark.landing
def test_what_was_not_used_for_longest_makes_room(folder: Path) -> None:
    for i in range(8):
        answer(bytes([i]) * 968, number=float(i))
        (entry,) = (path for path in folder.iterdir() if path.read_bytes()[-1] == i)
        os.utime(entry, ns=(i, i))
    assert answer(b"", number=0.0) == bytes([0]) * 968, "which makes it the last one used"
    kept.trim(folder, 8000)
    assert len(list(folder.iterdir())) == 8
    kept.trim(folder, 7999)
    left = [i for i in range(8) if answer(b"gone", number=float(i)) != b"gone"]
    assert left == [0, 4, 5, 6, 7]


def test_nothing_is_kept_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kept.VARIABLE)
    monkeypatch.chdir(tmp_path)
    assert answer(b"first") == b"first"
    assert answer(b"second") == b"second"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv(kept.VARIABLE, str(tmp_path / "file"))
    with pytest.raises(StorageError, match="keep kernels in"):
        answer(b"content")


def test_only_its_user_may_write_to_the_folder(folder: Path) -> None:
    answer(b"content")
    assert folder.stat().st_mode & 0o777 == 0o700
