"""Random bits by their counter: Philox4x32-10 (Salmon et al., "Parallel random numbers", 2011)."""

from __future__ import annotations

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.gpu.operations import u32
from edgewise_compiler.kernels.gpu.sampling.wide import full_product
from edgewise_compiler.kernels.gpu.thread import keep, local, store

_ROUNDS, _MULTIPLIERS = 10, (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)


def random_bits(position: Expr, sequence: Expr, seed: tuple[Expr, Expr]) -> Expr:
    """The first word of the block at (position, sequence), all uint32; ``seed`` low word first."""
    words, keys = local((4,), "uint32"), local((2,), "uint32")
    for i, word in enumerate((position, sequence, u32(0), u32(0))):
        store(words, word, i)
    for i, word in enumerate(seed):
        store(keys, word, i)
    with T.serial(0, _ROUNDS):
        high0, low0 = full_product(words[0], u32(_MULTIPLIERS[0]))
        high1, low1 = full_product(words[2], u32(_MULTIPLIERS[1]))
        first, third = keep(high1 ^ words[1] ^ keys[0]), keep(high0 ^ words[3] ^ keys[1])
        for i, word in enumerate((first, low1, third, low0)):
            store(words, word, i)
        for i, step in enumerate(_STEPS):
            store(keys, keys[i] + u32(step), i)
    return words[0]
