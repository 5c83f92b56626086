"""Programs of CUDA and of Metal on the emulator, from bundles that have their texts beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgewise_compiler.compile import compile_model
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import made_once
from tests.gpu_emulator.build import CUDA, METAL
from tests.gpu_emulator.device import EmulatedDevice

FEATURES = frozenset(f"sm_{arch}" for arch in (70, 75, 80, 86, 89, 90))

LANGUAGES = {"cuda": (CUDA, "cu", FEATURES), "metal": (METAL, "metal", frozenset())}
"""By target: the language, the suffix of its texts, and what a GPU has."""

Emulate = Callable[..., LoadedProgram]
"""``emulate(case, quant, program, pages, kv="auto")``: a program of a tiny checkpoint, loaded."""


def compiled(
    model: Path, folder: Path, quant: str, kv: str = "auto", targets: tuple[str, ...] = ("cuda",)
) -> Path:
    """A folder with a ``bundle`` that has these programs, and a ``dump`` of texts, made once."""

    def make(out: Path) -> None:
        compile_model(
            model,
            out / "bundle",
            targets=targets,
            quant=quant,
            kv=kv,
            max_batch=8,
            prefill_chunk=128,
            debug_dump=out / "dump",
        )

    return made_once(folder, make)


def load(folder: Path, program: str, pages: int) -> LoadedProgram:
    """A program of what `compiled` made, on the emulator."""
    target = program.partition("-")[0]
    dialect, suffix, features = LANGUAGES[target]
    device = EmulatedDevice(target, dialect, folder / "dump", suffix, features)
    bundle = Bundle.open(folder / "bundle")
    return device.load(bundle, program, load_symbols={"pages": pages}, trust=True)
