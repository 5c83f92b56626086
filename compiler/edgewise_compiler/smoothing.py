"""Channels that stand out are evened out before anything is quantized, by powers of two.

Activations share a scale by 32 columns and so do weights: one channel a hundred times as large as
its neighbours, read by columns a hundred times as small, leaves hardly a bit to the others on the
one side and none to itself on the other. Where such channels pass a seam (`graph.seams`) both sides
are brought to the size of their neighbours, which is SmoothQuant's idea (Xiao et al. 2022, arXiv
2211.10438) from weights alone, only as far as both sides gain. Powers of two change no digit, so
that a program in float32 computes the same bits; a model without such channels is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.graph.build import build_graphs
from edgewise_compiler.graph.seams import Maker, Seam, find_seams
from edgewise_compiler.layouts.order import BLOCK_ELEMENTS, linear_widths
from edgewise_compiler.quantize.codes import Floats
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.scaled import Exponents, ScaledReader, Scaling
from edgewise_runtime.format.abi import GROUP

Doubles = NDArray[np.float64]

LEAST = 3
"""Octaves above or below its group from which a channel stands out. What two trained models have
on both sides of a seam at once is 1.1 at most (docs/decisions/0012)."""

MOST = 60
"""Octaves by which a channel is changed at most."""

SMALL, USUAL, LARGE = -10, -3, 10
"""Octaves of a matrix: below and above, float16 loses bits or ends; and what it is brought to."""


def smoothed(
    checkpoint: Checkpoint,
    fixed: Collection[str] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Checkpoint:
    """The checkpoint with channels that stand out evened out; the same one where none do.

    Norms' weights are looked at, and matrices that make channels; those that read them only where
    some stand out.

    Args:
        fixed: tensors that stay as they are, and with them whatever is on the other side.
        progress: told how many bytes of how many that make channels were looked at.

    Raises:
        CheckpointError: a weight that is not finite.
    """
    family, cfg, reader = checkpoint.family, checkpoint.model, checkpoint.weights
    params = family.params(cfg)
    graphs = build_graphs(family, cfg, linear_widths(params), ())
    scalings: dict[str, Scaling] = {}
    seams = [s for s in find_seams(graphs.values(), params) if s.tensors.isdisjoint(fixed)]
    done, total = 0, sum(reader.size(seam.maker.tensor) for seam in seams)
    progress(done, total)
    for seam in seams:
        exponents = _exponents(reader, seam)
        done += reader.size(seam.maker.tensor)
        progress(done, total)
        if not exponents.any():
            continue
        for name in seam.maker.tensors:
            scalings[name] = replace(scalings.get(name, Scaling()), rows=-exponents)
        for name in seam.readers:
            columns = exponents[seam.maker.channels]
            scalings[name] = replace(scalings.get(name, Scaling()), columns=columns)
    return replace(checkpoint, weights=ScaledReader(reader, scalings)) if scalings else checkpoint


def _exponents(reader: WeightReader, seam: Seam) -> Exponents:
    """By how many octaves each channel is made smaller and its columns larger, int32."""
    maker = seam.maker
    made = expected(reader, maker)
    out, apart = _octaves(made[maker.channels])
    whole = maker.vector and abs(_median(made)) >= LEAST
    if not whole and not (np.maximum(np.abs(out), np.abs(apart)) >= LEAST).any():
        return np.zeros(len(made), np.int32)
    read = _read(reader, seam.readers)
    read_out, read_apart = _octaves(read)
    low, high = _range(maker, _both(out, -read_out), len(made))
    # A norm's weight does not say how large its channel comes in. Where a small one meets large
    # columns the channel is large in trained models, and would stand out if it were not made small.
    smaller = 0 if maker.vector else np.where(high < 0, high, 0)
    found = np.where(low > 0, low, smaller).astype(np.int32)
    low, high = _range(maker, _both(apart, -read_apart), len(made))
    found += np.where(low > 0, low, np.where(high < 0, high, 0)).astype(np.int32)
    if whole:
        left = _median(np.ldexp(made, -found)), _median(np.ldexp(read, found[maker.channels]))
        found += _all_alike(*left)
    return found


def _range(maker: Maker, columns: Doubles, channels: int) -> tuple[Doubles, Doubles]:
    """The least and the most that a channel's columns allow for: what is nearer to 0 decides."""
    low, high = np.full(channels, np.inf), np.full(channels, -np.inf)
    np.minimum.at(low, maker.channels, columns)
    np.maximum.at(high, maker.channels, columns)
    return low, high


