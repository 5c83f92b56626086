"""Second moments of what linears are given, gathered over a text.

The output error of a linear whose weights are off by ``d`` is ``sum_ij d_i d_j E[x_i x_j]``. Its
diagonal, ``sum_j d_j^2 E[x_j^2]``, says how much a column matters: llama.cpp's importance matrix is
the same vector (https://github.com/ggml-org/llama.cpp, tools/imatrix), and the whole matrix is what
GPTQ calls the Hessian (Frantar et al. 2022, arXiv 2210.17323).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.calibrate.interpret import Tokens, forward
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize.codes import Floats

Importance = Mapping[str, Floats]
"""By the name of a checkpoint's tensor: the mean square of each input column, float32 ``[k]``. What
no linear multiplies with, such as a table of tokens that is no head, is not in it."""


def importance(checkpoint: Checkpoint, tokens: Tokens) -> Importance:
    """The mean square of every linear's input columns over texts.

    Args:
        tokens: ids ``[texts, length]``; each text starts at position 0.

    Raises:
        CheckpointError: a weight that is not finite.
        UnsupportedError: an operation that `interpret` does not have.
    """
    sums: dict[str, NDArray[np.float64]] = {}
    rows: Counter[str] = Counter()

    def observe(spec: LinearSpec, x: Floats) -> None:
        squares = np.square(x, dtype=np.float64).sum(axis=0)
        for source in spec.sources:
            sums[source] = sums.get(source, np.float64(0)) + squares
            rows[source] += len(x)

    forward(
        checkpoint.family,
        checkpoint.model,
        checkpoint.weights,
        tokens,
        observe=observe,
        logits=False,
    )
    return {name: (total / rows[name]).astype(np.float32) for name, total in sums.items()}
