"""Packing: every parameter is read and quantized once, and put where each layout wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

from edgewise_compiler.layouts.base import Arrays, Layout, Tensors, TensorSpec
from edgewise_compiler.layouts.order import coded_blocks, ordered_bias
from edgewise_compiler.layouts.ranges import check_norm, checked
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.layouts.schemes import Schemes
from edgewise_compiler.layouts.shards import Shards, make_shards
from edgewise_compiler.models.base import LinearSpec, ParamSpec, RotationSpec, VectorSpec
from edgewise_compiler.models.rotation import rotation_table
from edgewise_compiler.quantize.codes import (
    CodedRows,
    CodeSource,
    RowSource,
    Scheme,
    whole_groups,
)
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.params import check_param, naming
from edgewise_runtime.format.bundle import TensorEntry

NO_CODES: Mapping[str, RowSource] = MappingProxyType({})


def layout_tensors(
    layout: Layout, schemes: Schemes, params: Iterable[ParamSpec], context: int
) -> dict[str, TensorSpec]:
    """Dtype and shape of every tensor of a layout, by buffer name, in the order of the files."""
    specs: dict[str, TensorSpec] = {}
    for param in params:
        if isinstance(param, LinearSpec):
            specs |= layout.tensors(schemes[param.name], param)
        elif isinstance(param, RotationSpec):
            shape = (context, param.rows(context), param.width // 2)
            specs[param.name] = TensorSpec("float32", shape)
        else:
            place = layout.place(param)
            specs[place.name] = place.spec
    return specs


def pack_weights(
    folder: Path,
    layouts: Mapping[Layout, Tensors],
    schemes: Schemes,
    params: tuple[ParamSpec, ...],
    reader: WeightReader,
    progress: Callable[[int, int], None],
    codes: Mapping[str, RowSource] = NO_CODES,
) -> dict[str, Mapping[str, TensorEntry]]:
    """Read and quantize every parameter once, and write it in every layout.

    What is held in memory is a block of a linear (`layouts.order`), whatever the size of the model;
    of the files, what is mapped is the parameter being written.

    Args:
        folder: the bundle; files go to ``params/<layout>`` in it.
        layouts: with the tensors of each, from :func:`layout_tensors`.
        progress: told how many parameters of how many are written.
        codes: of tensors that have codes of their scheme already, from a text (`calibrate.codes`)
            or from the file (`as_file`).

    Returns:
        Where each tensor lies, by layout and name.

    Raises:
        CheckpointError: a tensor is missing, mis-shaped, not finite or out of its scheme's range.
        StorageError: the disk is full or not writable.
    """
    files = {layout: make_shards(folder, layout.name, specs) for layout, specs in layouts.items()}
    for done, param in enumerate(params):
        progress(done, len(params))
        check_param(param, reader)
        if isinstance(param, LinearSpec):
            _write_linear(schemes[param.name], param, reader, codes, files)
        elif isinstance(param, RotationSpec):
            _write_rotation(param, files)
        else:
            _write_vector(param, reader, files)
    progress(len(params), len(params))
    return {layout.name: shards.entries for layout, shards in files.items()}


def pack_linear(
    scheme: Scheme,
    spec: LinearSpec,
    reader: WeightReader,
    source: CodeSource,
    outs: Mapping[Layout, Arrays],
) -> None:
    """Fill the arrays of every layout with ``spec``.

    Args:
        reader: has the biases.
        source: has the weights, as codes of ``scheme``.
        outs: for each layout an array of every tensor that it makes of ``spec``.
    """
    for first, rows in coded_blocks(scheme, spec, source):
        for layout, out in outs.items():
            layout.put_rows(scheme, spec, first, rows, out)
    bias = ordered_bias(spec, reader)
    if bias is not None:
        for layout, out in outs.items():
            layout.put_bias(scheme, spec, bias, out)


def quantized(
    scheme: Scheme,
    spec: LinearSpec,
    reader: WeightReader,
    codes: Mapping[str, RowSource] = NO_CODES,
) -> CodeSource:
    """The weights of ``spec`` quantized as they are read, but for those that ``codes`` has.

    Errors name the linear and the tensor.
    """

    def rows_of(name: str, start: int, stop: int) -> CodedRows:
        if name in codes:
            with naming(spec, name):
                return codes[name](start, stop)
        rows = whole_groups(reader.read(name, start, stop))
        with naming(spec, name):
            return scheme.quantize(rows)

    return rows_of


def _write_linear(
    scheme: Scheme,
    spec: LinearSpec,
    reader: WeightReader,
    codes: Mapping[str, RowSource],
    files: Mapping[Layout, Shards],
) -> None:
    with ExitStack() as stack:
        outs = {
            layout: stack.enter_context(shards.mapped(layout.tensors(scheme, spec)))
            for layout, shards in files.items()
        }
        source = checked(spec, reader, quantized(scheme, spec, reader, codes))
        pack_linear(scheme, spec, reader, source, outs)


def _write_rotation(spec: RotationSpec, files: Mapping[Layout, Shards]) -> None:
    for shards in files.values():
        with shards.mapped([spec.name]) as out:
            table = out[spec.name]
            table[:] = rotation_table(spec, len(table))


def _write_vector(spec: VectorSpec, reader: WeightReader, files: Mapping[Layout, Shards]) -> None:
    values = reader.read(spec.source)
    if GPU in files:
        check_norm(spec, values)
    for layout, shards in files.items():
        place = layout.place(spec)
        with shards.mapped([place.name]) as out:
            out[place.name][slice(None) if place.index is None else place.index] = values
