"""compressed-tensors' folders, of llm-compressor: integers in words, row by row as we want them.

Of a module ``weight_packed`` is int32 ``[n, k * bits / 32]`` (``pack-quantized``), each code the
integer plus the middle, or ``weight`` int8 ``[n, k]`` (``int-quantized``); ``weight_scale`` is
``[n, groups]``, and where zeros differ from the middle ``weight_zero_point`` has them, packed along
the outputs: int32 ``[n * bits / 32, groups]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import said
from edgewise_compiler.packed.base import (
    WHERE,
    Codes,
    Integers,
    Matrices,
    Matrix,
    Method,
    Zeros,
    check_group,
    check_tensor,
    groups_of,
    refused,
)
from edgewise_compiler.packed.columns import SCALES
from edgewise_compiler.packed.words import WORD, along_columns, along_rows, in_order
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

TITLE = "compressed-tensors"
BITS = (4, 8)
FORMATS = ("pack-quantized", "int-quantized", "mixed-precision")
"""Values of ``format``; of a mixed one each group of modules names its own."""

STRATEGIES = ("group", "channel")
ORDERS = ("weight", "static")
"""Values of ``actorder`` that leave columns where they are."""

_MOST = 1 << 20
_KNOWN: dict[str, tuple[object, ...]] = {
    "quantization_status": (None, "compressed"),
    "kv_cache_scheme": (None,),
    "transform_config": (None, {}),
}
"""Keys of the configuration and what they may be."""


def _open(fields: ConfigFields) -> Callable[[SafetensorsReader], Matrices]:
    _check_format(fields, "pack-quantized")
    for key, allowed in _KNOWN.items():
        if fields.values.get(key) not in allowed:
            raise refused(TITLE, said(key, fields.values[key]), f"none, or {key} {allowed[-1]}")
    sparsity = fields.mapping("sparsity_config") or {}
    if sparsity.get("format", "dense") != "dense":
        raise refused(TITLE, said("sparsity_config.format", sparsity["format"]), "dense weights")
    groups = fields.mapping("config_groups") or {}
    sizes = {_group_size(name, group) for name, group in groups.items()}
    if not sizes:
        raise CheckpointError(
            f"{WHERE} has no config_groups.",
            remedy="Download the checkpoint again.",
            code="checkpoint.config",
        )
    return partial(_matrices, sizes=frozenset(sizes))


def _check_format(fields: ConfigFields, default: str) -> None:
    layout = fields.text("format", default)
    if layout not in FORMATS:
        raise refused(TITLE, said("format", layout), f"format {' or '.join(FORMATS[:2])}")


def _group_size(name: str, group: Any) -> tuple[int, int]:
    """Bits of the modules of a group, and columns that share a scale: -1 for whole rows."""
    where = f"config_groups.{shorten(name)} of {WHERE}"
    group = ConfigFields(group if isinstance(group, dict) else {}, where)
    _check_format(group, "pack-quantized")
    fields = ConfigFields(group.mapping("weights") or {}, f"weights of {where}")
    kind, strategy = fields.text("type", "int"), fields.text("strategy", "")
    bits = fields.integer("num_bits", -_MOST, _MOST)
    if kind != "int":
        raise refused(TITLE, said("type", kind), "type int")
    if bits not in BITS:
        raise refused(TITLE, said("num_bits", bits), f"num_bits {' or '.join(map(str, BITS))}")
    if strategy not in STRATEGIES:
        raise refused(TITLE, said("strategy", strategy), f"strategy {' or '.join(STRATEGIES)}")
    order = fields.values.get("actorder")
    if order is not None and order not in ORDERS:
        raise refused(TITLE, said("actorder", order), f"actorder null or {' or '.join(ORDERS)}")
    inputs = group.mapping("input_activations")
    if inputs is not None and inputs.get("dynamic") is not True:
        raise refused(TITLE, "scales of inputs that were found before", "dynamic ones, or none")
    size = -1 if strategy == "channel" else fields.integer("group_size", -_MOST, _MOST)
    check_group(TITLE, size)
    return bits, size


def _matrices(reader: SafetensorsReader, sizes: frozenset[tuple[int, int]]) -> Matrices:
    return {f"{name}.weight": matrix for name, matrix in _found(reader, sizes)}


def _found(
    reader: SafetensorsReader, sizes: frozenset[tuple[int, int]]
) -> Iterator[tuple[str, Matrix]]:
    for name in reader.names():
        module, _, end = name.rpartition(".")
        if end == "weight_packed":
            yield module, _packed(reader, module, sizes)
        elif end == "weight" and reader.dtype(name) == "I8":
            yield module, _plain(reader, module, sizes)


def _packed(reader: SafetensorsReader, module: str, sizes: frozenset[tuple[int, int]]) -> Matrix:
    codes, shape = f"{module}.weight_packed", f"{module}.weight_shape"
    check_tensor(reader, shape, ("I64", "I32"), (2,))
    dtype = np.dtype("<i8" if reader.dtype(shape) == "I64" else "<i4")
    n, k = (int(extent) for extent in reader.part(shape, 0, 2 * dtype.itemsize).view(dtype))
    height, words = (*reader.shape(codes), 0, 0)[:2]
    bits = next((b for b in BITS if k > 0 and -(-k * b // WORD) == words), 0)
    if not bits or height != n:
        raise CheckpointError(
            f"{shorten(codes)} is {list(reader.shape(codes))} for a matrix of {n} x {k}.",
            remedy="Use weights and config.json of the same checkpoint.",
            code="checkpoint.shape",
        )
    check_tensor(reader, codes, ("I32", "U32"), (n, words))

    def read(start: int, stop: int) -> Codes:
        raw = reader.part(codes, start * words * 4, (stop - start) * words * 4)
        return along_rows(raw.view("<u4").reshape(-1, words), bits, in_order(bits))[:, :k]

    return _matrix(reader, module, (n, k), bits, (codes, shape), read, sizes)


def _plain(reader: SafetensorsReader, module: str, sizes: frozenset[tuple[int, int]]) -> Matrix:
    name = f"{module}.weight"
    n, k = (*reader.shape(name), 0, 0)[:2]
    check_tensor(reader, name, ("I8",), (n, k))

    def read(start: int, stop: int) -> Codes:
        raw = reader.part(name, start * k, (stop - start) * k)
        return (raw ^ np.uint8(128)).reshape(-1, k)  # the integer plus 128

    return _matrix(reader, module, (n, k), 8, (name,), read, sizes)


def _matrix(
    reader: SafetensorsReader,
    module: str,
    shape: tuple[int, int],
    bits: int,
    parts: tuple[str, ...],
    read: Callable[[int, int], Codes],
    sizes: frozenset[tuple[int, int]],
) -> Matrix:
    n, k = shape
    scale, zero = f"{module}.weight_scale", f"{module}.weight_zero_point"
    groups = (*reader.shape(scale), 0, 0)[1]
    known = {groups_of(TITLE, f"{module}.weight", k, size) for b, size in sizes if b == bits}
    if groups not in known:
        raise CheckpointError(
            f"{shorten(scale)} has {groups} groups a row of {bits} bits; the configuration asks "
            f"for {' or '.join(map(str, sorted(known))) or 'other bits'}.",
            remedy="Use weights and config.json of the same checkpoint.",
            code="checkpoint.shape",
        )
    check_tensor(reader, scale, SCALES, (n, groups))
    asymmetric = zero in reader.names()
    plain = asymmetric and reader.dtype(zero) == "I8"
    middle, each = 1 << (bits - 1), WORD // bits

    def zeros(start: int, stop: int) -> Zeros:
        if not asymmetric:
            return np.full((stop - start, groups), middle, np.int16)
        if plain:
            raw = reader.part(zero, start * groups, (stop - start) * groups).view(np.int8)
            return raw.reshape(-1, groups).astype(np.int16) + np.int16(middle)
        first, last = start // each, -(-stop // each)
        words = reader.part(zero, first * groups * 4, (last - first) * groups * 4).view("<u4")
        codes = along_columns(words.reshape(-1, groups), bits, in_order(bits))
        return codes[start - first * each : stop - first * each].astype(np.int16)

    if asymmetric:
        height = n if plain else -(-n // each)
        check_tensor(reader, zero, ("I8",) if plain else ("I32", "U32"), (height, groups))

    def rows(start: int, stop: int) -> Integers:
        return Integers(read(start, stop), zeros(start, stop), reader.read(scale, start, stop))

    return Matrix(
        shape,
        bits,
        f"{TITLE} of {bits} bits in groups of {k // groups}",
        (*parts, scale, *((zero,) if asymmetric else ())),
        lambda: not asymmetric or bool((zeros(0, n) == middle).all()),
        rows,
    )


COMPRESSED = Method(
    name="compressed-tensors",
    title=TITLE,
    reads=(
        ("`pack-quantized`, 4 bits, `symmetric`", ("q4", "q4a", "q5", "q6", "q8")),
        ("`pack-quantized`, 4 bits with zeros", ("q4a", "q5", "q6", "q8")),
        ("`pack-quantized` and `int-quantized`, 8 bits, `symmetric`", ("q8",)),
    ),
    refuses=(
        "other `format`, `type` or `num_bits`",
        f"`strategy` other than {' and '.join(STRATEGIES)}",
        "`actorder` group",
        "`kv_cache_scheme`, `transform_config`, sparse weights",
        "`input_activations` that are not dynamic",
    ),
    open=_open,
)
