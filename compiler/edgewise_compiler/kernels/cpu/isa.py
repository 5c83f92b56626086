"""The instruction sets CPU kernels are written for, and what LLVM is told for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgewise_runtime.cpuid import cpu_arch, cpu_system
from edgewise_runtime.errors import UnsupportedError

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Isa:
    """One code path of the CPU kernels, and the system whose libraries it is put into.

    Attributes:
        name: what kernel factories take as ``isa``; no two have the same, on any architecture.
        arch: machine architecture, ``x86_64`` or ``aarch64``.
        features: CPU flags (named as in /proc/cpuinfo) without which the code must not run.
        mcpu: the LLVM CPU whose features are the starting point; never the host's own, which
            LLVM may misname, so generated code depends on nothing that is not listed here.
        mattr: LLVM features on top of ``mcpu``.
        fused: multiply-add with one rounding is an instruction.
        half: conversion between float16 and float32 is an instruction.
        shuffle: LLVM's name of the instruction that looks bytes up in tables of 16, and how many
            it looks up at once; None where there is none.
        system: that loads the library, a name of `cpu_system`.
    """

    name: str
    arch: str
    features: tuple[str, ...]
    mcpu: str
    mattr: tuple[str, ...]
    fused: bool
    half: bool
    shuffle: tuple[str, int] | None = None
    system: str = cpu_system()

    @property
    def label(self) -> str:
        """The name, and the system where it is not the one that most libraries are for."""
        return self.name if self.system == "linux" else f"{self.name}-{self.system}"

    @property
    def needs(self) -> tuple[str, ...]:
        """What a machine of `arch` must have to run such a program."""
        return (*self.features, self.system)

    @property
    def foreign(self) -> bool:
        """Whether libraries for it are another kind of file than those of this machine."""
        return (self.arch, self.system) != (cpu_arch(), cpu_system())

    def target(self) -> tvm.target.Target:
        """The TVM target that compiles kernels for this instruction set."""
        # Here: what only asks which instruction sets there are does not wait for TVM to load.
        import tvm

        return tvm.target.Target(
            {
                "kind": "llvm",
                "mtriple": f"{self.arch}-{_TRIPLE_SUFFIX[self.system]}",
                "mcpu": self.mcpu,
                "mattr": list(self.mattr),
            }
        )


_TRIPLE_SUFFIX = {
    "linux": "unknown-linux-gnu",
    # The oldest system of Macs with ARM; without a version linkers do not know what they link.
    "macos": "apple-macosx11.0.0",
    "windows": "pc-windows-msvc",
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
        name="neon-dotprod",
        arch="aarch64",
        features=("dotprod",),
        mcpu="generic",
        mattr=("+neon", "+dotprod"),
        fused=True,
        half=True,
        shuffle=("llvm.aarch64.neon.tbl1", 16),
    ),
    Isa(
        name="neon",
        arch="aarch64",
        features=(),
        mcpu="generic",
        mattr=("+neon",),
        fused=True,
        half=True,
        shuffle=("llvm.aarch64.neon.tbl1", 16),
    ),
)

MACHINES = {"x86_64": _X86, "aarch64": _ARM}
"""Instruction sets by architecture, best first."""

ISAS: dict[str, Isa] = {isa.name: isa for isa in MACHINES.get(cpu_arch(), ())}
"""Instruction sets of this machine's architecture, best first."""

_EVERY = {isa.name: isa for machine in MACHINES.values() for isa in machine}

ELSEWHERE: Mapping[str, tuple[Isa, ...]] = {
    "generic-arm64": tuple(replace(isa, system="linux") for isa in _ARM),
    "apple-m1": (replace(_ARM[0], system="macos"),),
}
"""Programs for machines that may be of another kind than this one, by what ``--cpu`` calls them."""


def isa_named(name: str) -> Isa:
    """The instruction set called ``name``, of whichever architecture.

    Raises:
        UnsupportedError: there is none.
    """
    if name not in _EVERY:
        raise UnsupportedError(f"Instruction set {name!r} is not one of {sorted(_EVERY)}.")
    return _EVERY[name]
