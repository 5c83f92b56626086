"""The order of a linear's output rows: stacked sources, padding, interleaving by panels.

Rows are rounded up to 32 (two panels of 16) and columns to 32 (one group); what is added is zero,
as the scheme has it, and adds nothing to any output. Interleaved sources alternate by panels, each
padded on its own: a kernel then holds a gate panel and the matching up panel at the same time.
Experts follow each other, each padded and ordered as if it were a linear by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.models.base import LinearSpec, ParamSpec
from edgewise_compiler.quantize.codes import CodedRows, CodeSource, Floats
from edgewise_compiler.quantize.split import AnyScheme, Band, bands
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.format.abi import GROUP, PANEL

ROW_STEP = 2 * PANEL

BLOCK_ELEMENTS = 1 << 18
"""Weights packed at once: 1 MiB of float32, which stays in a core's second-level cache. Packing
holds about six times as much at any moment, whatever the size of the linear."""


def round_up(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is at least ``value``."""
    return -(-value // step) * step


def padded_rows(spec: LinearSpec) -> int:
    """Output rows of the packed linear (``NP``): a multiple of 32."""
    if spec.experts is not None:
        return spec.experts * padded_rows(spec.expert(0))
    if spec.interleave:
        return len(spec.rows) * round_up(max(spec.rows), ROW_STEP)
    return round_up(sum(spec.rows), ROW_STEP)


def output_rows(spec: LinearSpec) -> int:
    """Columns that a row's result has: of a linear of experts those of one."""
    return padded_rows(spec) // (spec.experts or 1)


def padded_k(spec: LinearSpec) -> int:
    """Input columns of the packed linear: a multiple of 32."""
    return round_up(spec.k, GROUP)


def linear_widths(params: Iterable[ParamSpec]) -> dict[str, int]:
    """Output columns of each packed linear by name, padding included: of experts those of one."""
    return {p.name: output_rows(p) for p in params if isinstance(p, LinearSpec)}


def coded_blocks(
    scheme: AnyScheme, spec: LinearSpec, source: CodeSource
) -> Iterator[tuple[int, CodedRows]]:
    """The packed linear's rows in order and without gaps, in bounded memory.

    Args:
        source: asked for every row of every tensor of ``spec`` once.

    Yields:
        The first row of a block, and its codes: whole panels, in one scheme.
    """
    if spec.experts is not None:
        for index in range(spec.experts):
            base = index * output_rows(spec)
            for first, rows in coded_blocks(scheme, spec.expert(index), source):
                yield base + first, rows
        return
    for band in bands(scheme, padded_rows(spec)):
        yield from _coded_band(band, spec, source)


def _coded_band(
    band: Band, spec: LinearSpec, source: CodeSource
) -> Iterator[tuple[int, CodedRows]]:
    k = padded_k(spec)
    zero = band.scheme.quantize(np.zeros((1, k), np.float32))
    least = PANEL * (len(spec.sources) if spec.interleave else 1)
    step = max(1, BLOCK_ELEMENTS // (least * k)) * least
    for first in range(band.start, band.stop, step):
        count = min(step, band.stop - first)
        block = CodedRows(
            zero.codes.repeat(count, axis=0),
            {name: values.repeat(count, axis=0) for name, values in zero.groups.items()},
        )
        for index, start, stop, places in _sources_of(spec, first, count):
            rows = source(spec.sources[index], start, stop)
            block.codes[places] = rows.codes
            for name, values in block.groups.items():
                values[places] = rows.groups[name]
        yield first, block


def ordered_bias(spec: LinearSpec, reader: WeightReader) -> Floats | None:
    """Biases in the order of the packed rows, float32 ``[NP]``; None for a linear without."""
    if spec.biases is None:
        return None
    if spec.experts is not None:
        found = (ordered_bias(spec.expert(i), reader) for i in range(spec.experts))
        return np.concatenate([bias for bias in found if bias is not None])
    bias = np.zeros(padded_rows(spec), np.float32)
    for index, start, stop, places in _sources_of(spec, 0, len(bias)):
        bias[places] = reader.read(spec.biases[index], start, stop)
    return bias


def _sources_of(
    spec: LinearSpec, first: int, count: int
) -> Iterator[tuple[int, int, int, slice | NDArray[Any]]]:
    """Which rows of which sources make up packed rows ``first`` to ``first + count``.

    Yields:
        The number of a source, its rows from and to, and where these go in the block.
    """
    if spec.interleave:
        ways = len(spec.rows)
        start, stop = first // ways, (first + count) // ways
        for index, rows in enumerate(spec.rows):
            row = np.arange(start, min(stop, rows))
            if len(row):
                places = (row // PANEL * ways + index) * PANEL + row % PANEL - first
                yield index, start, start + len(row), places
        return
    base = 0
    for index, rows in enumerate(spec.rows):
        low, high = max(first, base), min(first + count, base + rows)
        if low < high:
            yield index, low - base, high - base, slice(low - first, high - first)
        base += rows
