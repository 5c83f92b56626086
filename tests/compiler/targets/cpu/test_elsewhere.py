"""Kernels for other kinds of machines are compiled here: what comes out is code for those.

What the code computes is in tests/parity/test_arm64.py, which runs it.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.isa import ELSEWHERE, Isa
from edgewise_compiler.kernels.cpu.matmul.ints import matmul_int
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.targets.cpu.codegen import kernel_object

EM_AARCH64 = 183
MACH_O, ARM64 = 0xFEEDFACF, 0x0100000C
SDOT, SDOT_MASK = 0x4E809400, 0xFFE0FC00
"""``sdot Vd.4S, Vn.16B, Vm.16B`` in any registers."""


@cache
def compiled(scheme: str, isa: Isa) -> bytes:
    return kernel_object(matmul_int(MatmulSpec(8, 32, 64, scheme), isa.name), isa)


def sdots(code: bytes) -> int:
    """How many words of an object file are that instruction."""
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4")
    return int(np.count_nonzero(words & SDOT_MASK == SDOT))


@pytest.mark.parametrize("isa", ELSEWHERE["generic-arm64"], ids=lambda isa: isa.label)
def test_code_for_linux_on_arm_is_elf(isa: Isa) -> None:
    code = compiled("q4", isa)
    assert code[:6] == b"\x7fELF\x02\x01"  # 64 bits, little-endian
    assert struct.unpack_from("<H", code, 18) == (EM_AARCH64,)


def test_code_for_macs_is_mach_o() -> None:
    (isa,) = ELSEWHERE["apple-m1"]
    assert struct.unpack_from("<II", compiled("q4", isa)) == (MACH_O, ARM64)


@pytest.mark.parametrize("scheme", ["q4", pytest.param("q8", marks=pytest.mark.full)])
def test_dot_products_are_instructions_where_the_program_needs_them(scheme: str) -> None:
    found = {isa.label: sdots(compiled(scheme, isa)) for isas in ELSEWHERE.values() for isa in isas}
    # A group of 32 columns takes eight for each four of a panel's rows, in tiles of one and four.
    assert found["neon-dotprod"] >= 8 * 4 * (1 + 4)
    assert found["neon-dotprod-macos"] == found["neon-dotprod"]
    assert found["neon"] == 0
