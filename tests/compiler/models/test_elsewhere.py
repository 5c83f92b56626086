"""A model that no family reads is refused in words about that model: the trait, its key, its value.

The configurations are what published models say in config.json, but for keys that nothing reads.
"""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_compiler.models.elsewhere import BEYOND, EVERY_TRAIT, MOST, missing, refusal
from edgewise_compiler.models.families import FAMILIES, find_family
from edgewise_compiler.models.llama import LLAMA
from edgewise_compiler.models.qwen3 import QWEN3
from edgewise_compiler.models.traits import PAGE
from edgewise_runtime.errors import UnsupportedError
from tests.compiler.models.test_config import llama

GEMMA_3_1B = {
    "architectures": ["Gemma3ForCausalLM"],
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_hidden_layers": 26,
    "query_pre_attn_scalar": 256,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
}
GEMMA_OF_SOUND = {
    "architectures": ["Gemma5ForConditionalGeneration"],
    "model_type": "gemma5",
    "text_config": GEMMA_3_1B | {"architectures": None, "sliding_window": 1024},
    "vision_config": {"hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152},
}
MIXTRAL_8X7B = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "model_type": "mixtral",
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_local_experts": 8,
    "sliding_window": None,
}
MAMBA_130M = {
    "architectures": ["MambaForCausalLM"],
    "conv_kernel": 4,
    "hidden_act": "silu",
    "hidden_size": 768,
    "layer_norm_epsilon": 1e-05,
    "model_type": "mamba",
    "num_hidden_layers": 24,
    "state_size": 16,
}
OF_MANY = {
    "architectures": ["ClampedMoeForCausalLM"],
    "hidden_act": "silu",
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "max_position_embeddings": 131072,
    "model_type": "clamped_moe",
    "num_hidden_layers": 24,
    "num_local_experts": 32,
    "quantization_config": {"quant_method": "mxfp4"},
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": False},
    "sliding_window": 128,
    "swiglu_limit": 7.0,
}
LFM2_350M = {
    "architectures": ["Lfm2ForCausalLM"],
    "conv_L_cache": 3,
    "layer_types": ["conv", "conv", "full_attention"],
    "model_type": "lfm2",
}
DEEPSEEK_V2_LITE = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "hidden_act": "silu",
    "kv_lora_rank": 512,
    "n_routed_experts": 64,
}
PYTHIA_70M = {
    "architectures": ["GPTNeoXForCausalLM"],
    "hidden_act": "gelu",
    "rotary_pct": 0.25,
    "use_parallel_residual": True,
}
BERT_BASE = {"architectures": ["BertForMaskedLM"], "position_embedding_type": "absolute"}
T5_SMALL = {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (MIXTRAL_8X7B, ["mixtures of experts (num_local_experts is 8)"]),
        (
            GEMMA_OF_SOUND,
            [
                "sliding windows (sliding_window is 1024)",
                "another activation (hidden_activation is 'gelu_pytorch_tanh')",
                "images or sound (it has a vision_config)",
                "a second rotation (rope_local_base_freq is 10000)",
            ],
        ),
        (MAMBA_130M, ["other kinds of layers (state_size is 16)"]),
        (
            OF_MANY,
            [
                "mixtures of experts (num_local_experts is 32)",
                "sliding windows (sliding_window is 128 in 12 of 24 layers)",
                "weights that are quantized already (quant_method is 'mxfp4')",
                "clamped values (swiglu_limit is 7.0)",
            ],
        ),
        (LFM2_350M, ["other kinds of layers (layer_types has 'conv')"]),
        (
            DEEPSEEK_V2_LITE,
            [
                "mixtures of experts (n_routed_experts is 64)",
                "latent attention (kv_lora_rank is 512)",
            ],
        ),
        (
            PYTHIA_70M,
            [
                "another activation (hidden_act is 'gelu')",
                "rotations of a part of each head (rotary_pct is 0.25)",
                "attention and MLP side by side (use_parallel_residual is True)",
                "LayerNorm",
            ],
        ),
        (
            BERT_BASE,
            [
                "another head than the next token's (architectures is ['BertForMaskedLM'])",
                "other positions than rotary ones (position_embedding_type is 'absolute')",
            ],
        ),
        (T5_SMALL, ["an encoder beside the decoder (is_encoder_decoder is True)"]),
        (
            GPT2,
            [
                "another activation (activation_function is 'gelu_new')",
                "LayerNorm",
                "learned positions",
            ],
        ),
    ],
    ids=lambda value: value["architectures"][0] if isinstance(value, dict) else "",
)
def test_the_refusal_names_each_trait_with_its_key_and_value(
    config: dict[str, Any], said: list[str]
) -> None:
    (name,) = config["architectures"]
    assert missing(name, config) == said
    with pytest.raises(UnsupportedError) as caught:
        find_family(config)
    message = caught.value.message
    assert message.startswith(f"Models of architecture {name!r} are not implemented. Beyond ")
    assert [trait in message for trait in said[:MOST]] == [True] * len(said[:MOST])
    assert (f"; and {len(said) - MOST} more." in message) == (len(said) > MOST)
    assert caught.value.code == "unsupported.architecture"
    assert caught.value.remedy.endswith(f"; see {PAGE}.")


