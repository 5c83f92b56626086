"""Half heads on their way into attention, four elements at a time: normalized, rotated, stored.

A head is two halves, whose elements form the pairs that are rotated (Su et al. 2021, as GPT-NeoX
has them). A thread has the same vector of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm.ir import Expr

from edgewise_compiler.kernels.gpu.attention.common import half_or_nan, half_words
from edgewise_compiler.kernels.gpu.operations import (
    fma,
    inverse_sqrt,
    lane,
    larger,
    magnitude,
    number,
    splat,
)
from edgewise_compiler.kernels.gpu.thread import bind


def squares(vectors: Sequence[Expr]) -> Expr:
    """The squares of all elements, added up in order."""
    total = number(0.0)
    for vector in vectors:
        for j in range(4):
            total = fma(lane(vector, j), lane(vector, j), total)
    return total


def inverse_rms(total: Expr, width: int, eps: float) -> Expr:
    """What an RMSNorm (Zhang and Sennrich 2019) multiplies by, in every lane, from the squares of
    ``width`` elements."""
    mean = fma(total, number(1.0 / width), number(eps))
    return bind(splat(inverse_sqrt(mean)))


def rotated(first: Expr, second: Expr, cos: Expr, sin: Expr) -> list[Expr]:
    """Elements of the first half and their partners in the second, turned by an angle."""
    return [
        bind(fma(first, cos, second * (sin * number(-1.0, "float32x4")))),
        bind(fma(second, cos, first * sin)),
    ]


def elements(kv_dtype: str, vector: Expr) -> list[Expr]:
    """Four numbers as elements of a page that is not int8."""
    if kv_dtype == "float16x2":
        return half_words(vector)
    values = [lane(vector, k) for k in range(4)]
    return [half_or_nan(v) if kv_dtype == "float16" else v for v in values]


def largest_of(vectors: Sequence[Expr]) -> Expr:
    """The largest magnitude of all elements, NaN above all."""
    most = number(0.0)
    for vector in vectors:
        x = bind(magnitude(vector))
        for k in range(4):
            most = larger(most, lane(x, k))
        most = bind(most)
    return most
