"""Whole dialogues, packed side by side into the rows of a batch.

Each dialogue starts at position 0 and sees only itself, as it does when the model is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from . import DOCUMENT_END, generate
from .tokenizer import encode, token_id

_INDEX_RANGE = 100_000
_MISSES = 12


@dataclass(frozen=True)
class BatchShape:
    """How much one batch holds, and how long its dialogues are."""

    rows: int
    columns: int
    blocks: tuple[int, int]


@dataclass(frozen=True)
class Batch:
    """Token ids, positions, who sees whom, and how much each next token counts."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    weights: torch.Tensor
    answers: torch.Tensor


@dataclass(frozen=True)
class _Encoded:
    ids: list[int]
    is_answer: list[bool]


def make_batch(
    tokenizer: Tokenizer, seed: int, step: int, shape: BatchShape, prompt_weight: float
) -> Batch:
    """Return the batch of a step: the same arguments give the same batch."""
    rows: list[list[_Encoded]] = [[] for _ in range(shape.rows)]
    room = [shape.columns] * shape.rows
    misses = 0
    index = step * _INDEX_RANGE
    while misses < _MISSES:
        ids, is_answer = encode(tokenizer, generate(seed, index, blocks=shape.blocks))
        index += 1
        fits = [row for row in range(shape.rows) if room[row] >= len(ids)]
        if not fits:
            misses += 1
            continue
        rows[fits[0]].append(_Encoded(ids, is_answer))
        room[fits[0]] -= len(ids)
    return _pack(token_id(tokenizer, DOCUMENT_END), rows, shape, prompt_weight)


def _pack(
    padding: int, rows: list[list[_Encoded]], shape: BatchShape, prompt_weight: float
) -> Batch:
    size = (shape.rows, shape.columns)
    ids = torch.full(size, padding, dtype=torch.long)
    positions = torch.zeros(size, dtype=torch.long)
    owner = torch.full(size, -1, dtype=torch.long)
    weights = torch.zeros(size)
    answers = torch.zeros(size, dtype=torch.bool)
    for row, documents in enumerate(rows):
        start = 0
        for number, document in enumerate(documents):
            end = start + len(document.ids)
            ids[row, start:end] = torch.tensor(document.ids)
            positions[row, start:end] = torch.arange(end - start)
            owner[row, start:end] = number
            # Entry i of the weights is about predicting token i + 1 of the same dialogue.
            answer = torch.tensor(document.is_answer[1:])
            answers[row, start : end - 1] = answer
            weights[row, start : end - 1] = torch.where(answer, 1.0, prompt_weight)
            start = end
    causal = torch.ones(shape.columns, shape.columns, dtype=torch.bool).tril()
    mask = (owner[:, :, None] == owner[:, None, :]) & causal
    return Batch(ids, positions, mask[:, None], weights, answers)
