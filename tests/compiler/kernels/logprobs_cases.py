"""Logits of every kind and the log-probabilities that NumPy finds for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.format.abi import LOGPROBS, NO_TOKEN, TOP_LOGPROBS

Array = npt.NDArray[Any]

ATOL, RTOL = 4e-6, 2e-7
"""How far results may be from NumPy's in double precision.

The sum of probabilities is off by less than 2e-6 of itself, and its logarithm by as much: each
addend by the rounding of its exponent (2**-24 of at most 17, below which addends no longer
matter) and of exp2, the sum by a few hundred roundings, most of them to numbers far smaller than
the last. Two roundings of the difference come on top, each 2**-24 of the result.
"""


def numpy_logprobs(logits: Array, sampled: int) -> tuple[Array, Array]:
    """Log-probabilities float64 [21] and ids [21] of one row, sorted by NumPy."""
    scores = logits.astype("float64")
    largest = float(np.finfo("float32").max)
    scores = np.minimum(np.where(np.isnan(scores), -np.inf, scores), largest)
    values, ids = np.full(LOGPROBS, -np.inf), np.full(LOGPROBS, NO_TOKEN)
    order = np.lexsort((np.arange(len(scores)), -scores))
    order = order[scores[order] > -np.inf][:TOP_LOGPROBS]
    ids[0], ids[1 : 1 + len(order)] = sampled, order
    if len(order) == 0:
        return values, ids
    differences = scores - scores[order[0]]
    every = np.maximum(differences, -largest) - np.log(np.exp(differences).sum())
    every = np.where(scores > -np.inf, np.maximum(every, -largest), -np.inf)
    values[1 : 1 + len(order)] = every[order]
    if 0 <= sampled < len(scores):
        values[0] = every[sampled]
    return values, ids


def assert_close(got: tuple[Array, Array], logits: Array, sampled: Array) -> None:
    """Holds the rows of a kernel's two outputs to NumPy's, ids exactly."""
    for values, ids, row, token in zip(*got, logits, sampled, strict=True):
        expected_values, expected_ids = numpy_logprobs(row, int(token))
        np.testing.assert_array_equal(ids, expected_ids)
        np.testing.assert_allclose(values, expected_values, rtol=RTOL, atol=ATOL)
