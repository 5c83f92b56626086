"""gpt-oss from its config.json, which leaves most to defaults."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_compiler.models.base import Mixture
from edgewise_compiler.models.families import find_family
from edgewise_runtime.errors import UnsupportedError

GPT_OSS_20B = {
    "architectures": ["GptOssForCausalLM"],
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_hidden_layers": 24,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "vocab_size": 201088,
}


def test_gpt_oss_is_what_its_short_config_means() -> None:
    cfg = find_family(GPT_OSS_20B).read_config(GPT_OSS_20B)
    assert cfg.mixture == Mixture(tuple(range(24)), 32, 4, 2880, normalize=True)
    assert (cfg.window, cfg.local) == (128, tuple(range(0, 24, 2)))
    assert (cfg.head_dim, cfg.context, cfg.activation) == (64, 131072, "clamped_silu")
    assert cfg.sinks
    assert cfg.attention_bias
    rope = cfg.rope
    assert (rope.kind, rope.theta, rope.factor, rope.truncate) == ("yarn", 150000.0, 32.0, False)
    assert rope.attention_factor == pytest.approx(1.3465736)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("swiglu_limit", 10.0, "clamped SwiGLU .swiglu_limit is 10"),
        ("swiglu_alpha", 1.0, "swiglu_alpha is 1"),
        ("num_attention_heads", 40, "num_attention_heads is 40"),
    ],
)
def test_what_kernels_of_gpt_oss_have_not_is_refused(key: str, value: Any, words: str) -> None:
    hf = GPT_OSS_20B | {key: value}
    with pytest.raises(UnsupportedError, match=words):
        find_family(hf).read_config(hf)
