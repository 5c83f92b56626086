"""How sequences are sampled, as the rows of step buffers that programs read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.format.abi import MAX_BIASES

_FIELDS = 8
"""Columns of ``sampling_f`` and ``sampling_i``."""

SamplingOf = tuple[SamplingParams, int, int]
"""Parameters, the seed (64 bits), and which choice of its request a sequence is."""


def write_sampling(program: LoadedProgram, rows: Sequence[SamplingOf]) -> None:
    """Write ``sampling_f``, ``sampling_i`` and the biases of the first rows of a step."""
    floats = np.zeros((len(rows), _FIELDS), np.float32)
    ints = np.zeros((len(rows), _FIELDS), np.uint32)
    bias_ids = np.zeros((len(rows), MAX_BIASES), np.int32)
    bias_values = np.zeros((len(rows), MAX_BIASES), np.float32)
    for row, (p, seed, index) in enumerate(rows):
        floats[row, :6] = (
            0.0 if p.greedy else p.temperature,
            p.top_p,
            p.min_p,
            p.repetition_penalty,
            p.presence_penalty,
            p.frequency_penalty,
        )
        biases = len(p.logit_bias)
        low, high = seed & 0xFFFFFFFF, seed >> 32
        ints[row, :6] = (p.top_k, low, high, biases, p.ignore_eos, index)
        bias_ids[row, :biases] = list(p.logit_bias)
        bias_values[row, :biases] = list(p.logit_bias.values())
    program.write("sampling_f", floats)
    program.write("sampling_i", ints.view(np.int32))
    program.write("bias_ids", bias_ids)
    program.write("bias_values", bias_values)


def counts_row(tokens: Sequence[int], prompt_len: int, vocab: int) -> npt.NDArray[np.int32]:
    """A row of ``counts``: int32 [vocab], twice the times drawn, plus 1 for a prompt's token.

    Args:
        tokens: ids of the prompt and of what has been drawn.
        prompt_len: how many of them are the prompt.
        vocab: how many ids there are.
    """
    ids = np.array(tokens, np.int64)
    counts = 2 * np.bincount(ids[prompt_len:], minlength=vocab).astype(np.int32)
    counts[ids[:prompt_len]] += 1
    return counts
