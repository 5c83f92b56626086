"""Embedding on the GPU copies the exact values of a token's row, whichever part has it."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.elementwise.embed import TablePart, embed
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels.gpu.packing import columns, pack
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=2)

N, V = 9, 192


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("H", [32, 96, 2080])
def test_rows_are_the_exact_values_of_their_tokens(scheme: str, H: int) -> None:
    rng, H = np.random.default_rng(H), columns(scheme, H)
    packed, exact = pack(scheme, rng.standard_normal((V, H), np.float32))
    tokens = rng.integers(0, V, N).astype(np.int32)
    tokens[:2] = 0, V - 1
    before = rng.standard_normal((N, H), np.float32)
    for live in (1, 4, N):
        step = step_array(live, 1, 0, 0)
        arrays = [tokens, *packed, before, step]
        x = run(embed((TablePart(scheme, V),), N, H), arrays, n=live)[-2]
        np.testing.assert_array_equal(x[:live], exact[tokens[:live]])
        np.testing.assert_array_equal(x[live:], before[live:])


def test_parts_write_their_own_tokens_only() -> None:
    rng = np.random.default_rng(0)
    packed, exact = pack("q4", rng.standard_normal((V, 64), np.float32))
    tokens = np.array([0, 63, 64, 128, 191, 100, 1, 2, 3], np.int32)
    x, step = np.zeros((N, 64), np.float32), step_array(N, 1, 0, 0)
    for first in (0, 64, 128):
        words = packed[0].reshape(V, -1)[first : first + 64]
        scales = packed[1].reshape(V, -1)[first : first + 64]
        part = embed((TablePart("q4", 64, first),), N, 64)
        x = run(part, [tokens, words, scales, x, step], n=N)[3]
    np.testing.assert_array_equal(x, exact[tokens])


@pytest.mark.parametrize("second", SCHEMES)
def test_one_launch_reads_parts_in_different_schemes(second: str) -> None:
    H = columns(second, 96)
    rng = np.random.default_rng(1)
    values = rng.standard_normal((V, H), np.float32)
    firsts, exact_firsts = pack("q6_nl", values[:128])
    rest, exact_rest = pack(second, values[128:])
    exact = np.concatenate([exact_firsts, exact_rest])
    tokens = np.array([0, 127, 128, V - 1, 64, 150, V, -1, 3], np.int32)
    before, step = rng.standard_normal((N, H), np.float32), step_array(N - 1, 1, 0, 0)
    launch = embed((TablePart("q6_nl", 128), TablePart(second, V - 128, 128)), N, H)
    x = run(launch, [tokens, *firsts, *rest, before, step], n=N)[-2]
    np.testing.assert_array_equal(x[:6], exact[tokens[:6]])
    # Ids that no part has, and a row that is not live.
    np.testing.assert_array_equal(x[6:], before[6:])
