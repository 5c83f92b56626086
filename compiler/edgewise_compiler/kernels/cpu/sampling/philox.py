"""Random numbers as a function of a counter: the same wherever and in whatever order they are used.

Philox4x32-10 of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.ir import Expr

from edgewise_compiler.kernels.cpu.vector import cast, let

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)


def philox4x32(counter: Sequence[Expr], key: Sequence[Expr]) -> list[Expr]:
    """Four random words for four words of counter and two of key, all uint32 scalars."""

    def product(multiplier: int, word: Expr) -> tuple[Expr, Expr]:
        wide = let(cast(word, "uint64") * tirx.const(multiplier, "uint64"))
        return cast(wide >> tirx.const(32, "uint64"), "uint32"), cast(wide, "uint32")

    words, keys = [let(word) for word in counter], list(key)
    for _ in range(_ROUNDS):
        high0, low0 = product(_MULTIPLIERS[0], words[0])
        high1, low1 = product(_MULTIPLIERS[1], words[2])
        mixed = (high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0)
        words = [let(word) for word in mixed]
        keys = [
            let(k + tirx.const(step, "uint32")) for k, step in zip(keys, _KEY_STEPS, strict=True)
        ]
    return words
