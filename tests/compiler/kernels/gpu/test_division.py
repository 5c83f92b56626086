"""How many tokens a segment of decode attention has, by the heads that share keys."""

from __future__ import annotations

import pytest

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.division import with_long_segments
from edgewise_compiler.kernels.gpu.limits import LEAST


@pytest.mark.parametrize(
    ("heads", "segment"),
    [
        pytest.param((9, 3, 64), 256, id="SmolLM2"),
        pytest.param((16, 8, 128), 256, id="Qwen3 0.6B"),
        pytest.param((32, 8, 128), 256, id="Llama 3.1 8B"),
        pytest.param((4, 1, 256), 128, id="Gemma 3 1B"),
        pytest.param((14, 2, 64), 128, id="Qwen2.5 0.5B"),
        pytest.param((64, 8, 64), 128, id="gpt-oss"),
        pytest.param((32, 4, 128), 64, id="Qwen3 30B-A3B"),
        pytest.param((71, 1, 64), 64, id="more than ever fit"),
    ],
)
def test_segments_are_as_long_as_there_is_room_for(
    heads: tuple[int, int, int], segment: int
) -> None:
    spec = AttentionSpec(512, 8, 4096, *heads, "float16", 0.125)
    assert with_long_segments(spec, LEAST).segment == segment
