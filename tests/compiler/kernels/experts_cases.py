"""What mixtures of experts compute, in NumPy, and the experts of rows: some alike, some not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgewise_compiler.kernels.experts import RouteSpec
from tests.compiler.kernels.conftest import Array


class Routed(NamedTuple):
    """The choice of experts for rows of logits: numbers and weights, the largest first."""

    ids: Array
    weights: Array


def routed(spec: RouteSpec, logits: Array) -> Routed:
    """Experts by the size of their logits, of equal ones the first; weights in float64."""
    scores = logits[:, : spec.experts].astype(np.float64)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, : spec.chosen].astype(np.int32)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    chosen = np.take_along_axis(powers, ids, axis=1)
    weights = chosen / (chosen if spec.normalize else powers).sum(axis=1, keepdims=True)
    if spec.shared:
        gate = 1 / (1 + np.exp(-logits[:, spec.experts :].astype(np.float64)))
        weights = np.concatenate([weights, gate], axis=1)
    return Routed(ids, weights)


def grouped(ids: Array, n: int, experts: int) -> tuple[Array, Array]:
    """The pairs of the first ``n`` rows by their experts, and where those of each begin:
    ``[experts + 1]``."""
    of = ids[:n].reshape(-1)
    order = np.argsort(of, kind="stable").astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=experts))])
    return order, starts.astype(np.int32)


def choices(rows: int, experts: int, chosen: int) -> Array:
    """Experts of rows: of the first eight all alike, then any; the last expert of none."""
    random = np.random.default_rng(rows + experts)
    found = [random.permutation(experts - 1)[:chosen] for _ in range(rows)]
    found[:8] = [found[0]] * 8
    return np.array(found, np.int32)


def clamped(y: Array) -> Array:
    """The clamped SwiGLU of panels of 16 that alternate, in float64."""
    pairs = y.astype(np.float64).reshape(len(y), -1, 2, 16)
    gate, up = np.minimum(pairs[:, :, 0], 7), np.clip(pairs[:, :, 1], -7, 7)
    found: Array = (gate / (1 + np.exp(-1.702 * gate)) * (1 + up)).reshape(len(y), -1)
    return found
