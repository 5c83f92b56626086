"""The tiny checkpoints, by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.parity.case import Case, Shapes


def _llama(seed: int, shapes: Shapes, **storage: Any) -> Case:
    return Case("LlamaForCausalLM", seed, shapes.config(), **storage)


def _qwen3(seed: int, shapes: Shapes, **storage: Any) -> Case:
    return Case("Qwen3ForCausalLM", seed, shapes.config(), qk_norm=True, **storage)


_TWO = Shapes(64, 4, 2, 32, 192)
"""What families beside the first two share, so that they share kernels, too."""


def _more(**more: Any) -> Shapes:
    return replace(_TWO, more=more)


def _granite4(**more: Any) -> Shapes:
    """Granite 4 without Mamba and experts."""
    return _more(
        layer_types=["attention", "attention"],
        num_local_experts=0,
        num_experts_per_tok=0,
        shared_intermediate_size=192,
        **more,
    )


CASES: dict[str, Case] = {
    "llama-mha": _llama(110, Shapes(64, 4, 4, 16, 176)),
    "llama-gqa2-tied-linear": _llama(
        214,
        Shapes(
            96, 4, 2, 32, 192,
            more={
                "tie_word_embeddings": True,
                "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
            },
        ),
    ),
    "llama-gqa4-bias-llama3": _llama(
        307,
        Shapes(
            128, 8, 2, 64, 256,
            more={
                "attention_bias": True,
                "mlp_bias": True,
                "rope_theta": 500000.0,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        dtype="BF16",
        shards=3,
    ),
    "llama-d80-yarn": _llama(
        404,
        Shapes(
            64, 2, 1, 80, 128,
            more={
                "rope_theta": 10000.0,
                "rope_scaling": {
                    "type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        dtype="F16",
    ),
    "llama-d128-yarn-mscale": _llama(
        503,
        Shapes(
            128, 2, 2, 128, 160,
            more={
                "rope_parameters": {
                    "rope_type": "yarn",
                    "rope_theta": 10000.0,
                    "factor": 8.0,
                    "original_max_position_embeddings": 32,
                    "mscale": 1.0,
                    "mscale_all_dim": 0.5,
                    "beta_fast": 16.0,
                    "beta_slow": 2.0,
                    "truncate": False,
                },
            },
        ),
        dtype="BF16",
    ),
    "qwen3-gqa2-tied": _qwen3(
        600,
        Shapes(
            64, 4, 2, 32, 192,
            more={
                "tie_word_embeddings": True,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            },
        ),
        dtype="BF16",
    ),
    "qwen3-gqa4-d96-bias": _qwen3(
        702,
        Shapes(
            96, 4, 1, 96, 144, vocab=333,
            more={"attention_bias": True, "rope_theta": 1000000.0, "rope_scaling": None},
        ),
    ),
    "qwen3-d48-yarn": _qwen3(
        802,
        Shapes(
            64, 2, 2, 48, 128, layers=3,
            more={
                "rope_parameters": {
                    "rope_type": "yarn",
                    "rope_theta": 1000000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                    "attention_factor": 1.2,
                },
            },
        ),
        dtype="F16",
    ),
    "llama-d8-bias-llama3": _llama(
        901,
        Shapes(
            64, 8, 2, 8, 176,
            more={
                "attention_bias": True,
                "rope_theta": 10000.0,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 4.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        dtype="BF16",
    ),
    "qwen3-d24-odd": _qwen3(
        1001,
        Shapes(
            96, 3, 1, 24, 160,
            more={"rms_norm_eps": 1e-2, "rope_theta": 10000.0, "rope_scaling": None},
        ),
        dtype="F16",
    ),
    "qwen2-gqa2-tied": Case(
        "Qwen2ForCausalLM",
        1109,
        _more(tie_word_embeddings=True, rope_theta=1000000.0).config(),
        qkv_bias=True,
        dtype="BF16",
    ),
    "mistral-gqa2": Case(
        "MistralForCausalLM", 1209, _more(sliding_window=None, rope_theta=1000000.0).config()
    ),
    "smollm3-gqa2-tied": Case(
        "SmolLM3ForCausalLM",
        1313,
        _more(
            tie_word_embeddings=True, rope_theta=2000000.0, no_rope_layers=[1, 0], pad_token_id=1
        ).config(),
    ),
    "phi3-gqa2-longrope": Case(
        "Phi3ForCausalLM",
        1405,
        replace(_more(
            partial_rotary_factor=0.75,
            original_max_position_embeddings=16,
            pad_token_id=1,
            rope_theta=10000.0,
            rope_scaling={
                "type": "longrope",
                "long_factor": [1.0 + 0.25 * i for i in range(12)],
                "short_factor": [1.0 + 0.01 * i for i in range(12)],
            },
        ), hidden=128).config(),
        fused=True,
    ),
    "granite-gqa2": Case(
        "GraniteForCausalLM",
        1500,
        _more(
            embedding_multiplier=0.5,
            residual_multiplier=0.75,
            attention_multiplier=0.25,
            logits_scaling=0.8,
        ).config(),
        dtype="BF16",
    ),
    "olmo2-gqa2": Case(
        "Olmo2ForCausalLM",
        1604,
        _more(rope_theta=500000.0, rms_norm_eps=1e-5, pad_token_id=1).config(),
        norms="after",
        row_norm=True,
    ),
    "mistral-window": Case(
        "MistralForCausalLM", 1702, _more(sliding_window=20, rope_theta=10000.0).config()
    ),
    "gemma2-window": Case(
        "Gemma2ForCausalLM",
        1852,
        _more(
            hidden_activation="gelu_pytorch_tanh",
            sliding_window=40,
            query_pre_attn_scalar=24,
            attn_logit_softcapping=8.0,
            final_logit_softcapping=30.0,
            rope_theta=10000.0,
            pad_token_id=1,
        ).config(),
        norms="around",
        less=1.0,
    ),
    "gemma3-window": Case(
        "Gemma3ForCausalLM",
        1901,
        _more(
            hidden_activation="gelu_pytorch_tanh",
            sliding_window=24,
            layer_types=["sliding_attention", "full_attention"],
            query_pre_attn_scalar=32,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            pad_token_id=1,
        ).config(),
        qk_norm=True,
        norms="around",
        less=1.0,
        dtype="BF16",
    ),
    "qwen3moe-step": Case(
        "Qwen3MoeForCausalLM",
        2000,
        replace(_more(
            num_experts=12,
            num_experts_per_tok=3,
            moe_intermediate_size=48,
            norm_topk_prob=True,
            decoder_sparse_step=1,
            mlp_only_layers=[1],
            rope_theta=1000000.0,
        ), layers=3).config(),
        qk_norm=True,
        dtype="BF16",
    ),
    "qwen2moe-shared": Case(
        "Qwen2MoeForCausalLM",
        2100,
        _more(
            num_experts=6,
            num_experts_per_tok=2,
            moe_intermediate_size=96,
            shared_expert_intermediate_size=64,
            norm_topk_prob=False,
            decoder_sparse_step=1,
            mlp_only_layers=[],
            use_sliding_window=False,
            rope_theta=1000000.0,
        ).config(),
        qkv_bias=True,
    ),
    "olmoe-gqa2": Case(
        "OlmoeForCausalLM",
        2616,
        replace(_more(
            num_experts=10,
            num_experts_per_tok=3,
            norm_topk_prob=False,
            rms_norm_eps=1e-5,
            pad_token_id=1,
            rope_theta=10000.0,
        ), hidden=128, intermediate=64).config(),
        row_norm=True,
    ),
    "gemma-gqa2": Case(
        "GemmaForCausalLM",
        2000,
        _more(hidden_act="gelu_pytorch_tanh", rope_theta=10000.0, pad_token_id=1).config(),
        less=1.0,
    ),
    "olmo3-window": Case(
        "Olmo3ForCausalLM",
        2118,
        _more(
            rms_norm_eps=1e-5,
            pad_token_id=1,
            sliding_window=24,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 500000.0,
                    "factor": 8.0,
                    "original_max_position_embeddings": 32,
                    "attention_factor": 1.2,
                },
            },
        ).config(),
        norms="after",
        row_norm=True,
    ),
    "granite4-gqa2": Case(
        "GraniteMoeHybridForCausalLM",
        2202,
        _granite4(
            position_embedding_type="rope",
            embedding_multiplier=0.5,
            residual_multiplier=0.75,
            attention_multiplier=0.25,
            logits_scaling=0.8,
        ).config(),
        shared=True,
    ),
    "granite4-nope": Case(
        "GraniteMoeHybridForCausalLM",
        2349,
        _granite4(
            position_embedding_type="nope",
            embedding_multiplier=1.0,
            residual_multiplier=0.5,
            attention_multiplier=0.2,
            logits_scaling=1.25,
        ).config(),
        shared=True,
        dtype="BF16",
    ),
    "ministral3-gqa2": Case(
        "Ministral3ForCausalLM",
        2407,
        _more(
            rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 1000000.0,
                "factor": 8.0,
                "original_max_position_embeddings": 24,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.4,
            },
        ).config(),
    ),
    "gptoss-window": Case(
        "GptOssForCausalLM",
        2501,
        replace(_more(
            attention_bias=True,
            num_local_experts=6,
            num_experts_per_tok=3,
            swiglu_limit=7.0,
            rms_norm_eps=1e-5,
            sliding_window=24,
            layer_types=["sliding_attention", "full_attention"],
            pad_token_id=1,
            rope_theta=150000.0,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 8.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 32,
                "truncate": False,
            },
        ), heads=16, head_dim=16, intermediate=96).config(),
        sinks=True,
        dtype="BF16",
    ),
}  # fmt: skip
"""Every family; of Llama and Qwen3 1 to 4 query heads per KV head, every rope and its spellings,
every dtype, and heads that programs pad."""
