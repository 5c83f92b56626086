"""What linears on GPUs are made for besides what those of every machine are."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_compiler.kernels.matmul import MatmulSpec


@dataclass(frozen=True, kw_only=True)
class PartSpec(MatmulSpec):
    """A linear, or the part of it whose weights lie in one buffer.

    Attributes:
        live: the most live rows; x may have more.
        width: columns of out, to which every part of a linear writes.
    """

    live: int
    width: int
