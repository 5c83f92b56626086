"""The ``cpu`` layout: panels of 16 output rows side by side.

A vector register then holds one input column of a panel. Every tensor of a linear has panels as its
first axis, and the rows of a panel as its last.
"""

from __future__ import annotations

from edgewise_compiler.layouts.base import Arrays, Layout, TensorSpec, VectorPlace
from edgewise_compiler.layouts.order import padded_k, padded_rows
from edgewise_compiler.layouts.words import packed_rows, row_elements
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
from edgewise_runtime.format.abi import PANEL


def _tensors(scheme: Scheme, spec: LinearSpec) -> dict[str, TensorSpec]:
    rows = padded_rows(spec)
    made = {
        f"{spec.name}.{suffix}": TensorSpec(dtype, (rows // PANEL, elements, PANEL))
        for suffix, (dtype, elements) in row_elements(scheme, padded_k(spec)).items()
    }
    if spec.biases is not None:
        made[f"{spec.name}.bias"] = TensorSpec("float32", (rows,))
    return made


def _put_rows(scheme: Scheme, spec: LinearSpec, first: int, rows: CodedRows, out: Arrays) -> None:
    for suffix, elements in packed_rows(scheme, rows).items():
        panels = elements.reshape(-1, PANEL, elements.shape[1])
        start = first // PANEL
        out[f"{spec.name}.{suffix}"][start : start + len(panels)] = panels.transpose(0, 2, 1)


def _put_bias(scheme: Scheme, spec: LinearSpec, bias: Floats, out: Arrays) -> None:
    out[f"{spec.name}.bias"][:] = bias


def _place(spec: VectorSpec) -> VectorPlace:
    return VectorPlace(f"{spec.name}.weight", TensorSpec("float32", (spec.size,)))


CPU = Layout("cpu", _tensors, _put_rows, _put_bias, _place)
