"""How far two models' predictions are apart, and how good one's are: from logits, in nats.

Everything is computed in float64, a few rows at a time: a row is a whole vocabulary wide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
Nats = npt.NDArray[np.float64]

_ROWS = 32
"""Rows at a time: at 150,000 tokens, 40 MB for each array of the computation."""


def losses(logits: Logits, targets: npt.NDArray[np.intp]) -> Nats:
    """Negative log-probability of one token a row, in nats: float64 [rows].

    Args:
        logits: [rows, vocabulary].
        targets: [rows], the ids that came.
    """
    found = np.empty(len(logits))
    for rows in _blocks(len(logits)):
        chosen = np.take_along_axis(_log_softmax(logits[rows]), targets[rows, None], axis=1)
        found[rows] = -chosen[:, 0]
    return found


def perplexity(nats: Nats) -> float:
    """The exponential of the mean of `losses`."""
    return float(np.exp(nats.mean()))


def divergence(reference: Logits, other: Logits) -> Nats:
    """Kullback-Leibler divergence from the reference to another, KL(reference || other).

    Args:
        reference: logits [rows, vocabulary] of the distributions that the mean is taken over.
        other: logits of the same shape.

    Returns:
        float64 [rows] in nats; exactly 0 where both rows are the same.
    """
    found = np.empty(len(reference))
    for rows in _blocks(len(reference)):
        p, q = _log_softmax(reference[rows]), _log_softmax(other[rows])
        found[rows] = (np.exp(p) * (p - q)).sum(axis=1)
    return found


def same_top1(reference: Logits, other: Logits) -> npt.NDArray[np.bool_]:
    """Whether both find the same token likeliest, row by row; of equals the lowest id counts."""
    same: npt.NDArray[np.bool_] = reference.argmax(axis=1) == other.argmax(axis=1)
    return same


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + _ROWS) for first in range(0, count, _ROWS))


def _log_softmax(logits: Logits) -> Nats:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    normalized: Nats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalized
