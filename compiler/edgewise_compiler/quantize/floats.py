"""``f32`` and ``f16``: weights as they are, or rounded to float16; computed with in float32."""

from __future__ import annotations

import numpy as np

from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
from edgewise_compiler.quantize.scales import to_f16


def _quantize_f32(rows: Floats) -> CodedRows:
    return CodedRows(rows, {})


def _quantize_f16(rows: Floats) -> CodedRows:
    return CodedRows(to_f16(rows, "weight"), {})


def _dequantize(rows: CodedRows) -> Floats:
    return rows.codes.astype(np.float32)


F32 = Scheme("f32", "f32", "float32", (), _quantize_f32, _dequantize)
F16 = Scheme("f16", "f32", "float16", (), _quantize_f16, _dequantize)
