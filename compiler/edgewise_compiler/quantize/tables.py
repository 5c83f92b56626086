"""``iq4_nl`` and ``mxfp4``: a code of four bits names an integer of a table, 32 share a scale.

A weight is ``table[code] * scale``. Steps are wide where few weights are: far from zero. Kernels
look up bytes, each a table's value plus the scheme's zero point, and multiply those as they do the
codes of other integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
from edgewise_compiler.quantize.scales import to_f16
from edgewise_compiler.quantize.symmetric import ZERO_POINT, extreme_scales
from edgewise_runtime.format.abi import GROUP

TABLES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "iq4_nl": (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113),
        "mxfp4": (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12),
    }
)
"""What the codes of a scheme stand for, before the scale.

``iq4_nl`` is GGUF's type of that name (also IQ4_XS's table), whose codes survive. ``mxfp4`` is
twice E2M1 of the Open Compute Project's Microscaling Formats 1.0, as GGUF keeps it; scales are
float16 here, so that a power of two which the format has must lie within them.
"""


def table_bytes(scheme: str) -> tuple[int, ...] | None:
    """For each code what stands for it where codes have no sign; None of a scheme without table."""
    table = TABLES.get(scheme)
    return None if table is None else tuple(value + ZERO_POINT[scheme] for value in table)


def quantize(rows: Floats, table: tuple[int, ...]) -> CodedRows:
    """The nearest of a table's values, times a scale that makes the value furthest from zero the
    table's lowest, whichever its sign.

    The scale is rounded to float16 first. Of codes that stand for the same, the first is taken.

    Args:
        rows: float32 ``[rows, k]``, overwritten.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    values, first = np.unique(np.array(table, np.float32), return_index=True)
    groups = rows.reshape(len(rows), -1, GROUP)
    # One plane per column of a group: NumPy reduces along planes at memory speed.
    planes = np.ascontiguousarray(groups.transpose(2, 0, 1))
    steps = extreme_scales(planes.min(axis=0), planes.max(axis=0), -min(table))
    scale = to_f16(steps, "quantization scale")
    scale += np.float16(0)  # a negative zero becomes the other: a zero has one spelling
    divisor = np.where(scale == 0, np.float32(1), scale.astype(np.float32))
    np.divide(groups, divisor[:, :, None], out=groups)
    between = (values[1:] + values[:-1]) / np.float32(2)
    codes = first.astype(np.uint8)[np.searchsorted(between, groups)]
    return CodedRows(codes.reshape(rows.shape), {"scale": scale})


def dequantize(rows: CodedRows, table: tuple[int, ...]) -> Floats:
    """``table[code] * scale`` in float32, ``[rows, k]``."""
    scale = rows.groups["scale"].astype(np.float32).repeat(GROUP, axis=1)
    values: Floats = np.array(table, np.float32)[rows.codes]
    return values * scale


def _scheme(name: str) -> Scheme:
    return Scheme(
        name=name,
        arithmetic="w4a8",
        code="uint4",
        groups=("scale",),
        quantize=partial(quantize, table=TABLES[name]),
        dequantize=partial(dequantize, table=TABLES[name]),
        numbers=f"{name}_scale",
    )


IQ4_NL = _scheme("iq4_nl")
MXFP4 = _scheme("mxfp4")
