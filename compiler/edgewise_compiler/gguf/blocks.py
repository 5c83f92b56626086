"""Every tensor type of GGUF: its block, and how blocks become float32.

The arithmetic is that of ggml's reference (`dequantize_row_*`), rounded where it rounds: float16
scales to float32, one multiplication by a group's own scale, one by the code, one addition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.tables import TABLES

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]
Records = NDArray[Any]
"""Blocks as a structured array ``[n]``; each field is ``[n]`` or ``[n, width]``."""


@dataclass(frozen=True)
class BlockType:
    """One tensor type.

    Attributes:
        name: as ggml spells it.
        elements: weights of a block.
        layout: a block's bytes.
        decode: blocks ``[n]`` to float32 ``[n, elements]``; None for what is not decoded.
    """

    name: str
    elements: int
    layout: np.dtype[Any]
    decode: Callable[[Records], Floats] | None = None

    @property
    def bytes(self) -> int:
        """Size of a block."""
        return self.layout.itemsize


def as_f32(values: NDArray[Any]) -> Floats:
    """As float32, with an axis to broadcast over a group's codes."""
    floats: Floats = values.astype(np.float32)[..., None]
    return floats


def bit_fields(packed: Codes, bits: int, run: int) -> Codes:
    """Unsigned fields of ``bits`` bits, lowest first, out of bytes ``[n, width]``.

    The lowest fields of ``run`` bytes come first, then the next ones of the same bytes.

    Returns:
        ``[n, width · 8 / bits]``
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    runs = packed.reshape(len(packed), -1, 1, run) >> shifts
    fields: Codes = (runs & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)
    return fields


def _centred(codes: Codes, offset: int) -> Floats:
    return codes.astype(np.float32) - np.float32(offset)


def _grouped(codes: NDArray[Any], size: int) -> Floats:
    """Codes ``[n, elements]`` as float32 ``[n, groups, size]``."""
    return codes.astype(np.float32, copy=False).reshape(len(codes), -1, size)


def _flat(groups: Floats) -> Floats:
    return groups.reshape(len(groups), -1)


def _float(blocks: Records) -> Floats:
    return as_f32(blocks)


def _bf16(blocks: Records) -> Floats:
    """bfloat16 is the upper half of a float32."""
    return (blocks.astype(np.uint32) << 16).view(np.float32)[:, None]


def _q4_0(blocks: Records) -> Floats:
    return as_f32(blocks["d"]) * _centred(bit_fields(blocks["qs"], 4, 16), 8)


def _q4_1(blocks: Records) -> Floats:
    return as_f32(blocks["d"]) * bit_fields(blocks["qs"], 4, 16) + as_f32(blocks["m"])


def five_bits(blocks: Records) -> Codes:
    return bit_fields(blocks["qs"], 4, 16) | bit_fields(blocks["qh"], 1, 1) << np.uint8(4)


def _q5_0(blocks: Records) -> Floats:
    return as_f32(blocks["d"]) * _centred(five_bits(blocks), 16)


def _q5_1(blocks: Records) -> Floats:
    return as_f32(blocks["d"]) * five_bits(blocks) + as_f32(blocks["m"])


def _q8_0(blocks: Records) -> Floats:
    return as_f32(blocks["d"]) * blocks["qs"].astype(np.float32)


def _q2_k(blocks: Records) -> Floats:
    scales = blocks["scales"]
    scale = as_f32(as_f32(blocks["d"]) * (scales & np.uint8(15)))
    minimum = as_f32(as_f32(blocks["dmin"]) * (scales >> np.uint8(4)))
    return _flat(scale * _grouped(bit_fields(blocks["qs"], 2, 32), 16) - minimum)


def _q3_k(blocks: Records) -> Floats:
    low, high = np.hsplit(blocks["scales"], [8])
    scales = _centred(bit_fields(low, 4, 8) | bit_fields(high, 2, 4) << np.uint8(4), 32)
    # A bit that is not set takes 4 off, as if it were the sign.
    codes = bit_fields(blocks["qs"], 2, 32) | bit_fields(blocks["hmask"], 1, 32) << np.uint8(2)
    return _flat(as_f32(as_f32(blocks["d"]) * scales) * _grouped(_centred(codes, 4), 16))


def six_bits(blocks: Records) -> tuple[Codes, Codes]:
    """Scale and minimum of each 32 weights as multiples of ``d`` and ``dmin``, ``[n, 8]`` each.

    Six bits each in 12 bytes: the upper ones of the last four lie in the upper ones of the first.
    """
    first, second, rest = np.hsplit(blocks["scales"], [4, 8])
    six, low, high = np.uint8(63), np.uint8(15), np.uint8(48)
    scales = np.hstack([first & six, (rest & low) | (first >> np.uint8(2) & high)])
    minima = np.hstack([second & six, (rest >> np.uint8(4)) | (second >> np.uint8(2) & high)])
    return scales, minima


def _k_groups(blocks: Records, codes: Codes) -> Floats:
    scales, minima = six_bits(blocks)
    scale = as_f32(as_f32(blocks["d"]) * scales)
    return _flat(scale * _grouped(codes, 32) - as_f32(as_f32(blocks["dmin"]) * minima))


def _q4_k(blocks: Records) -> Floats:
    return _k_groups(blocks, bit_fields(blocks["qs"], 4, 32))


def _q5_k(blocks: Records) -> Floats:
    high = bit_fields(blocks["qh"], 1, 32) << np.uint8(4)
    return _k_groups(blocks, bit_fields(blocks["qs"], 4, 32) | high)


def _q6_k(blocks: Records) -> Floats:
    codes = bit_fields(blocks["ql"], 4, 64) | bit_fields(blocks["qh"], 2, 32) << np.uint8(4)
    scale = as_f32(as_f32(blocks["d"]) * blocks["scales"])
    return _flat(scale * _grouped(_centred(codes, 32), 16))


_IQ4, _FP4 = (np.array(TABLES[name], np.float32) for name in ("iq4_nl", "mxfp4"))


def _iq4_nl(blocks: Records) -> Floats:
    return as_f32(blocks["d"]) * _IQ4[bit_fields(blocks["qs"], 4, 16)]


def iq4_xs_scales(blocks: Records) -> Floats:
    """The scale of each 32 weights, ``[n, 8]``."""
    high = bit_fields(blocks["scales_h"], 2, 1) << np.uint8(4)
    return as_f32(blocks["d"]) * _centred(bit_fields(blocks["scales_l"], 4, 1) | high, 32)


def _iq4_xs(blocks: Records) -> Floats:
    values = _IQ4[bit_fields(blocks["qs"], 4, 16)]
    return _flat(as_f32(iq4_xs_scales(blocks)) * _grouped(values, 32))


def mxfp4_scales(blocks: Records) -> Floats:
    """Half of 2^(e - 127), for the doubled table, ``[n, 1]``; subnormal for the two least e."""
    exponent = blocks["e"].astype(np.int32) - 128
    return as_f32(np.ldexp(np.float32(1), exponent))


def _mxfp4(blocks: Records) -> Floats:
    return mxfp4_scales(blocks) * _FP4[bit_fields(blocks["qs"], 4, 16)]


def _decoded(
    name: str, elements: int, decode: Callable[[Records], Floats], fields: str
) -> BlockType:
    """A type from its fields, such as ``"d:f2 qs:16u1"``; one without a name is the whole block."""
    parts = [field.rpartition(":") for field in fields.split()]
    if not parts[0][0]:
        return BlockType(name, elements, np.dtype(f"<{fields}"), decode)
    layout = np.dtype([(field, _dtype(code)) for field, _, code in parts])
    return BlockType(name, elements, layout, decode)


def _dtype(code: str) -> np.dtype[Any]:
    kind, width = np.dtype(f"<{code[-2:]}"), code[:-2]
    return np.dtype((kind, int(width))) if width else kind


def _opaque(name: str, elements: int, size: int) -> BlockType:
    return BlockType(name, elements, np.dtype(f"V{size}"))


TYPES: dict[int, BlockType] = {
    0: _decoded("F32", 1, _float, "f4"),
    1: _decoded("F16", 1, _float, "f2"),
    2: _decoded("Q4_0", 32, _q4_0, "d:f2 qs:16u1"),
    3: _decoded("Q4_1", 32, _q4_1, "d:f2 m:f2 qs:16u1"),
    6: _decoded("Q5_0", 32, _q5_0, "d:f2 qh:4u1 qs:16u1"),
    7: _decoded("Q5_1", 32, _q5_1, "d:f2 m:f2 qh:4u1 qs:16u1"),
    8: _decoded("Q8_0", 32, _q8_0, "d:f2 qs:32i1"),
    9: _opaque("Q8_1", 32, 40),
    10: _decoded("Q2_K", 256, _q2_k, "scales:16u1 qs:64u1 d:f2 dmin:f2"),
    11: _decoded("Q3_K", 256, _q3_k, "hmask:32u1 qs:64u1 scales:12u1 d:f2"),
    12: _decoded("Q4_K", 256, _q4_k, "d:f2 dmin:f2 scales:12u1 qs:128u1"),
    13: _decoded("Q5_K", 256, _q5_k, "d:f2 dmin:f2 scales:12u1 qh:32u1 qs:128u1"),
    14: _decoded("Q6_K", 256, _q6_k, "ql:128u1 qh:64u1 scales:16i1 d:f2"),
    15: _opaque("Q8_K", 256, 292),
    16: _opaque("IQ2_XXS", 256, 66),
    17: _opaque("IQ2_XS", 256, 74),
    18: _opaque("IQ3_XXS", 256, 98),
    19: _opaque("IQ1_S", 256, 50),
    20: _decoded("IQ4_NL", 32, _iq4_nl, "d:f2 qs:16u1"),
    21: _opaque("IQ3_S", 256, 110),
    22: _opaque("IQ2_S", 256, 82),
    23: _decoded("IQ4_XS", 256, _iq4_xs, "d:f2 scales_h:2u1 scales_l:4u1 qs:128u1"),
    24: _opaque("I8", 1, 1),
    25: _opaque("I16", 1, 2),
    26: _opaque("I32", 1, 4),
    27: _opaque("I64", 1, 8),
    28: _opaque("F64", 1, 8),
    29: _opaque("IQ1_M", 256, 56),
    30: _decoded("BF16", 1, _bf16, "u2"),
    34: _opaque("TQ1_0", 256, 54),
    35: _opaque("TQ2_0", 256, 66),
    39: _decoded("MXFP4", 32, _mxfp4, "e:u1 qs:16u1"),
    40: _opaque("NVFP4", 64, 36),
    41: _opaque("Q1_0", 128, 18),
}
"""Every type by its number in a file."""

REMOVED = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip
"""Numbers of types that ggml no longer has."""

BY_NAME = {block.name: block for block in TYPES.values()}
