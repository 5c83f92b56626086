"""How tensors of each quantized type are held in a bundle: the schemes for it, and its codes there.

Where a scheme of ours means by its codes what a type means, they move over as they are, with the
type's own scales. Integers that a scale multiplies may also move to a scheme of more bits, where
they are the same integers. All else is quantized from its floats, in the narrowest scheme that
adds little to the error that it has (docs/decisions/0011).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.gguf.blocks import (
    Floats,
    Records,
    bit_fields,
    five_bits,
    iq4_xs_scales,
    mxfp4_scales,
    six_bits,
)
from edgewise_compiler.quantize.codes import CodedRows
from edgewise_compiler.quantize.scales import to_f16
from edgewise_compiler.quantize.symmetric import ZERO_POINT
from edgewise_compiler.quantize.tables import TABLES

Integers = NDArray[np.int16]
Scales = NDArray[np.float16]

Unpack = Callable[[Records], CodedRows]
"""Blocks ``[n]`` to codes ``[n, elements]`` of a scheme, and what groups have, ``[n, …]``."""

Unpackers = Mapping[str, Unpack | None]
"""The schemes that hold a type, narrowest first; None where they have to quantize its floats."""


def _own_scales(blocks: Records) -> Scales:
    scales: Scales = blocks["d"][:, None]
    return scales


def _rounded(scales: Callable[[Records], Floats]) -> Callable[[Records], Scales]:
    """Scales that a block computes, as float16."""
    return lambda blocks: to_f16(scales(blocks).reshape(len(blocks), -1), "quantization scale")


def _q4_0(blocks: Records) -> Integers:
    return bit_fields(blocks["qs"], 4, 16).astype(np.int16) - np.int16(8)


def _q5_0(blocks: Records) -> Integers:
    return five_bits(blocks).astype(np.int16) - np.int16(16)


def _q8_0(blocks: Records) -> Integers:
    integers: Integers = blocks["qs"].astype(np.int16)
    return integers


def _integers(
    integers: Callable[[Records], Integers],
    *schemes: str,
    scales: Callable[[Records], Scales] = _own_scales,
) -> Unpackers:
    """A type that is integers times a scale; ``schemes`` have all of its integers."""

    def unpack(blocks: Records, zero: int) -> CodedRows:
        codes = (integers(blocks) + np.int16(zero)).astype(np.uint8)
        return CodedRows(codes, {"scale": scales(blocks)})

    return {name: partial(unpack, zero=ZERO_POINT[name]) for name in schemes}


def _table(
    name: str, *schemes: str, scales: Callable[[Records], Scales] = _own_scales
) -> Unpackers:
    """A type of a scheme's table; ``schemes`` have all of its integers, too."""
    table = np.array(TABLES[name], np.int16)

    def unpack(blocks: Records) -> CodedRows:
        return CodedRows(bit_fields(blocks["qs"], 4, 16), {"scale": scales(blocks)})

    def integers(blocks: Records) -> Integers:
        return table[bit_fields(blocks["qs"], 4, 16)]

    return {name: unpack, **_integers(integers, *schemes, scales=scales)}


def _q4_1(blocks: Records) -> CodedRows:
    """A block's ``m`` is added; ``q4a`` takes a minimum off."""
    scales = {"scale": _own_scales(blocks), "min": -blocks["m"][:, None]}
    return CodedRows(bit_fields(blocks["qs"], 4, 16), scales)


def _q4_k(blocks: Records) -> CodedRows:
    scales, minima = six_bits(blocks)
    own = {"d": _own_scales(blocks), "dmin": blocks["dmin"][:, None]}
    return CodedRows(bit_fields(blocks["qs"], 4, 32), {"scale": scales, "min": minima, **own})


def _floats(*schemes: str) -> Unpackers:
    return dict.fromkeys(schemes)


HELD: Mapping[str, Unpackers] = {
    "Q4_0": _integers(_q4_0, "q4", "q5", "q6", "q8"),
    "Q4_1": {"q4a": _q4_1, **_floats("q5", "q6", "q8")},
    "Q5_0": _integers(_q5_0, "q5", "q6", "q8"),
    "Q5_1": _floats("q6", "q8"),
    "Q8_0": _integers(_q8_0, "q8"),
    "Q2_K": _floats("q4", "q5", "q6", "q8"),
    "Q3_K": _floats("q4", "q5", "q6", "q8"),
    "Q4_K": {"q4k": _q4_k, **_floats("q5", "q6", "q8")},
    "Q5_K": _floats("q6", "q8"),
    "Q6_K": _floats("q8"),
    "IQ4_NL": _table("iq4_nl", "q8"),
    "IQ4_XS": _table("iq4_nl", "q8", scales=_rounded(iq4_xs_scales)),
    "MXFP4": _table("mxfp4", "q5", "q6", "q8", scales=_rounded(mxfp4_scales)),
}
"""By name, for every type that is decoded and is not plain floats."""
