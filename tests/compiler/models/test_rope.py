"""Rotary tables: the formulas of the papers, both spellings, and transformers' numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.models.base import RotationSpec
from edgewise_compiler.models.rope import RopeConfig, read_rope
from edgewise_compiler.models.rotation import inverse_frequencies, rope_table, rotation_table

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def test_the_table_holds_cosines_and_sines_of_position_times_frequency() -> None:
    table = rope_table(RopeConfig(theta=500.0), 16, 300)
    assert (table.shape, table.dtype) == ((300, 2, 8), np.float32)
    for position in (0, 1, 17, 299):
        for i in range(8):
            angle = position * 500.0 ** (-2 * i / 16)
            assert table[position, 0, i] == pytest.approx(math.cos(angle), abs=2e-5)
            assert table[position, 1, i] == pytest.approx(math.sin(angle), abs=2e-5)


def test_what_a_head_was_padded_with_does_not_turn() -> None:
    rope = RopeConfig("linear", theta=500.0, factor=2.0, attention_factor=1.5)
    table = rotation_table(RotationSpec("rope", rope, 32, 10), 40)
    assert (table.shape, table.dtype) == ((40, 2, 16), np.float32)
    np.testing.assert_array_equal(table[..., :5], rope_table(rope, 10, 40))
    assert (table[:, 0, 5:] == 1).all()
    assert (table[:, 1, 5:] == 0).all()
    whole = RotationSpec("rope", rope, 32)
    np.testing.assert_array_equal(rotation_table(whole, 40), rope_table(rope, 32, 40))


def test_linear_scaling_divides_positions() -> None:
    plain, scaled = RopeConfig(), RopeConfig("linear", factor=4.0)
    table = rope_table(scaled, 64, 401)
    np.testing.assert_allclose(table[::4], rope_table(plain, 64, 101), atol=2e-5)


def test_llama3_keeps_short_waves_stretches_long_ones_and_blends_between() -> None:
    rope = read_rope({"rope_theta": 500000.0, "rope_scaling": LLAMA3}, context=131072, theta=1e4)
    plain = inverse_frequencies(RopeConfig(theta=500000.0), 128)
    ratio = plain / inverse_frequencies(rope, 128)
    waves = 2 * np.pi / plain
    np.testing.assert_allclose(ratio[waves < 8192 / 4], 1.0)
    np.testing.assert_allclose(ratio[waves > 8192], 8.0, rtol=1e-6)
    between = ratio[(waves > 8192 / 4) & (waves < 8192)]
    assert len(between) > 3
    assert (np.diff(between) > 0).all()
    assert between.min() > 1
    assert between.max() < 8


def test_yarn_extrapolates_short_waves_and_interpolates_long_ones() -> None:
    rope = read_rope({"rope_theta": 1e6, "rope_scaling": YARN}, context=131072, theta=1e4)
    ratio = inverse_frequencies(RopeConfig(theta=1e6), 128) / inverse_frequencies(rope, 128)
    assert ratio[0] == 1.0
    assert ratio[-1] == pytest.approx(4.0)
    assert (np.diff(ratio) >= 0).all()
    assert rope.attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    assert rope_table(rope, 128, 1)[0, 0] == pytest.approx(rope.attention_factor)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"attention_factor": 0.75}, 0.75),
        ({"mscale": 1.0}, 0.1 * math.log(4) + 1),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
        (
            {"mscale": 0.7, "mscale_all_dim": 0.4},
            (0.07 * math.log(4) + 1) / (0.04 * math.log(4) + 1),
        ),
        ({"factor": 1.0}, 1.0),
    ],
)
def test_yarn_attention_factor(more: dict[str, float], expected: float) -> None:
    rope = read_rope({"rope_parameters": YARN | more}, context=131072, theta=1e4)
    assert rope.attention_factor == pytest.approx(expected)


def test_yarn_without_a_factor_takes_the_ratio_of_contexts() -> None:
    scaling = {key: value for key, value in YARN.items() if key != "factor"}
    assert read_rope({"rope_scaling": scaling}, context=131072, theta=1e4).factor == 4.0


def test_longrope_divides_each_frequency_and_scales_by_how_far_it_stretches() -> None:
    divisors = [1.0, 1.5, 2.0, 8.0]
    scaling = {"rope_type": "longrope", "short_factor": divisors, "long_factor": divisors}
    rope = read_rope({"rope_scaling": scaling | {"factor": 4.0}}, context=4096, theta=1e4)
    ratio = inverse_frequencies(RopeConfig(theta=1e4), 8) / inverse_frequencies(rope, 8)
    np.testing.assert_allclose(ratio, divisors, rtol=1e-6)
    assert rope.attention_factor == pytest.approx(math.sqrt(1 + math.log(4) / math.log(4096)))
    unscaled = read_rope({"rope_scaling": scaling}, context=4096, theta=1e4)
    assert unscaled.attention_factor == 1.0


def test_a_ramp_without_truncation_starts_between_dimensions() -> None:
    whole = RopeConfig("yarn", 1e4, 4.0, 4096)
    exact = RopeConfig("yarn", 1e4, 4.0, 4096, truncate=False)
    a, b = inverse_frequencies(whole, 64), inverse_frequencies(exact, 64)
    assert a[0] == b[0]
    assert not np.allclose(a, b, rtol=1e-3)


@pytest.mark.parametrize("scaling", [{"type": "linear", "factor": 2.0}, LLAMA3, YARN])
def test_every_spelling_reads_the_same(scaling: dict[str, Any]) -> None:
    kind = scaling.get("rope_type", scaling.get("type"))
    rest = {key: value for key, value in scaling.items() if key not in ("type", "rope_type")}
    spellings = [
        {"rope_parameters": {"rope_type": kind, "rope_theta": 5e5, **rest}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": kind, **rest}},
        {"rope_theta": 5e5, "rope_scaling": {"type": kind, **rest}},
        {"rope_theta": 5e5, "rope_parameters": {"rope_type": kind, **rest}, "rope_scaling": None},
    ]
    read = {read_rope(spelling, context=65536, theta=1e4) for spelling in spellings}
    assert len(read) == 1
    assert read.pop().theta == 5e5


def test_the_original_context_is_found_inside_outside_or_not_at_all() -> None:
    inside = {**YARN, "original_max_position_embeddings": 100}
    outside = {"original_max_position_embeddings": 200, "rope_scaling": inside}
    absent = {"rope_type": "yarn", "factor": 2.0}
    for config, expected in (
        ({"rope_scaling": inside}, 100),
        (outside, 200),
        ({"rope_scaling": absent}, 4096),
    ):
        assert read_rope(config, context=4096, theta=1e4).original_context == expected


@pytest.mark.full
@pytest.mark.parametrize("head_dim", [32, 80, 96, 128])
@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "default", "rope_theta": 1e6},
        {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0},
        LLAMA3 | {"rope_theta": 5e5},
        LLAMA3 | {"rope_theta": 5e5, "factor": 32.0, "original_max_position_embeddings": 100},
        YARN | {"rope_theta": 1e6},
        YARN | {"rope_theta": 1e4, "truncate": False, "beta_fast": 16.0, "beta_slow": 2.0},
        YARN | {"rope_theta": 1e4, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.5},
        YARN | {"rope_theta": 1e4, "attention_factor": 1.3},
    ],
    ids=lambda parameters: parameters["rope_type"],
)
def test_the_table_is_transformers_table(parameters: dict[str, Any], head_dim: int) -> None:
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    context = 32768
    theirs = LlamaRotaryEmbedding(
        LlamaConfig(
            hidden_size=head_dim * 4,
            num_attention_heads=4,
            head_dim=head_dim,
            max_position_embeddings=context,
            rope_parameters=dict(parameters),
        )
    )
    rope = read_rope({"rope_parameters": parameters}, context=context, theta=1e4)
    ours = inverse_frequencies(rope, head_dim)
    np.testing.assert_allclose(ours, theirs.inv_freq.numpy(), rtol=2e-7)
    cos, sin = theirs(torch.zeros(1), torch.arange(context)[None])
    table = np.stack([cos[0, :, : head_dim // 2].numpy(), sin[0, :, : head_dim // 2].numpy()], 1)
    # A last bit of a frequency, where libraries differ, is worth 0.0004 at the last position.
    np.testing.assert_allclose(rope_table(rope, head_dim, context), table, atol=1e-3)
    np.testing.assert_allclose(rope_table(rope, head_dim, 1024), table[:1024], atol=1e-5)
