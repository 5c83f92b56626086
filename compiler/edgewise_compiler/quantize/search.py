"""Scales of integers, even or bent, searched for: the error that they leave counts by column.

A group's scale that makes its largest value exact is seldom the one with the least error. Here a
few dozen scales around it are tried; the codes that each leads to have a best scale of their own,
in closed form, and the best of those is kept. llama.cpp's quantizers search in this way
(https://github.com/ggml-org/llama.cpp, ggml/src/ggml-quants.c: ``make_qx_quants``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.codes import SIXTEEN, CodedRows, Floats, Levels
from edgewise_runtime.format.abi import GROUP

FACTORS = np.linspace(0.7, 1.6, 16, dtype=np.float32)
"""Times the lowest integer and times the highest: what a group's extreme value is put at, in turn.
Beyond 1 it is clipped, for the sake of columns that count more."""

BLOCK_GROUPS = 1 << 12
"""Groups searched at once: their planes, 512 KiB each, stay in a core's second-level cache."""


def search(
    rows: Floats,
    importance: Floats | None,
    levels: Levels = SIXTEEN,
    most: Floats | None = None,
) -> CodedRows:
    """Codes and scales that make ``sum_j importance_j (w_j - integer_j * scale)^2`` small.

    The codes are chosen for the scale as it is stored, rounded.

    Args:
        rows: float32 ``[rows, k]``, ``k`` a multiple of 32.
        importance: how much an error in each column counts, float32 ``[k]``, not negative; None
            counts all alike. A group without any importance is searched as if it had none given.
        most: what the scales of a row reach, as `scales.ScaleStore.keep` has it.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    count, k = rows.shape
    groups = rows.reshape(-1, GROUP)
    each = np.ones(k, np.float32) if importance is None else importance.astype(np.float32)
    weights = each.reshape(-1, GROUP)
    # Only ratios within a group matter; at a mean of one nothing underflows.
    means = weights.mean(axis=1, keepdims=True, dtype=np.float64)
    weights = np.where(means > 0, weights / np.where(means > 0, means, 1), 1).astype(np.float32)
    codes = np.empty(groups.shape, np.uint8)
    best = np.empty(len(groups), np.float32)

    def planes(block: slice) -> tuple[Floats, Floats]:
        """One plane per column of a group: NumPy reduces along planes at memory speed."""
        of_groups = weights[np.arange(block.start, block.stop) % len(weights)]
        return np.ascontiguousarray(groups[block].T), np.ascontiguousarray(of_groups.T)

    def find(block: slice) -> None:
        best[block] = _best_scales(*planes(block), levels)

    _by_blocks(find, len(groups))
    near = levels.store.near(best.reshape(count, -1), most)
    scales = [levels.store.read(kept).reshape(-1) for kept in near]
    choice = np.zeros(len(groups), np.intp)

    def fill(block: slice) -> None:
        w, u = planes(block)
        found = [nearest(w, scale[block], levels) for scale in scales]
        if len(found) > 1:
            tried = zip(found, scales, strict=True)
            errors = [_error(w, u, levels.integers(n) * scale[block]) for n, scale in tried]
            choice[block] = np.argmin(errors, axis=0)
        numbers = np.choose(choice[block], found)
        codes[block] = (numbers - np.float32(levels.low)).astype(np.uint8).T

    _by_blocks(fill, len(groups))
    of_rows = choice.reshape(count, -1)
    kept = {**near[0], "scale": np.choose(of_rows, [each["scale"] for each in near])}
    return CodedRows(codes.reshape(count, k), kept)


def _error(w: Floats, u: Floats, values: Floats) -> Floats:
    """How much ``values`` leave of each group ``w[:, g]``."""
    np.subtract(w, values, out=values)
    np.multiply(values, values, out=values)
    error: Floats = np.einsum("jg,jg->g", u, values)
    return error


def _by_blocks(work: Callable[[slice], None], groups: int) -> None:
    """Have all blocks of groups worked on, a few at once."""
    blocks = [slice(i, min(i + BLOCK_GROUPS, groups)) for i in range(0, groups, BLOCK_GROUPS)]
    if len(blocks) == 1:
        work(blocks[0])
        return
    # NumPy lets go of the interpreter while it works on a plane.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, blocks))


def nearest(w: Floats, scale: Floats, levels: Levels) -> Floats:
    """The numbers of the integers nearest to ``w / scale``; 0 where the scale is."""
    return levels.nearest(w * _inverse(scale))


_HUGE = np.float32(2.0**100)


def _inverse(scale: Floats) -> Floats:
    """``1 / scale``; 0 where the scale is."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
    # Beyond the largest float there is nothing to tell apart: such a scale is a subnormal's.
    return np.clip(inverse, -_HUGE, _HUGE)


def _best_scales(w: Floats, u: Floats, levels: Levels) -> NDArray[np.float32]:
    """For each group ``w[:, g]`` the scale of least error, float32 ``[groups]``.

    Of given integers q the best scale is ``sum(u w q) / sum(u q^2)``, and it takes
    ``sum(u w q)^2 / sum(u q^2)`` off the error: the largest of those wins.
    """
    high, low = w.max(axis=0), w.min(axis=0)
    extreme = np.where(high >= -low, high, low)
    uw = u * w
    best = np.zeros(w.shape[1], np.float32)
    gain = np.zeros(w.shape[1], np.float32)

    def consider(inverse: Floats) -> None:
        integers = levels.integers(levels.nearest(w * inverse))
        along = np.einsum("jg,jg->g", uw, integers)
        np.multiply(integers, integers, out=integers)
        square = np.einsum("jg,jg->g", u, integers)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scale = along / square
            less = along * scale
            better = less > gain  # False where all integers are zero: 0 / 0.
        np.copyto(best, scale, where=better)
        np.copyto(gain, less, where=better)

    unit = _inverse(extreme)
    for end in levels.ends:
        for factor in FACTORS:
            consider(unit * (np.float32(end) * factor))
    for _ in range(2):
        consider(_inverse(best))
    return best