def _all_alike(made: float, read: float) -> int:
    """By how many octaves a norm has to be smaller for matrices that float16 scales can hold."""
    if SMALL <= read <= LARGE:
        return 0
    wanted = USUAL - read
    return int(min(wanted, max(made, 0)) if wanted > 0 else max(wanted, min(made, 0)))


def _both(made: Doubles, read: Doubles) -> Doubles:
    """Whole octaves in which a channel stands out and its columns allow for it; 0 below LEAST."""
    octaves = np.floor(np.minimum(np.abs(made), np.abs(read)))
    stands_out = (np.sign(made) == np.sign(read)) & (octaves >= LEAST)
    result: Doubles = np.where(stands_out, np.copysign(octaves, made), 0)
    return result


def _octaves(values: Doubles) -> tuple[Doubles, Doubles]:
    """Of each column above the median of its group of 32, zeros apart, which count as MOST; and of
    its group above the median of all groups, 0 where it has zeros alone.

    Weights of a group may have scales that are parts of their row's largest (`quantize.scales`):
    nothing is left of what is a thousand times as small.
    """
    with np.errstate(divide="ignore"):
        octaves = np.log2(values)
    padded = np.pad(octaves, (0, -len(values) % GROUP), constant_values=-np.inf)
    groups = padded.reshape(-1, GROUP)
    known = np.where(np.isfinite(groups), groups, np.nan)
    empty = ~np.isfinite(groups).any(axis=1, keepdims=True)
    known[empty[:, 0]] = 0
    medians = np.nanmedian(known, axis=1, keepdims=True)
    usual = 0 if empty.all() else np.median(medians[~empty])
    within: Doubles = np.clip(groups - medians, -MOST, MOST).reshape(-1)
    apart: Doubles = np.where(empty, 0, medians - usual).repeat(GROUP)
    return within[: len(values)], apart[: len(values)]


def _median(values: Doubles) -> float:
    """Octaves of the median of what is not zero; of zeros alone 0."""
    known = values[values > 0]
    return float(np.log2(np.median(known))) if len(known) else 0.0


def expected(reader: WeightReader, maker: Maker) -> Doubles:
    """How large each channel may be expected to be: of a norm its weight, of a linear the norm of
    its row for inputs as large as the weight of the norm before it; float64 ``[channels]``."""
    if maker.vector:
        return np.abs(reader.read(maker.tensor)).astype(np.float64)
    norm = np.float32(1) if maker.norm is None else reader.read(maker.norm)
    with np.errstate(over="ignore"):
        weighted = (rows * norm for rows in _blocks(reader, maker.tensor))
        squares = [np.einsum("rk,rk->r", rows, rows) for rows in weighted]
    made = np.concatenate(squares).astype(np.float64)
    if maker.bias is not None:
        made += np.square(reader.read(maker.bias), dtype=np.float64)
    result: Doubles = np.sqrt(made)
    return result


def _read(reader: WeightReader, names: Sequence[str]) -> Doubles:
    """The largest weight of each column of all matrices."""
    blocks = (np.abs(rows).max(axis=0) for name in names for rows in _blocks(reader, name))
    largest = next(blocks)
    for block in blocks:
        np.maximum(largest, block, out=largest)
    result: Doubles = largest.astype(np.float64)
    return result


def _blocks(reader: WeightReader, name: str) -> Iterator[Floats]:
    """A matrix, some rows at a time."""
    rows, k = reader.shape(name)
    step = max(1, BLOCK_ELEMENTS // k)
    for start in range(0, rows, step):
        yield reader.read(name, start, min(start + step, rows))
