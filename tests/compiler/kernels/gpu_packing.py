"""Float matrices packed for the GPU, and what the kernels then compute with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize import find_scheme

Floats = NDArray[np.float32]
WORDS = {"f32": np.float32, "f16": np.uint32, "q8": np.uint32, "q4": np.uint32}


def pack(scheme: str, w: Floats) -> tuple[list[NDArray[Any]], Floats]:
    """Pack ``w`` [rows, k], both multiples of 32.

    Returns:
        The buffers of `GpuWeights.arguments` in order, and the exact values they stand for.
    """
    found, (rows, k) = find_scheme(scheme), w.shape
    packed = found.pack(w.reshape(rows // 16, 16, k).copy())
    exact = found.unpack(packed).reshape(rows, k)
    arrays = []
    for name in ("weight", "scale"):
        if name in packed:
            row_major = np.ascontiguousarray(packed[name].transpose(0, 2, 1)).reshape(-1)
            arrays.append(row_major.view(WORDS[scheme]))
    return arrays, exact
