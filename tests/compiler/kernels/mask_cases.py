"""Masks of every kind for the sampling kernels of all machines, and the tokens they leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tests.compiler.kernels.cpu.test_sample import CHANGES, FILTERS, SHAPES
from tests.compiler.kernels.sampling_batch import Array, Row
from tests.compiler.kernels.sampling_reference import Request
from tests.compiler.kernels.sampling_reference import sample as reference


def _random(logits: Array, share: float) -> frozenset[int]:
    V = len(logits)
    rng = np.random.default_rng([V, int(share * 100)])
    return frozenset(rng.choice(V, max(1, int(share * V)), replace=False).tolist())


MASKS: dict[str, Callable[[Array], frozenset[int]]] = {
    "the first token": lambda logits: frozenset([0]),
    "the last token": lambda logits: frozenset([len(logits) - 1]),
    "the worst token": lambda logits: frozenset([int(np.float64(logits).argmin())]),
    "all but the best": lambda logits: frozenset(range(len(logits))) - {int(logits.argmax())},
    "the last word": lambda logits: frozenset(range(len(logits) // 32 * 32, len(logits))),
    "every 32nd token": lambda logits: frozenset(range(31, len(logits), 32)),
    "few": lambda logits: _random(logits, 0.02),
    "half": lambda logits: _random(logits, 0.5),
    "all": lambda logits: frozenset(range(len(logits))),
}
REQUESTS = {
    "greedy": Request(),
    **{name: FILTERS[name] for name in ("plain", "top-k", "top-p", "min-p", "all three", "hot")},
    **{name: CHANGES[name] for name in ("repetition", "biases", "all of them")},
}
"""What masked rows ask for besides."""


def masked_rows(mask: str, V: int) -> list[Row]:
    """Rows of some shapes under one kind of mask, with every request."""
    rows = []
    for i, shape in enumerate(("peaked", "tied", "signed zeros", "holes")):
        for k, request in enumerate(REQUESTS.values()):
            logits = SHAPES[shape](V, k)
            asked = replace(request, seed=i << 33 | k, sequence=k, allowed=MASKS[mask](logits))
            rows.append(Row(logits, asked, np.arange(V) % 4, kv_len=7 * k + i))
    return rows


def references(rows: Sequence[Row]) -> list[int]:
    """The tokens that rows must get."""
    return [reference(row.logits, row.counts, row.request, row.kv_len) for row in rows]


def undrawable_rows(V: int) -> list[Row]:
    """Rows that no token can be drawn from: nothing is allowed, nothing that is has a score above
    -inf, or a logit is not finite under a token that is not allowed."""
    logits = SHAPES["peaked"](V, 3)
    rows = []
    for request in (Request(), FILTERS["plain"], FILTERS["all three"], CHANGES["all of them"]):
        rows.append(Row(logits, replace(request, allowed=frozenset())))
        banned = replace(request, allowed=frozenset([4]), biases=((4, -np.inf), (4, 3.0)))
        rows.append(Row(logits, banned))
        for value in (np.nan, np.inf):
            spoiled = logits.copy()
            spoiled[V - 1] = value
            rows.append(Row(spoiled, replace(request, allowed=frozenset([0, 1, 2]))))
    nothing = np.zeros(V, int)
    return [replace(row, counts=nothing) for row in rows]


def beside(V: int) -> tuple[list[Row], list[Row]]:
    """Free rows, and the same with masked ones between them."""
    free = [
        Row(SHAPES["peaked"](V, i), replace(FILTERS[name], seed=i), np.zeros(V, int), kv_len=i)
        for i, name in enumerate(("plain", "top-k", "all three"))
    ]
    masked = masked_rows("few", V)[:3]
    return free, [row for pair in zip(free, masked, strict=True) for row in pair]