def test_a_model_that_lacks_nothing_but_a_family_says_that() -> None:
    config = {"architectures": ["AquilaForCausalLM"], "hidden_act": "silu"}
    with pytest.raises(UnsupportedError, match="no family reads them, though nothing"):
        find_family(config)


def test_values_that_make_no_sense_leave_the_architecture_refused() -> None:
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}
    junk: tuple[Any, ...] = (3, "x", [], {}, [[1]], {"a": {}}, -1.5, True, "y" * 10**6, [{}] * 1000)
    for key in dict.fromkeys(key for trait in EVERY_TRAIT for key in trait.keys):
        for value in junk:
            if key == "architectures":
                continue
            with pytest.raises(UnsupportedError) as caught:
                find_family(config | {key: value, "text_config": {key: value}})
            assert caught.value.code == "unsupported.architecture"
            assert len(caught.value.message) < 500


def test_many_traits_make_no_endless_message() -> None:
    needs = [f"trait {i}" for i in range(50)]
    assert "trait 3; and 46 more." in refusal("Models", needs, ["this"]).message
    assert "more" not in refusal("Models", needs[:MOST], ["this"]).message


def test_what_families_read_is_not_in_the_table_of_those_that_none_reads() -> None:
    read = {name for family in FAMILIES for name in (*family.architectures, *family.model_types)}
    assert read.isdisjoint(name for entry in BEYOND for name in entry.names)
    names = [name for entry in BEYOND for name in entry.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"num_local_experts": 8}, "unsupported.experts", "mixtures of experts"),
        ({"layer_types": ["sliding_attention"]}, "unsupported.attention", "sliding windows"),
        ({"layer_types": ["full_attention", "mamba"]}, "unsupported.attention", "'mamba'"),
        ({"hidden_act": "relu2"}, "unsupported.activation", "hidden_act is 'relu2'"),
        ({"quantization_config": {"quant_method": "awq"}}, "unsupported.quantized", "'awq'"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "unsupported.quantized", "MLX's quant"),
        ({"rope_scaling": {"type": "su"}}, "unsupported.rope", "rope_type is 'su'"),
        ({"partial_rotary_factor": 0.5}, "unsupported.rope", "partial_rotary_factor is 0.5"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "default"}}},
            "unsupported.rope",
            "rope_parameters has ['full_attention']",
        ),
    ],
)
def test_a_family_refuses_by_trait_value_and_page(
    changes: dict[str, Any], code: str, words: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        LLAMA.read_config(llama(**changes))
    assert caught.value.message.startswith("Not implemented: ")
    assert words in caught.value.message
    assert caught.value.remedy.startswith("Use a model with ")
    assert caught.value.remedy.endswith(f"; see {PAGE}.")
    assert caught.value.code == code


def test_a_window_as_long_as_the_context_is_none() -> None:
    config = llama(
        sliding_window=8192, max_position_embeddings=8192, use_sliding_window=True, head_dim=64
    )
    assert QWEN3.read_config(config).context == 8192
    with pytest.raises(UnsupportedError, match="sliding_window is 8191"):
        QWEN3.read_config(config | {"sliding_window": 8191})
