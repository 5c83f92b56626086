"""What RMS normalization of every machine is made for."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.format.abi import ROWS


@dataclass(frozen=True)
class NormSpec:
    """RMSNorm over the last axis of x.

    Attributes:
        rows, width: the most rows of x, and elements of each.
        eps: added to the mean of squares.
        gathered: the most rows of the result, whose row i is of ``x[logit_rows[i]]``; None where
            rows correspond.
        count: the field of ``step`` that says how many rows are live, without ``gathered``.
    """

    rows: int
    width: int
    eps: float
    gathered: int | None = None
    count: int = ROWS
