"""The element types of buffers and tensors."""

from __future__ import annotations

DTYPES: dict[str, int] = {
    "float32": 4,
    "float16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
}
"""Bytes per element; the names are NumPy's too."""
