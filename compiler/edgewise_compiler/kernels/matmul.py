"""What linear layers of every machine are made for."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.format.abi import ROWS


@dataclass(frozen=True)
class MatmulSpec:
    """``y = x @ weight.T (+ bias)`` on a packed weight, and what becomes of ``y``.

    Attributes:
        rows: the most rows of x.
        outputs: rows of the packed weight, padding included: columns of y.
        inputs: columns of x and of the weight.
        scheme: how the weight is stored, a name of `quantize.SCHEMES`.
        epilogue: ``store``; ``add`` onto what is there; ``swiglu`` of alternating panels of y;
            ``swiglu_a8``, the same quantized for the next linear; ``geglu``, ``clamped`` and
            these with ``_a8`` have other activations.
        bias: whether there is one.
        count: the field of ``step`` that says how many rows are live.
        first: the linear's packed row at which this part of it begins.
        total: packed rows of a linear of which this is a part, which writes only its own columns;
            None where it is all of it.
    """

    rows: int
    outputs: int
    inputs: int
    scheme: str
    epilogue: str = "store"
    bias: bool = False
    count: int = ROWS
    first: int = 0
    total: int | None = None

    @property
    def gated(self) -> bool:
        """Whether panels of y are gates and what they gate."""
        return self.epilogue.startswith(("swiglu", "geglu", "clamped"))
