"""The ``cpu`` layout: panels of 16 output rows side by side.

A vector register then holds one input column of a panel. Every tensor of a linear has panels as its
first axis, and the rows of a panel as its last.
"""

from __future__ import annotations

from edgewise_compiler.layouts.base import (
    Arrays,
    Layout,
    Part,
    TensorSpec,
    VectorPlace,
    named_parts,
    overlaps,
)
from edgewise_compiler.layouts.order import padded_k, padded_rows
from edgewise_compiler.layouts.words import packed_rows, row_elements
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats
from edgewise_compiler.quantize.split import AnyScheme, bands
from edgewise_runtime.format.abi import PANEL


def _parts(scheme: AnyScheme, spec: LinearSpec) -> tuple[Part, ...]:
    return named_parts(spec, bands(scheme, padded_rows(spec)))


def _tensors(scheme: AnyScheme, spec: LinearSpec) -> dict[str, TensorSpec]:
    made: dict[str, TensorSpec] = {}
    for part in _parts(scheme, spec):
        for suffix, (dtype, elements) in row_elements(part.scheme, padded_k(spec)).items():
            shape = (part.rows // PANEL, elements, PANEL)
            made[f"{part.name}.{suffix}"] = TensorSpec(dtype, shape)
        if spec.biases is not None:
            made[f"{part.name}.bias"] = TensorSpec("float32", (part.rows,))
    return made


def _put_rows(
    scheme: AnyScheme, spec: LinearSpec, first: int, rows: CodedRows, out: Arrays
) -> None:
    for part, inside, taken in overlaps(_parts(scheme, spec), first, len(rows.codes)):
        for suffix, elements in packed_rows(part.scheme, rows[taken]).items():
            panels = elements.reshape(-1, PANEL, elements.shape[1])
            start = inside.start // PANEL
            into = out[f"{part.name}.{suffix}"]
            into[start : start + len(panels)] = panels.transpose(0, 2, 1)


def _put_bias(scheme: AnyScheme, spec: LinearSpec, bias: Floats, out: Arrays) -> None:
    for part in _parts(scheme, spec):
        out[f"{part.name}.bias"][:] = bias[part.first : part.first + part.rows]


def _place(spec: VectorSpec) -> VectorPlace:
    return VectorPlace(f"{spec.name}.weight", TensorSpec("float32", (spec.size,)))


CPU = Layout("cpu", _parts, _tensors, _put_rows, _put_bias, _place)
