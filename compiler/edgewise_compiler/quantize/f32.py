"""``f32``: weights as they are, float32 ``[panels, k, 16]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.base import Arrays, ArraySpec, Floats, Scheme
from edgewise_runtime.format.abi import PANEL


def arrays(panels: int, k: int) -> dict[str, ArraySpec]:
    """See :class:`Scheme`."""
    return {"weight": ArraySpec("float32", (panels, k, PANEL))}


def pack(rows: Floats) -> Arrays:
    """See :class:`Scheme`."""
    return {"weight": np.ascontiguousarray(rows.transpose(0, 2, 1))}


def unpack(packed: Mapping[str, NDArray[Any]]) -> Floats:
    """See :class:`Scheme`."""
    return np.ascontiguousarray(packed["weight"].transpose(0, 2, 1), np.float32)


F32 = Scheme("f32", "f32", arrays, pack, unpack)
