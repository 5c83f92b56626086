"""GPTQ: the rounding error of each column is made up for by the columns after it.

Frantar et al. 2022 (arXiv 2210.17323), in the order of the columns: with H the second moments of
the inputs, an error in one column changes the outputs least when the columns that are not yet
rounded move along ``H^-1``. Scales are searched (`quantize.search`) group by group, on the weights
as the groups before have left them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.codes import SIXTEEN, CodedRows, Floats, Levels
from edgewise_compiler.quantize.scales import HALVES, ROOM
from edgewise_compiler.quantize.search import nearest, search
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import GROUP

DAMPING = 0.1
"""What is added to the diagonal, in parts of its mean. A short text leaves some directions without
any moment at all, and moving along those would cost nothing. The paper's 0.01 is for 260,000
tokens;
with 3,500 this is better (docs/decisions/0013)."""


def gptq(
    rows: Floats, moments: NDArray[np.float64], levels: Levels = SIXTEEN, damping: float = DAMPING
) -> CodedRows:
    """Codes and scales of ``rows``, chosen for what a linear's outputs become.

    Args:
        rows: float32 ``[rows, k]``, ``k`` a multiple of 32. Rows do not depend on each other.
        moments: ``E[x_i x_j]`` of the inputs, float64 ``[k, k]``.

    Raises:
        CheckpointError: a scale beyond float16.
        CompileError: moments that are none, such as of values that are not finite.
    """
    count, k = rows.shape
    factor = _factor(moments, damping)
    importance = np.diagonal(moments).astype(np.float32)
    # Columns beside each other in memory are what every step below works on.
    left = np.ascontiguousarray(rows.T)
    codes = np.empty((k, count), np.uint8)
    most = None
    if levels.store is not HALVES:  # A row's largest scale is known once its last group is done.
        scale = levels.store.read(search(rows, importance, levels).groups)
        most = np.abs(scale).max(axis=1, keepdims=True) * ROOM
    kept = []
    errors = np.empty((GROUP, count), np.float32)
    for first in range(0, k, GROUP):
        stop = first + GROUP
        group = np.ascontiguousarray(left[first:stop].T)
        found = search(group, importance[first:stop], levels, most).groups
        kept.append(found)
        scale = levels.store.read(found)[:, 0]
        for column in range(first, stop):
            numbers = nearest(left[column], scale, levels)
            codes[column] = (numbers - np.float32(levels.low)).astype(np.uint8)
            error = (left[column] - levels.integers(numbers) * scale) / factor[column, column]
            left[column + 1 : stop] -= np.outer(factor[column, column + 1 : stop], error)
            errors[column - first] = error
        left[stop:] -= factor[first:stop, stop:].T @ errors
    groups = {"scale": np.concatenate([found["scale"] for found in kept], axis=1)}
    return CodedRows(np.ascontiguousarray(codes.T), {**kept[0], **groups})


def _factor(moments: NDArray[np.float64], damping: float) -> Floats:
    """Upper ``U`` with ``H^-1 = U^T U``, H the damped moments; float32 ``[k, k]``."""
    diagonal = np.diagonal(moments)
    # A column that no input ever used: its own unit, so that nothing is divided by zero.
    more = np.where(diagonal > 0, damping * diagonal.mean(), 1.0)
    try:
        inverse = np.linalg.inv(moments + np.diag(more))
        return np.linalg.cholesky((inverse + inverse.T) / 2).T.astype(np.float32)
    except np.linalg.LinAlgError as error:
        raise CompileError(
            f"The second moments of {len(moments)} columns have no inverse: {error}.",
            remedy="Calibrate with a longer text.",
            code="compile.calibration",
        ) from error
