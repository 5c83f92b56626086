"""How the ``cpu`` weight layout packs a linear of NP rows (padded to 32) and K columns.

A panel is 16 rows beside each other, one per lane. ``f32`` and ``f16`` hold values, [NP/16, K, 16].
``q8`` and ``q4`` pack 4 or 8 columns of a row into one uint32, [NP/16, K/4 or K/8, 16], with one
float16 scale for 32 columns, [NP/16, K/32, 16]: byte b of a q8 word is column b, byte b of a q4
word is column b in its low half and column b + 4 in its high half.
"""

from __future__ import annotations

from edgewise_compiler.kernels.function import Arg
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import GROUP, PANEL

# Columns in one stored element, and its type.
_PACKING = {"f32": (1, "float32"), "f16": (1, "float16"), "q8": (4, "uint32"), "q4": (8, "uint32")}


def weight_args(scheme: str, NP: int, K: int) -> tuple[Arg, ...]:
    """The weight argument of a packed linear, and the scale argument of quantized ones.

    Raises CompileError for shapes the layout cannot hold.
    """
    if NP % (2 * PANEL) or K % GROUP:
        raise CompileError(f"A packed linear of {NP} x {K} is not a multiple of 32 x 32.")
    each, dtype = _PACKING[scheme]
    if NP * K // each >= 2**31:
        raise CompileError(
            f"A {scheme} linear of {NP} x {K} has more elements than a 32-bit index reaches.",
            remedy="Quantize it to q8 or q4.",
        )
    weight = Arg("weight", dtype, (NP // PANEL, K // each, PANEL))
    if scheme in ("f32", "f16"):
        return (weight,)
    return (weight, Arg("scale", "float16", (NP // PANEL, K // GROUP, PANEL)))
