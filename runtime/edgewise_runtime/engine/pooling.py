"""Hidden states of a sequence's tokens, made one vector: what stands for a text.

A program hands out states after the final norm, row by row; see `Runner.prefill`. They are the
same bits wherever a prompt is cut and whatever runs beside it, and rows are added in their order:
so are the vectors.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.manifest import Program

Vector = npt.NDArray[np.float32]

Pooling = Literal["last", "mean"]
"""``last``: the state of the last token, which has seen all others. ``mean``: that of all."""

POOLINGS: tuple[Pooling, ...] = ("last", "mean")

STATES = "hidden"
"""The operation that gives hidden states, and the buffer that has them."""


def gives_states(program: Program) -> bool:
    """Whether a program gives hidden states; those compiled before there were any do not."""
    return program.plan_for(STATES, {"r": 1}) is not None


def check_states(program: LoadedProgram) -> None:
    """Refuse a program that gives no hidden states.

    Raises:
        BundleError: ``bundle.entry``.
    """
    if not gives_states(program.program):
        raise BundleError(
            f"The program {program.program.id!r} gives no embeddings: it was compiled before "
            "programs gave hidden states.",
            remedy="Compile the model again with this version of edgewise.",
            code="bundle.entry",
        )


class Pooled:
    """The vector of one sequence, as its states come."""

    def __init__(self, pooling: Pooling) -> None:
        self._pooling = pooling
        self._sum = np.zeros(0, np.float64)
        self._rows = 0

    def wanted(self, rows: int, *, last: bool) -> range:
        """Of the next so many tokens those whose states are wanted.

        Args:
            last: whether no others follow.
        """
        if self._pooling == "mean":
            return range(rows)
        return range(rows - 1, rows) if last else range(0)

    def add(self, states: Vector) -> None:
        """Take the wanted states, float32 [rows, hidden], in their order."""
        if not self._rows:
            self._sum = np.zeros(states.shape[1], np.float64)
        for row in states:  # one by one: then it does not matter how many come at once
            self._sum += row
        self._rows += len(states)

    def forget(self) -> None:
        """All of them come again."""
        self._rows = 0

    @property
    def finite(self) -> bool:
        """Whether all numbers are."""
        return bool(np.isfinite(self.vector).all())

    @property
    def vector(self) -> Vector:
        """float32 [hidden], once all states have come."""
        return (self._sum / max(self._rows, 1)).astype(np.float32)
