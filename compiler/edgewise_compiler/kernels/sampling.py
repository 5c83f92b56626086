"""What sampling kernels of every machine ask and count the same way."""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_runtime.format.abi import FREQUENCY, PRESENCE, REPETITION

LEVELS = 7
"""Thresholds tried in one pass over the vocabulary."""


def penalized(sampling_f: Buffer, row: Expr) -> Expr:
    """Whether a penalty of the row is on."""
    off = ((REPETITION, 1.0), (PRESENCE, 0.0), (FREQUENCY, 0.0))
    return tirx.any(
        *(T.NE(sampling_f[row, field], tirx.const(value, "float32")) for field, value in off)
    )
