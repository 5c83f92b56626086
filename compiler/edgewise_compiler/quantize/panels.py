"""The order of a linear's output rows: stacked sources, padding, interleaving by panels.

Rows are rounded up to 32 (two panels) and columns to 32 (one group); what is added is zero, so it
adds nothing to any output. Interleaved sources alternate by panels, each padded on its own: a
kernel then holds a gate panel and the matching up panel at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize.base import Floats
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.format.abi import GROUP, PANEL

ROW_STEP = 2 * PANEL


def round_up(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is at least ``value``."""
    return -(-value // step) * step


def padded_rows(spec: LinearSpec) -> int:
    """Output rows of the packed linear (``NP``): a multiple of 32."""
    if spec.interleave:
        return len(spec.rows) * round_up(max(spec.rows), ROW_STEP)
    return round_up(sum(spec.rows), ROW_STEP)


def padded_k(spec: LinearSpec) -> int:
    """Input columns of the packed linear: a multiple of 32."""
    return round_up(spec.k, GROUP)


def row_blocks(spec: LinearSpec, reader: WeightReader, panels: int) -> Iterator[Floats]:
    """The packed linear's rows in order, float32 ``[at most panels, 16, k]``, zero where padded.

    Args:
        panels: panels of a block, a multiple of the number of interleaved sources.
    """
    total = padded_rows(spec) // PANEL
    for first in range(0, total, panels):
        count = min(panels, total - first)
        yield _block(spec, spec.sources, reader, first, count, padded_k(spec))


def bias_vector(spec: LinearSpec, reader: WeightReader) -> Floats | None:
    """Biases in the order of the packed rows, float32 ``[NP]``; None for a linear without."""
    if spec.biases is None:
        return None
    total = padded_rows(spec) // PANEL
    return _block(spec, spec.biases, reader, 0, total, 1).reshape(-1)


def _block(
    spec: LinearSpec, names: tuple[str, ...], reader: WeightReader, first: int, count: int, k: int
) -> Floats:
    """Packed panels ``first..first + count`` of ``names``, float32 ``[count, 16, k]``."""
    ways = len(names) if spec.interleave else 1
    stacks = np.zeros((ways, count // ways * PANEL, k), np.float32)
    start, stop = first // ways * PANEL, (first + count) // ways * PANEL
    base = 0
    for i, (name, rows) in enumerate(zip(names, spec.rows, strict=True)):
        low, high = max(start, base), min(stop, base + rows)
        if low < high:
            values = reader.read(name, low - base, high - base).reshape(high - low, -1)
            stacks[i % ways, low - start : high - start, : values.shape[1]] = values
        base = 0 if spec.interleave else base + rows
    panels = stacks.reshape(ways, count // ways, PANEL, k)
    return panels.swapaxes(0, 1).reshape(count, PANEL, k)
