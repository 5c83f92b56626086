"""The ``cpu`` layout: panels of 16 output rows side by side.

A vector register then holds one input column of a panel. Every tensor of a linear has panels as its
first axis, and the rows of a panel as its last.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from edgewise_compiler.layouts.base import (
    Layout,
    Part,
    TensorSpec,
    VectorPlace,
    named_parts,
)
from edgewise_compiler.layouts.order import padded_rows
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.split import AnyScheme, bands
from edgewise_runtime.format.abi import PANEL


def _parts(scheme: AnyScheme, spec: LinearSpec) -> tuple[Part, ...]:
    return named_parts(spec, bands(scheme, padded_rows(spec)))


def _spec(part: Part, suffix: str, dtype: str, elements: int) -> TensorSpec:
    return TensorSpec(dtype, (part.rows // PANEL, elements, PANEL))


def _put(part: Part, rows: slice, elements: NDArray[Any], panels: NDArray[Any]) -> None:
    packed = elements.reshape(-1, PANEL, elements.shape[1])
    panels[rows.start // PANEL : rows.stop // PANEL] = packed.transpose(0, 2, 1)


def _place(spec: VectorSpec) -> VectorPlace:
    return VectorPlace(f"{spec.name}.weight", TensorSpec("float32", (spec.size,)))


CPU = Layout("cpu", _parts, _spec, _put, _place)
