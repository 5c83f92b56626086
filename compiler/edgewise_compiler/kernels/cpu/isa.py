"""The instruction sets CPU kernels are written for, and what LLVM is told for each."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgewise_runtime.errors import UnsupportedError

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Isa:
    """One code path of the CPU kernels.

    Attributes:
        name: what kernel factories take as ``isa``.
        arch: machine architecture, ``x86_64`` or ``aarch64``.
        features: CPU flags (named as in /proc/cpuinfo) without which the code must not run.
        mcpu: the LLVM CPU whose features are the starting point; never the host's own, which
            LLVM may misname, so generated code depends on nothing that is not listed here.
        mattr: LLVM features on top of ``mcpu``.
        fused: multiply-add with one rounding is an instruction.
        half: conversion between float16 and float32 is an instruction.
        shuffle: LLVM's name of the instruction that looks bytes up in tables of 16, and how many
            it looks up at once; None where there is none.
    """

    name: str
    arch: str
    features: tuple[str, ...]
    mcpu: str
    mattr: tuple[str, ...]
    fused: bool
    half: bool
    shuffle: tuple[str, int] | None = None

    def target(self) -> tvm.target.Target:
        """The TVM target that compiles kernels for this instruction set."""
        # Here: what only asks which instruction sets there are does not wait for TVM to load.
        import tvm

        return tvm.target.Target(
            {
                "kind": "llvm",
                "mtriple": f"{self.arch}-{_TRIPLE_SUFFIX[platform.system()]}",
                "mcpu": self.mcpu,
                "mattr": list(self.mattr),
            }
        )


_TRIPLE_SUFFIX = {
    "Linux": "unknown-linux-gnu",
    "Darwin": "apple-darwin",
    "Windows": "pc-windows-msvc",
}

_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "fma", "f16c", "avx2")

_X86 = (
    Isa(
        name="avx512vnni",
        arch="x86_64",
        features=_AVX512,
        mcpu="x86-64",
        # Without the last one LLVM may split 512-bit vectors in halves.
        mattr=(*(f"+{name}" for name in _AVX512), "-prefer-256-bit"),
        fused=True,
        half=True,
        shuffle=("llvm.x86.avx512.pshuf.b.512", 64),
    ),
    Isa(
        name="avx2",
        arch="x86_64",
        features=("avx2", "fma", "f16c"),
        mcpu="x86-64",
        mattr=("+avx2", "+fma", "+f16c"),
        fused=True,
        half=True,
        shuffle=("llvm.x86.avx2.pshuf.b", 32),
    ),
    Isa(
        name="portable",
        arch="x86_64",
        features=(),
        mcpu="x86-64",
        mattr=(),
        fused=False,
        half=False,
    ),
)

_ARM = (
    Isa(
        name="portable",
        arch="aarch64",
        features=(),
        mcpu="generic",
        mattr=("+neon",),
        fused=True,
        half=True,
        shuffle=("llvm.aarch64.neon.tbl1", 16),
    ),
)

MACHINES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}

# Instruction sets of this machine's architecture, best first.
ISAS: dict[str, Isa] = {isa.name: isa for isa in MACHINES.get(platform.machine(), ())}


def isa_named(name: str) -> Isa:
    """The instruction set called ``name``; UnsupportedError where this architecture lacks it."""
    if name not in ISAS:
        raise UnsupportedError(
            f"Instruction set {name!r} is not one of {sorted(ISAS)} on {platform.machine()}.",
            remedy="Name one of those, or compile on a machine of the other architecture.",
        )
    return ISAS[name]
