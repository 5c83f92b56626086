"""Fatbins of small kernels, compiled here by NVRTC: what is in them, and what is refused."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from edgewise_compiler.targets.cuda import fatbin as maker
from edgewise_compiler.targets.cuda.fatbin import CUBINS, OPTIONS, fatbin
from edgewise_compiler.targets.cuda.nvidia import compile_text
from edgewise_compiler.targets.kept import VARIABLE
from edgewise_compiler.targets.table import check_tools
from edgewise_runtime import installed
from edgewise_runtime.errors import BundleError, CompileError
from edgewise_runtime.format.fatbin import Image, KernelUse, read_images, read_uses
from edgewise_runtime.installed import NVFATBIN, NVRTC

TURN = """
extern "C" __global__ void __launch_bounds__(64) turn(
    const float* __restrict__ b0_x, const float* __restrict__ b1_y, float* __restrict__ b2_z) {
  __shared__ float turned[64];
  turned[threadIdx.x] = b0_x[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  b2_z[blockIdx.x * 64 + threadIdx.x] = turned[63 - threadIdx.x] * b1_y[0] + b1_y[1];
}
"""

SPILL = """
extern "C" __global__ void __launch_bounds__(1024) spill(
    const float* __restrict__ b0_x, float* __restrict__ b1_y) {
  float held[96];
  for (int i = 0; i < 96; ++i) held[i] = b0_x[i * 1024 + threadIdx.x];
  for (int turn = 0; turn < 4; ++turn)
    for (int i = 0; i < 96; ++i) held[i] = held[i] * held[(i * 7 + turn) % 96];
  for (int i = 0; i < 96; ++i) b1_y[i * 1024 + threadIdx.x] = held[i];
}
"""


@pytest.fixture(scope="module")
def turn() -> bytes:
    return fatbin("turn", TURN)


def cubins(data: bytes) -> Iterator[Image]:
    return (image for image in read_images("turn", data) if image.kind == "cubin")


def test_a_fatbin_has_code_for_two_architectures_and_ptx_for_later_ones(turn: bytes) -> None:
    images = read_images("turn", turn)
    assert [str(image) for image in images] == ["sm_80", "sm_90", "PTX for 90"]


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        (75, []),
        (80, ["sm_80"]),
        (86, ["sm_80"]),
        (90, ["sm_90", "PTX for 90"]),
        (100, ["PTX for 90"]),
    ],
)
def test_a_gpu_runs_code_of_its_generation_or_ptx(
    arch: int, expected: list[str], turn: bytes
) -> None:
    assert [str(i) for i in read_images("turn", turn) if i.runs_on(arch)] == expected


def test_what_a_kernel_takes_is_what_ptxas_reports(turn: bytes) -> None:
    for image in cubins(turn):
        use = read_uses("turn", image)["turn"]
        options = (f"-arch=sm_{image.arch}", "--ptxas-options=-v", *OPTIONS)
        log = compile_text("turn", TURN, options).log
        assert f"Used {use.registers} registers" in log
        assert f"{use.stack} bytes stack frame" in log
        assert f"{use.shared} bytes smem" in log
        assert use == KernelUse((64, 1, 1), use.registers, 256, 0)


def test_what_does_not_fit_registers_shows_as_stack() -> None:
    for arch in CUBINS:
        options = (f"-arch=sm_{arch}", "--ptxas-options=-v", *OPTIONS)
        made = compile_text("spill", SPILL, options)
        use = read_uses("spill", Image("cubin", arch, made.image))["spill"]
        frame = re.search(r"(\d+) bytes stack frame", made.log)
        assert frame is not None
        assert use.stack == int(frame[1]) > 0
        assert use.registers <= 64


def test_a_product_and_a_sum_stay_apart_and_fmaf_is_one_rounding() -> None:
    apart = compile_text("turn", TURN, ("-arch=compute_90", *OPTIONS)).image.decode()
    assert "fma." not in apart
    fused = TURN.replace("turned[63 - threadIdx.x] * b1_y[0] + b1_y[1]", "fmaf(1.5f, b1_y[0], 2)")
    assert (
        "fma.rn.f32" in compile_text("turn", fused, ("-arch=compute_90", *OPTIONS)).image.decode()
    )


def test_the_same_text_gives_the_same_bytes(turn: bytes) -> None:
    assert fatbin("turn", TURN) == turn


def test_a_kept_fatbin_is_not_compiled_again(
    turn: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert fatbin("turn", TURN) == turn
    monkeypatch.setattr(maker, "compile_text", None)
    assert fatbin("turn", TURN) == turn


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TURN.replace("threadIdx.x", "threadId.x"), 'identifier "threadId" is undefined'),
        (TURN.replace("turn(", "back("), "declares the kernels back"),
        (TURN + TURN.replace("turn(", "back("), "declares the kernels back, turn"),
        ("", "declares the kernels none"),
    ],
)
def test_a_text_that_is_not_the_kernel_is_refused(text: str, said: str) -> None:
    with pytest.raises(CompileError, match=said) as error:
        fatbin("turn", text)
    assert error.value.code == "compile.cuda"


@pytest.mark.parametrize("package", [NVRTC, NVFATBIN])
def test_a_missing_package_is_named_with_the_command_that_installs_both(
    package: installed.Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == package.name:
            raise PackageNotFoundError(name)
        return "12.9"

    monkeypatch.setattr(installed, "version", version)
    for use in (lambda: fatbin("turn", TURN), lambda: check_tools(("cuda",))):
        with pytest.raises(CompileError, match=package.name) as error:
            use()
        assert error.value.code == "compile.nvrtc"
        assert NVRTC.requirement in error.value.remedy
        assert NVFATBIN.requirement in error.value.remedy


def test_what_is_no_fatbin_is_refused(turn: bytes) -> None:
    broken = [b"", turn[:15], turn[:-1], turn + b"\0", b"\x7fELF" + turn[4:]]
    broken.append(turn[:24] + struct.pack("<Q", 1 << 60) + turn[32:])
    for data in broken:
        with pytest.raises(BundleError, match="kernels/turn is no fatbin") as error:
            read_images("kernels/turn", data)
        assert error.value.code == "bundle.fatbin"


def test_a_damaged_cubin_is_refused_or_read_and_nothing_else(turn: bytes) -> None:
    image = next(cubins(turn))
    refused = 0
    for at in range(len(image.data)):
        damaged = bytearray(image.data)
        damaged[at] ^= 0xFF
        try:
            read_uses("turn", Image("cubin", image.arch, bytes(damaged)))
        except BundleError as error:
            refused += error.code == "bundle.fatbin"
    assert refused > 200
