"""``f16``: weights rounded to float16 ``[panels, k, 16]``, computed with in float32."""

from __future__ import annotations

import numpy as np

from edgewise_compiler.quantize.base import Arrays, ArraySpec, Floats, Scheme, to_f16
from edgewise_compiler.quantize.f32 import unpack
from edgewise_runtime.format.abi import PANEL


def arrays(panels: int, k: int) -> dict[str, ArraySpec]:
    """See :class:`Scheme`."""
    return {"weight": ArraySpec("float16", (panels, k, PANEL))}


def pack(rows: Floats) -> Arrays:
    """See :class:`Scheme`."""
    return {"weight": np.ascontiguousarray(to_f16(rows, "weight").transpose(0, 2, 1))}


F16 = Scheme("f16", "f32", arrays, pack, unpack)
