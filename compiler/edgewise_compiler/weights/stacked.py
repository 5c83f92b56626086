"""What one expert has of a tensor of them all, in which columns are what rows are elsewhere.

Such a tensor is ``[experts, k, columns]``, its biases are ``[experts, columns]``; parts of an
expert (gate and up) may alternate along the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgewise_compiler.weights.files import Floats

PARTS = {"gate": ("gate_up_proj", 0, 2), "up": ("gate_up_proj", 1, 2), "down": ("down_proj", 0, 1)}
"""Parts of an expert: the tensor of all experts, the first column and the step to the next."""

Read = Callable[[str, int, int], Floats]
"""Rows ``start..stop`` of a tensor."""


@dataclass(frozen=True)
class Share:
    """One expert's columns: from ``first`` on every ``step``th.

    Attributes:
        index: of the expert, one of ``experts``.
    """

    index: int
    experts: int
    first: int = 0
    step: int = 1

    def shape(self, whole: tuple[int, ...]) -> tuple[int, ...]:
        """Of a tensor ``whole`` as rows, ``[rows, k]`` or ``[rows]``.

        One of another number of experts or of dimensions keeps its shape, which is refused then.
        """
        if len(whole) not in (2, 3) or whole[0] != self.experts:
            return whole
        rows = max(0, -(-(whole[-1] - self.first) // self.step))
        return (rows, *whole[1:-1])

    def columns(self, start: int, stop: int) -> slice:
        """Where rows ``start..stop`` lie."""
        return slice(self.first + start * self.step, self.first + stop * self.step, self.step)


class Kept:
    """The expert that was wanted last: its rows are asked for a few at a time, gate's and up's in
    turns, and each would be a reading of all of it."""

    def __init__(self) -> None:
        self._found: tuple[str, int, Floats] | None = None

    def rows(self, read: Read, source: str, share: Share, start: int, stop: int) -> Floats:
        """Rows ``start..stop`` of a share, in a new array."""
        found = self._found
        if found is None or found[:2] != (source, share.index):
            values = read(source, share.index, share.index + 1)[0]
            found = source, share.index, values
            if values.ndim > 1:  # Biases are short, and take the place of none.
                self._found = found
        rows: Floats = found[2][..., share.columns(start, stop)].T.copy()
        return rows
