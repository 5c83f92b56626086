"""Packing: every parameter is read and quantized once, and put where each layout wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import numpy as np

from edgewise_compiler.layouts.base import Arrays, Layout, Tensors, TensorSpec
from edgewise_compiler.layouts.order import coded_blocks, ordered_bias, padded_rows, round_up
from edgewise_compiler.layouts.ranges import check_norm, checked
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.layouts.schemes import Schemes
from edgewise_compiler.layouts.shards import Shards, make_shards
from edgewise_compiler.models.base import (
    LinearSpec,
    ParamSpec,
    RotationSpec,
    RouterSpec,
    VectorSpec,
)
from edgewise_compiler.models.rotation import rotation_table
from edgewise_compiler.quantize.codes import (
    CodedRows,
    CodeSource,
    RowSource,
    whole_groups,
)
from edgewise_compiler.quantize.split import AnyScheme, scheme_of_rows
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.params import check_param, naming
from edgewise_runtime.format.abi import PANEL
from edgewise_runtime.format.bundle import TensorEntry

WINDOW = 64 << 20
"""Bytes of parameter files that are mapped, written, and let go of again."""

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
        elif isinstance(param, RouterSpec):
            specs |= _router_tensors(param)
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

    What is held in memory is a block of a linear (`layouts.order`), and what was written of files
    since they were mapped, at most about `WINDOW`: neither grows with the model or a tensor.

    Args:
        folder: the bundle; files go to ``params/<layout>`` in it.
        layouts: with the tensors of each, from :func:`layout_tensors`.
        progress: told how many bytes of how many are written, block by block.
        codes: of tensors that have codes of their scheme already, from a text (`calibrate.codes`)
            or from the file (`as_file`).

    Returns:
        Where each tensor lies, by layout and name.

    Raises:
        CheckpointError: a tensor is missing, mis-shaped, not finite or out of its scheme's range.
        StorageError: the disk is full or not writable.
    """
    files = {layout: make_shards(folder, layout.name, specs) for layout, specs in layouts.items()}
    written = _Written(progress, sum(s.bytes for specs in layouts.values() for s in specs.values()))
    for param in params:
        check_param(param, reader)
        if isinstance(param, LinearSpec):
            _write_linear(schemes[param.name], param, reader, codes, files, written.add)
        elif isinstance(param, RotationSpec):
            written.add(_write_rotation(param, files))
        elif isinstance(param, RouterSpec):
            written.add(_write_router(param, reader, files))
        else:
            written.add(_write_vector(param, reader, files))
    written.end()
    return {layout.name: shards.entries for layout, shards in files.items()}


class _Written:
    """Counts bytes as they are written, and tells of them."""

    def __init__(self, progress: Callable[[int, int], None], total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        progress(0, total)

    def add(self, count: int) -> None:
        self._done += count
        if self._done < self._total:  # the end is told once
            self._progress(self._done, self._total)

    def end(self) -> None:
        self._progress(self._total, self._total)


def pack_linear(
    scheme: AnyScheme,
    spec: LinearSpec,
    reader: WeightReader,
    source: CodeSource,
    outs: Mapping[Layout, Arrays],
    wrote: Callable[[int], None] = lambda rows: None,
) -> None:
    """Fill the arrays of every layout with ``spec``.

    Args:
        reader: has the biases.
        source: has the weights, as codes of ``scheme``.
        outs: for each layout an array of every tensor that it makes of ``spec``.
        wrote: told how many rows a block had that is now in every layout; it may put other arrays
            of the same contents into ``outs``.
    """
    for first, rows in coded_blocks(scheme, spec, source):
        for layout, out in outs.items():
            layout.put_rows(scheme, spec, first, rows, out)
        wrote(len(rows.codes))
    bias = ordered_bias(spec, reader)
    if bias is not None:
        for layout, out in outs.items():
            layout.put_bias(scheme, spec, bias, out)


def quantized(
    scheme: AnyScheme,
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
            return scheme_of_rows(scheme, start, stop).quantize(rows)

    return rows_of


def _write_linear(
    scheme: AnyScheme,
    spec: LinearSpec,
    reader: WeightReader,
    codes: Mapping[str, RowSource],
    files: Mapping[Layout, Shards],
    wrote: Callable[[int], None],
) -> None:
    tensors = {layout: layout.tensors(scheme, spec) for layout in files}
    total = sum(made.bytes for of_layout in tensors.values() for made in of_layout.values())
    height, rows, told, mapped = padded_rows(spec), 0, 0, 0

    def put(count: int) -> None:
        nonlocal rows, told, mapped
        rows += count
        done = rows * total // height
        wrote(done - told)
        told, mapped = done, mapped + done - told
        if mapped > WINDOW:
            mapped = 0
            for layout, shards in files.items():
                shards.map_anew(outs[layout])

    with ExitStack() as stack:
        outs = {
            layout: stack.enter_context(shards.mapped(tensors[layout]))
            for layout, shards in files.items()
        }
        source = checked(spec, reader, quantized(scheme, spec, reader, codes))
        pack_linear(scheme, spec, reader, source, outs, put)


def _write_rotation(spec: RotationSpec, files: Mapping[Layout, Shards]) -> int:
    """Returns the bytes that were written."""
    total = 0
    for shards in files.values():
        with shards.mapped([spec.name]) as out:
            table = out[spec.name]
            table[:] = rotation_table(spec, len(table))
            total += table.nbytes
    return total


def _router_tensors(spec: RouterSpec) -> dict[str, TensorSpec]:
    """A column for each expert, so that those of neighbours lie together."""
    columns = round_up(sum(spec.rows), PANEL)
    made = {f"{spec.name}.weight": TensorSpec("float32", (spec.k, columns))}
    if spec.biases is not None:
        made[f"{spec.name}.bias"] = TensorSpec("float32", (columns,))
    return made


def _write_router(spec: RouterSpec, reader: WeightReader, files: Mapping[Layout, Shards]) -> int:
    """Returns the bytes that were written."""
    count, total = sum(spec.rows), 0
    values = {"weight": np.concatenate([reader.read(name) for name in spec.sources]).T}
    if spec.biases is not None:
        values["bias"] = np.concatenate([reader.read(name) for name in spec.biases])
    for shards in files.values():
        with shards.mapped(_router_tensors(spec)) as out:
            for suffix, tensor in values.items():
                out[f"{spec.name}.{suffix}"][..., count:] = 0
                out[f"{spec.name}.{suffix}"][..., :count] = tensor
            total += sum(out[name].nbytes for name in out)
    return total


def _write_vector(spec: VectorSpec, reader: WeightReader, files: Mapping[Layout, Shards]) -> int:
    """Returns the bytes that were written."""
    values = reader.read(spec.source)
    if GPU in files:
        check_norm(spec, values)
    for layout, shards in files.items():
        place = layout.place(spec)
        with shards.mapped([place.name]) as out:
            out[place.name][slice(None) if place.index is None else place.index] = values
    return values.nbytes * len(files)
