"""A GPU language is packed by its description alone: from a checkpoint to a bundle's programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tvm.tirx import PrimFunc

from edgewise_compiler.compile import compile_model
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.targets.gpu.language import Language, make_programs
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.table import TARGETS, Target
from edgewise_compiler.targets.webgpu.codegen import shader
from edgewise_runtime.errors import CompileError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle, Program

SERIAL = Variant("metal-f32-serial", half=False, subgroups=False, serial=True)


def in_prose(function: PrimFunc) -> Shader:
    """A kernel as a language of the test's own would have it."""
    name = str(function.attrs["global_symbol"])
    return Shader(f"Once there was {name}.", f"tell_{name}", (1, 1, 1), shader(function).access)


PROSE = Language("metal", LEAST, "txt", in_prose, lambda quant, kv: (SERIAL,), lambda v: ("ears",))

BOUNDS = {"context": 64, "prefill_chunk": 32}

Compile = Callable[..., Bundle]


@pytest.fixture
def compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: Callable[[str], Path]
) -> Compile:
    """Compiles a tiny checkpoint for the target ``metal``, which is what a language says."""

    def compiled(language: Language, **more: Any) -> Bundle:
        module = ModuleType("program")
        module.make = partial(make_programs, language)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "edgewise_compiler.targets.metal.program", module)
        monkeypatch.setitem(TARGETS, "metal", Target("metal", layout="gpu", batch=8))
        options: dict[str, Any] = {"targets": ("metal",), "quant": "f32", **BOUNDS, **more}
        return Bundle.open(compile_model(checkpoints("llama-mha"), tmp_path / "bundle", **options))

    return compiled


def test_a_bundle_has_its_kernels_as_the_language_writes_them(compiled: Compile) -> None:
    bundle = compiled(PROSE)
    (program,) = bundle.manifest.programs
    assert (program.id, program.target, program.layout) == ("metal-f32-serial", "metal", "gpu")
    assert program.needs.features == ("ears",)
    for name, path in program.shaders.items():
        assert path == f"programs/metal/{name}.txt"
        assert bundle.read(path).decode() == f"Once there was {name}."
    assert kernels(bundle, program) == {name: f"tell_{name}" for name in program.shaders}


@pytest.mark.parametrize("listed", [False, True])
def test_a_language_of_binaries_has_bytes_in_its_files_and_a_listing_where_people_look(
    listed: bool, compiled: Compile, tmp_path: Path
) -> None:
    def in_bytes(function: PrimFunc) -> Shader:
        made = in_prose(function)
        return replace(made, source="", binary=b"\xff\0" + made.source.encode())

    def listing(binary: bytes) -> str:
        return binary[2:].decode()

    language = replace(PROSE, shader=in_bytes, suffix="bin", listing=listing if listed else None)
    bundle = compiled(language, debug_dump=tmp_path / "dump")
    (program,) = bundle.manifest.programs
    dumped = {path.name: path for path in (tmp_path / "dump" / program.id).iterdir()}
    for name, path in program.shaders.items():
        assert path == f"programs/metal/{name}.bin"
        assert bundle.read(path) == b"\xff\0Once there was " + name.encode() + b"."
        assert f"kernel.{name}.py" in dumped
        if listed:
            text = dumped[f"kernel.{name}.bin.txt"].read_text()
            assert text == f"Once there was {name}."
    texts = [name for name in dumped if name.endswith(".txt")]
    assert len(texts) == (len(program.shaders) if listed else 0)
    assert not [name for name in dumped if name.endswith(".bin")]


def test_a_compiler_of_binaries_gets_each_text_once_for_all_programs(
    compiled: Compile, tmp_path: Path
) -> None:
    seen: list[str] = []
    heard: list[tuple[int, int]] = []

    def binary(entry: str, text: str) -> bytes:
        seen.append(entry)
        return f"{entry}: {text}".encode()

    def progress(what: str, done: int, total: int) -> None:
        if what == "Compiling kernels for every GPU target":
            heard.append((done, total))

    variants = (SERIAL, replace(SERIAL, name="metal-f32-again"))
    language = replace(
        PROSE, suffix="bin", text="txt", binary=binary, variants=lambda q, kv: variants
    )
    bundle = compiled(language, debug_dump=tmp_path / "dump", progress=progress)
    first, second = bundle.manifest.programs
    assert first.shaders == second.shaders
    assert sorted(seen) == sorted(f"tell_{name}" for name in first.shaders)
    for name, path in first.shaders.items():
        assert bundle.read(path).decode() == f"tell_{name}: Once there was {name}."
        dumped = tmp_path / "dump" / first.id / f"kernel.{name}.txt"
        assert dumped.read_text() == f"Once there was {name}."
    total = len(seen)
    assert heard == [(done, total) for done in range(total + 1)]


def test_a_text_that_its_compiler_refuses_ends_the_work(compiled: Compile) -> None:
    def binary(entry: str, text: str) -> bytes:
        raise CompileError(f"{entry} makes no sense.")

    with pytest.raises(CompileError, match=r"tell_.* makes no sense"):
        compiled(replace(PROSE, binary=binary, text="txt"))


def kernels(bundle: Bundle, program: Program) -> dict[str, str]:
    """The entry point of every kernel that the program's plans launch."""
    plans = bundle.plans(program.id).values()
    return {name: kernel.symbol for plan in plans for name, kernel in plan.kernels.items()}


def test_a_kernel_that_writes_what_its_plan_reads_is_refused(compiled: Compile) -> None:
    def careless(function: PrimFunc) -> Shader:
        made = in_prose(function)
        return Shader(made.source, made.entry, made.workgroup, ("read_write",) * len(made.access))

    with pytest.raises(CompileError, match="as read_write, the plan as read"):
        compiled(Language("metal", LEAST, "txt", careless, PROSE.variants, PROSE.features))


def test_a_buffer_beyond_the_languages_limits_is_refused(compiled: Compile) -> None:
    narrow = type(LEAST)("Prose", 8, 256, 16 << 10, 65535, binding=1)
    with pytest.raises(UnsupportedError, match="Prose binds 0 at a time") as error:
        compiled(Language("metal", narrow, "txt", in_prose, PROSE.variants, PROSE.features))
    assert error.value.code == "unsupported.binding"
