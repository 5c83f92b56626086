"""Embedding rows come out of packed weights as the scheme defines them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.elementwise.embed import embed
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits

pytestmark = pytest.mark.sampled(one_in=3)

N, H, V = 9, 256, 70  # V is padded to 96 rows
SCHEMES = ("f32", "f16", *reference.BITS)


@cache
def kernels(isa: str) -> dict[str, Any]:
    functions = {scheme: embed(scheme, N, H, V, isa) for scheme in SCHEMES}
    built = build(functions.values(), isa)
    return {scheme: built[str(f.attrs["global_symbol"])] for scheme, f in functions.items()}


@cache
def table(scheme: str) -> tuple[tuple[Array, ...], Array]:
    """Packed arguments and the float32 rows they stand for."""
    weight = np.random.default_rng(8).normal(size=(96, H)).astype("float32")
    if scheme in ("f32", "f16"):
        stored = weight.astype({"f32": "float32", "f16": "float16"}[scheme])
        return (reference.panels(stored),), stored.astype("float32")
    codes, scale = reference.quantize_weight(weight, scheme)
    packed = reference.pack(codes, reference.BITS[scheme]), reference.panels(scale)
    return packed, reference.dequantize_weight(codes, scale, scheme)


def run(isa: str, scheme: str, tokens: list[int], n: int) -> Array:
    x, step = aligned((N, H), "float32"), aligned(8, "int32")
    step[0] = n
    ids = aligned_copy(np.array(tokens, "int32"))
    kernels(isa)[scheme](ids, *table(scheme)[0], x, step)
    return x


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("n", [1, 8, N])
def test_tokens_pick_their_rows(isa: str, scheme: str, n: int) -> None:
    tokens = [0, 15, 16, 69, 33, 1, 15, 47, 60]
    x = run(isa, scheme, tokens, n)
    assert same_bits(x[:n], table(scheme)[1][tokens][:n])
    assert not x[n:].any()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_ids_outside_the_vocabulary_read_the_nearest_row(isa: str, scheme: str) -> None:
    x = run(isa, scheme, [-1, -(2**31), V, 2**31 - 1, 0, 0, 0, 0, 0], N)
    assert same_bits(x[:4], table(scheme)[1][[0, 0, V - 1, V - 1]])


def test_parts_of_a_table_write_their_own_tokens_only(isa: str) -> None:
    """The first 64 rows in one scheme, the others in another: ids beyond all go to the nearest."""
    firsts, rest = table("q6_nl"), table("q5_nl")
    parts = [
        embed("q6_nl", N, H, V, isa, part=(0, 64)),
        embed("q5_nl", N, H, V, isa, part=(64, 32)),
    ]
    built = build(parts, isa)
    kernels = [built[str(part.attrs["global_symbol"])] for part in parts]
    packed = [
        [aligned_copy(argument[:4]) for argument in firsts[0]],
        [aligned_copy(argument[4:]) for argument in rest[0]],
    ]
    tokens = [0, 63, 64, 69, 33, 68, -1, V, 2**31 - 1]
    x, step = np.full((N, H), 7, "float32"), aligned(8, "int32")
    x, step[0] = aligned_copy(x), 8
    for kernel, arguments in zip(kernels, packed, strict=True):
        kernel(aligned_copy(np.array(tokens, "int32")), *arguments, x, step)
    exact = np.concatenate([firsts[1][:64], rest[1][64:]])
    assert same_bits(x[:8], exact[np.clip(tokens, 0, V - 1)][:8])
    assert (x[8] == 7).all()
