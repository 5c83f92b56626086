"""Codes of packed matrices in schemes of ours.

A group's scale is repeated for those of 32 columns that it covers. Where every zero is the middle
the codes are a symmetric scheme's. Else four bits have a minimum in ``q4a``, ``zero * scale``
rounded to float16; the integers ``code - zero`` themselves fit into five bits, and are exact there.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.packed.base import FROM_FLOATS, Integers, Matrix, refused
from edgewise_compiler.quantize.codes import CodedRows, Floats, Holders
from edgewise_compiler.quantize.scales import to_f16
from edgewise_compiler.quantize.symmetric import ZERO_POINT
from edgewise_compiler.quantize.tables import TABLES
from edgewise_compiler.weights.files import check_finite
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.reading import shorten

NORMAL = np.float32(2.0**-14)
"""The smallest float16 of full precision. Below it scales are rounded to multiples of 2^-24: a step
of such a group, if not a part of it, is nothing beside weights that are anything."""

_WIDER = ("q5", "q6", "q8")
"""Schemes with room for what is left of a code of four bits after its zero is taken off."""


def holders(name: str, matrix: Matrix) -> Holders:
    """The schemes that hold a matrix, narrowest first, with its codes in each.

    Where columns of a group do not lie beside each other, it has none.

    Raises:
        UnsupportedError: codes of eight bits with other zeros than the middle, which none holds.
    """
    if not matrix.ordered:
        return dict.fromkeys(FROM_FLOATS if matrix.bits == 4 else FROM_FLOATS[-1:])
    if matrix.table is not None:
        return {s: partial(_coded, name, matrix, s) for s in (matrix.table, *_WIDER)}
    centred = matrix.centred()
    if matrix.bits == 8:
        if not centred:
            raise refused(
                matrix.kind, f"other zeros than 128 in {shorten(name)}", "symmetric weights"
            )
        return {"q8": partial(_coded, name, matrix, "q8")}
    schemes = ("q4", "q4a", *_WIDER) if centred else ("q4a", *_WIDER)
    return {scheme: partial(_coded, name, matrix, scheme) for scheme in schemes}


def _coded(name: str, matrix: Matrix, scheme: str, start: int, stop: int) -> CodedRows:
    rows = matrix.rows(start, stop)
    check_finite(name, rows.scales, start)
    each = rows.codes.shape[1] // GROUP // rows.scales.shape[1]
    groups = {"scale": half_scales(name, rows.scales)}
    if scheme == "q4a":
        minimum = rows.zeros.astype(np.float32) * rows.scales
        groups["min"] = to_f16(minimum, "quantization minimum") + np.float16(0)
        codes = rows.codes
    elif scheme == matrix.table:
        codes = _places(scheme)[rows.codes]
    else:
        codes = _moved(rows, ZERO_POINT[scheme])
    return CodedRows(codes, {what: own.repeat(each, axis=1) for what, own in groups.items()})


def _places(scheme: str) -> NDArray[np.uint8]:
    """Where a table has its values, counted from the lowest; of two that are equal the first."""
    values, first = np.unique(np.array(TABLES[scheme]), return_index=True)
    places = np.zeros(values[-1] - values[0] + 1, np.uint8)
    places[values - values[0]] = first
    return places


def _moved(rows: Integers, zero: int) -> NDArray[np.uint8]:
    """Codes of which ``zero`` is that of zero."""
    by = np.int16(zero) - rows.zeros
    if not by.any():
        return rows.codes
    codes = rows.codes + rows.spread(by)
    return codes.astype(np.uint8)


def half_scales(name: str, scales: Floats) -> NDArray[np.float16]:
    """Scales as float16, which has to hold them as they are, but for tiny ones.

    Raises:
        UnsupportedError: one that float16 has not.
    """
    with np.errstate(over="ignore"):
        halves = scales.astype(np.float16)
    other = (halves.astype(np.float32) != scales) & (np.abs(scales) >= NORMAL)
    if other.any():
        value = float(scales[other][0])
        raise UnsupportedError(
            f"{shorten(name)} has a scale of {value!r}, which float16 does not hold.",
            remedy="Have its weights quantized again: --quant balanced.",
            code="unsupported.quantized",
        )
    return halves
