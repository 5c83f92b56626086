"""What no pass fuses runs on kernels of its own, and computes the same model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from edgewise_compiler.compile import compile_model
from edgewise_compiler.graph.build import (
    CPU_FLOAT,
    CPU_INTEGER,
    GPU_FEW_ROWS,
    GPU_MANY_ROWS,
    Pass,
)
from edgewise_compiler.targets.cpu import program as cpu_program
from edgewise_compiler.targets.gpu import language as gpu_language
from edgewise_compiler.targets.webgpu import variants as webgpu_variants
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.parity.driver import Driver, Floats
from tests.parity.sampled import sampled
from tests.parity.test_parity import F32_TOLERANCE

pytestmark = pytest.mark.landing

CASE, EXPERTS = "qwen3-gqa4-d96-bias", "qwen2moe-shared"
PROMPT = [int(token) for token in np.random.default_rng(5).integers(0, 320, 40)]
PAGES = 32


class Left(NamedTuple):
    """Passes left out of a program's list: all of them, or the one named."""

    quant: str
    program: str
    out: str
    case: str = CASE


def lefts() -> list[Left]:
    lists = (
        ("f32", "cpu", CPU_FLOAT),
        ("q8", "cpu", CPU_INTEGER),
        ("f32", "webgpu-f32", GPU_FEW_ROWS),
    )
    return [
        Left(quant, program, out)
        for quant, program, passes in lists
        for out in (*(one.__name__ for one in passes), "all")
    ] + [Left(quant, program, "all", EXPERTS) for quant, program, _ in lists]


ON_CPU = [left for left in lefts() if left.program == "cpu" and left.out != "all"][::2]
ON_CPU += [Left("q8", "cpu", "all", EXPERTS)]


def program_id(bundle: Bundle, program: str) -> str:
    """The one CPU program of a bundle, or the program of that name."""
    return bundle.manifest.programs[0].id if program == "cpu" else program


def logits_of(bundle: Path, program: str) -> Floats:
    """Logits of a prompt in two chunks, and of a decoded token, alone and beside another."""
    opened, symbols = Bundle.open(bundle), {"pages": PAGES}
    device = CpuDevice(threads=2) if program == "cpu" else WgpuDevice()
    with device.load(opened, program_id(opened, program), load_symbols=symbols) as loaded:
        driver = Driver(loaded, pages=PAGES)
        streams = [driver.stream(slot) for slot in range(2)]
        found = driver.prefill([(streams[0], PROMPT[:9])])
        found += driver.prefill([(streams[0], PROMPT[9:]), (streams[1], PROMPT[:20])])
        found.append(driver.decode([(streams[0], 7)])[1])
        found.append(driver.decode([(streams[0], 8), (streams[1], 9)])[1])
    return np.concatenate(found)


@pytest.mark.parametrize("left", sampled(lefts(), ON_CPU, "-".join))
def test_any_pass_can_be_left_out(
    left: Left,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    checkpoints: Callable[[str], Path],
    bundles: BundleFactory,
) -> None:
    target = left.program.partition("-")[0]
    fused = bundles(left.case, left.quant, targets=(target,))

    def without(passes: Sequence[Pass]) -> tuple[Pass, ...]:
        return tuple(p for p in passes if left.out not in ("all", p.__name__))

    monkeypatch.setattr(cpu_program, "CPU_FLOAT", without(CPU_FLOAT))
    monkeypatch.setattr(cpu_program, "CPU_INTEGER", without(CPU_INTEGER))
    monkeypatch.setattr(gpu_language, "GPU_FEW_ROWS", without(GPU_FEW_ROWS))
    monkeypatch.setattr(gpu_language, "GPU_MANY_ROWS", without(GPU_MANY_ROWS))
    only = tuple(variant for variant in webgpu_variants.VARIANTS if variant.name == left.program)
    monkeypatch.setattr(webgpu_variants, "VARIANTS", only)
    unfused = compile_model(
        checkpoints(left.case),
        tmp_path / "bundle",
        targets=(target,),
        quant=left.quant,
        prefill_chunk=128,
    )
    assert launches(unfused, left.program) > launches(fused, left.program)
    difference = logits_of(unfused, left.program) - logits_of(fused, left.program)
    if target == "cpu":
        # Apart or together, a CPU kernel does the same operations on a number in the same order.
        assert not difference.any()
    assert np.abs(difference).max() < F32_TOLERANCE


def launches(bundle: Path, program: str) -> int:
    """Launches of a program's plans, all of them together."""
    opened = Bundle.open(bundle)
    plans = opened.plans(program_id(opened, program))
    return sum(len(plan.steps) for plan in plans.values())
