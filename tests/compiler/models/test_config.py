"""config.json is read as transformers reads it, and refused where results would be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_compiler.models.base import Family, Mixture
from edgewise_compiler.models.families import FAMILIES, find_family
from edgewise_compiler.models.gemma import GEMMA, GEMMA2, GEMMA3
from edgewise_compiler.models.granite import GRANITE
from edgewise_compiler.models.granite4 import GRANITE4
from edgewise_compiler.models.llama import LLAMA
from edgewise_compiler.models.ministral3 import MINISTRAL3
from edgewise_compiler.models.mistral import MISTRAL
from edgewise_compiler.models.olmo3 import OLMO3
from edgewise_compiler.models.phi3 import PHI3
from edgewise_compiler.models.qwen2 import QWEN2, QWEN2_MOE
from edgewise_compiler.models.qwen3 import QWEN3
from edgewise_compiler.models.qwen3_moe import QWEN3_MOE
from edgewise_compiler.models.rope import RopeConfig
from edgewise_compiler.models.smollm3 import SMOLLM3
from edgewise_compiler.models.traits import PAGE
from edgewise_runtime.errors import CheckpointError, UnsupportedError

LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [1.0, 2.0]}


def llama(**changes: Any) -> dict[str, Any]:
    """SmolLM-like config.json; a change to ``...`` removes the key."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 576,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "intermediate_size": 1536,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 100000,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **changes,
    }
    return {key: value for key, value in config.items() if value is not ...}


def test_a_llama_config_is_understood() -> None:
    cfg = LLAMA.read_config(llama(num_attention_heads=18, head_dim=32))
    assert (cfg.hidden, cfg.layers, cfg.heads, cfg.kv_heads) == (576, 30, 18, 3)
    assert (cfg.head_dim, cfg.intermediate, cfg.vocab, cfg.context) == (32, 1536, 49152, 8192)
    assert (cfg.rms_eps, cfg.rope.theta, cfg.sm_scale) == (1e-5, 100000.0, 32**-0.5)
    assert (cfg.tied, cfg.qk_norm, cfg.attention_bias, cfg.mlp_bias) == (True, False, False, False)
    assert (cfg.bos, cfg.eos) == (1, (2,))


def test_what_llama_leaves_out_takes_the_values_of_transformers() -> None:
    absent = ("num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "rope_theta")
    more = ("tie_word_embeddings", "bos_token_id", "eos_token_id")
    cfg = LLAMA.read_config(llama(**dict.fromkeys(absent + more, ...), num_attention_heads=18))
    assert (cfg.kv_heads, cfg.head_dim, cfg.rms_eps, cfg.rope.theta) == (18, 32, 1e-6, 10000.0)
    assert (cfg.tied, cfg.bos, cfg.eos) == (False, 1, (2,))


def test_what_qwen3_leaves_out_takes_the_values_of_transformers() -> None:
    cfg = QWEN3.read_config(llama(head_dim=..., bos_token_id=..., eos_token_id=..., mlp_bias=True))
    assert (cfg.head_dim, cfg.qk_norm, cfg.mlp_bias) == (128, True, False)
    assert (cfg.bos, cfg.eos) == (None, ())


def test_qwen2_has_biases_that_no_config_mentions() -> None:
    cfg = QWEN2.read_config(llama(max_position_embeddings=..., sliding_window=4096))
    assert (cfg.attention_bias, cfg.mlp_bias, cfg.context) == (True, False, 32768)
    assert (cfg.qk_norm, cfg.head_dim, cfg.bos, cfg.eos) == (False, 64, 1, (2,))


def test_a_window_that_mistral_leaves_out_is_that_of_its_first_release() -> None:
    def windows(**changes: Any) -> tuple[int | None, tuple[int, ...]]:
        cfg = MISTRAL.read_config(llama(num_hidden_layers=3, **changes))
        return cfg.window, cfg.local

    assert windows() == (4096, (0, 1, 2))
    assert windows(sliding_window=64) == (64, (0, 1, 2))
    assert windows(sliding_window=None) == (None, ())
    assert windows(max_position_embeddings=4096) == (None, ())
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    assert windows(layer_types=kinds) == (4096, (1,))
    with pytest.raises(CheckpointError, match="2 entries for 3 layers"):
        windows(layer_types=kinds[:2])
    with pytest.raises(UnsupportedError, match="attention to chunks"):
        windows(layer_types=["chunked_attention"] * 3)
    with pytest.raises(CheckpointError, match="sliding_window"):
        windows(sliding_window=0)


def test_gemma2_caps_scores_and_logits_and_has_a_window_in_every_other_layer() -> None:
    cfg = GEMMA2.read_config(llama(num_hidden_layers=4, head_dim=...))
    assert (cfg.softcap, cfg.logit_softcap, cfg.sm_scale) == (50.0, 30.0, 1 / 16)
    assert (cfg.window, cfg.local, cfg.local_rope) == (4096, (0, 2), None)
    assert (cfg.norms, cfg.activation, cfg.embed_factor) == ("around", "gelu_tanh", 24.0)
    assert (cfg.head_dim, cfg.qk_norm) == (256, False)
    uncapped = GEMMA2.read_config(llama(attn_logit_softcapping=None, final_logit_softcapping=None))
    assert (uncapped.softcap, uncapped.logit_softcap) == (None, None)
    with pytest.raises(UnsupportedError, match="hidden_activation is 'silu'"):
        GEMMA2.read_config(llama(hidden_activation="silu"))


def test_gemma3_turns_layers_with_windows_by_another_base_in_either_spelling() -> None:
    linear = {"rope_type": "linear", "factor": 8.0}
    old = {"rope_theta": 1000000.0, "rope_local_base_freq": 20000.0, "rope_scaling": linear}
    both = {
        "full_attention": {"rope_theta": 1000000.0, **linear},
        "sliding_attention": {"rope_theta": 20000.0, "rope_type": "default"},
    }
    window = {"sliding_window": 512, "num_hidden_layers": 12, "rope_theta": ...}
    cfg = GEMMA3.read_config(llama(**window | old))
    assert (cfg.rope.kind, cfg.rope.theta, cfg.rope.factor) == ("linear", 1000000.0, 8.0)
    assert cfg.local_rope is not None
    assert (cfg.local_rope.kind, cfg.local_rope.theta) == ("default", 20000.0)
    assert (cfg.window, cfg.local) == (512, (0, 1, 2, 3, 4, 6, 7, 8, 9, 10))
    assert (cfg.softcap, cfg.logit_softcap, cfg.qk_norm) == (None, None, True)
    assert GEMMA3.read_config(llama(**window, rope_parameters=both)) == cfg


def test_gemma_goes_through_a_gelu_whatever_its_newer_key_says() -> None:
    cfg = GEMMA.read_config(llama(hidden_act="gelu", hidden_activation="silu", head_dim=...))
    assert (cfg.activation, cfg.norms, cfg.embed_factor) == ("gelu_tanh", "before", 24.0)
    assert (cfg.head_dim, cfg.sm_scale, cfg.window) == (256, 1 / 16, None)
    with pytest.raises(UnsupportedError, match="hidden_act is 'silu'"):
        GEMMA.read_config(llama())


def test_olmo3_turns_layers_with_windows_by_the_rotation_before_it_was_stretched() -> None:
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 1024}
    old = {"rope_theta": 500000.0, "rope_scaling": yarn}
    both = {
        "full_attention": {"rope_theta": 500000.0, **yarn},
        "sliding_attention": {"rope_theta": 500000.0, "rope_type": "default"},
    }
    shape = {"num_hidden_layers": 8, "sliding_window": 4096, "head_dim": ..., "rope_theta": ...}
    shape |= {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 512}
    cfg = OLMO3.read_config(llama(**shape | old))
    assert (cfg.window, cfg.local) == (4096, (0, 1, 2, 4, 5, 6))
    assert (cfg.rope.kind, cfg.local_rope) == ("yarn", RopeConfig(theta=500000.0))
    assert (cfg.norms, cfg.row_norm, cfg.qk_norm) == ("after", True, False)
    assert OLMO3.read_config(llama(**shape, rope_parameters=both)) == cfg


def test_layers_that_turn_apart_do_so_where_their_window_hides_nothing() -> None:
    cfg = GEMMA3.read_config(llama(sliding_window=8192, num_hidden_layers=6))
    assert (cfg.window, cfg.local) == (8192, (0, 1, 2, 3, 4))


def granite4(**changes: Any) -> dict[str, Any]:
    says = {"num_local_experts": 0, "layer_types": ["attention"] * 30, "head_dim": ...}
    return llama(**says | {"shared_intermediate_size": 640, "num_attention_heads": 18} | changes)


def test_granite4_is_read_where_it_has_neither_mamba_nor_experts() -> None:
    cfg = GRANITE4.read_config(granite4(position_embedding_type="rope"))
    assert (cfg.intermediate, cfg.head_dim, cfg.still) == (640, 32, ())
    assert GRANITE4.read_config(granite4()).still == tuple(range(30))
    named = granite4(position_embedding_type="nope")
    assert GRANITE4.read_config(named).still == tuple(range(30))
    for changes, words in (
        ({"layer_types": ["mamba", "attention"] * 15}, "layer_types has 'mamba'"),
        ({"layer_types": ...}, "layer_types has 'mamba'"),
        ({"num_local_experts": 32}, "num_local_experts is 32"),
        ({"num_local_experts": ...}, "num_local_experts is 8"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type is 'alibi'"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            GRANITE4.read_config(granite4(**changes))


def test_ministral3_has_a_temperature_of_queries_beside_its_rotation() -> None:
    assert MINISTRAL3.read_config(llama(rope_theta=...)).temperature == (0.1, 16384)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    cfg = MINISTRAL3.read_config(llama(rope_parameters=yarn | {"llama_4_scaling_beta": 0.5}))
    assert (cfg.temperature, cfg.rope.kind, cfg.rope.factor) == ((0.5, 2048), "yarn", 4.0)
    assert MINISTRAL3.read_config(llama(rope_parameters=yarn)).temperature is None


def test_every_fourth_layer_of_smollm3_does_not_turn_unless_a_list_says_which() -> None:
    assert SMOLLM3.read_config(llama()).still == (3, 7, 11, 15, 19, 23, 27)
    assert SMOLLM3.read_config(llama(no_rope_layer_interval=10)).still == (9, 19, 29)
    listed = SMOLLM3.read_config(llama(no_rope_layers=[1, 0] * 2 + [1] * 26))
    assert listed.still == (1, 3)
    with pytest.raises(CheckpointError, match="no_rope_layers"):
        SMOLLM3.read_config(llama(no_rope_layers=[1, 2]))


def test_phi3_turns_a_part_of_a_head_by_one_of_two_lists() -> None:
    scaling = {"type": "longrope", "short_factor": [1.0] * 24, "long_factor": [2.0] * 24}
    more = {"partial_rotary_factor": 0.75, "max_position_embeddings": 131072}
    cfg = PHI3.read_config(
        llama(**more, original_max_position_embeddings=4096, rope_scaling=scaling)
    )
    assert (cfg.stored_head_dim, cfg.rotated, cfg.rope.original_context) == (64, 48, 4096)
    assert (cfg.rope.divisors, cfg.rope.short_divisors) == ((2.0,) * 24, (1.0,) * 24)
    assert cfg.rope.attention_factor == pytest.approx((1 + 5 / 12) ** 0.5)
    assert PHI3.read_config(llama()).rotated is None
    with pytest.raises(CheckpointError, match="lets 1 of a head's 64 elements turn"):
        PHI3.read_config(llama(partial_rotary_factor=0.02))


def test_the_factor_of_granites_branches_is_taken_from_eps_and_embeddings() -> None:
    cfg = GRANITE.read_config(
        llama(
            embedding_multiplier=12.0,
            residual_multiplier=0.25,
            attention_multiplier=0.015625,
            logits_scaling=8.0,
        )
    )
    assert (cfg.embed_factor, cfg.rms_eps) == (48.0, pytest.approx(1.6e-4))
    assert (cfg.sm_scale, cfg.logit_factor) == (0.015625, 0.125)
    plain = GRANITE.read_config(llama())
    assert (plain.embed_factor, plain.sm_scale, plain.logit_factor) == (1.0, 1.0, 1.0)
    with pytest.raises(CheckpointError, match="residual_multiplier"):
        GRANITE.read_config(llama(residual_multiplier=0))


def test_null_stands_for_an_option_that_is_not_set() -> None:
    cfg = LLAMA.read_config(llama(head_dim=None, rope_scaling=None, bos_token_id=None))
    assert (cfg.head_dim, cfg.rope.kind, cfg.bos) == (64, "default", None)


@pytest.mark.parametrize(
    ("heads", "stored", "padded"),
    [
        (18, 2, 16),
        (18, 8, 16),
        (18, 16, 16),
        (9, 16, 32),
        (9, 24, 32),
        (18, 40, 48),
        (9, 40, 64),
        (9, 64, 64),
        (32, 100, 112),
        (18, 250, 256),
    ],
)
def test_heads_are_padded_to_what_kernels_need(heads: int, stored: int, padded: int) -> None:
    changes = {"num_attention_heads": heads, "num_key_value_heads": 1, "head_dim": stored}
    cfg = LLAMA.read_config(llama(**changes))
    assert (cfg.stored_head_dim, cfg.head_dim, cfg.sm_scale) == (stored, padded, stored**-0.5)


def test_biases_are_asked_for_one_by_one() -> None:
    cfg = LLAMA.read_config(llama(attention_bias=True))
    assert (cfg.attention_bias, cfg.mlp_bias) == (True, False)
    cfg = LLAMA.read_config(llama(mlp_bias=True))
    assert (cfg.attention_bias, cfg.mlp_bias) == (False, True)


def test_several_end_tokens_keep_their_order() -> None:
    assert LLAMA.read_config(llama(eos_token_id=[7, 3, 7, 5])).eos == (7, 3, 5)


@pytest.mark.parametrize(
    ("family", "context"), [(LLAMA, 2048), (QWEN3, 32768)], ids=["llama", "qwen3"]
)
@pytest.mark.parametrize("said", [..., None], ids=["absent", "null"])
def test_a_context_that_is_not_told_is_that_of_transformers(
    family: Family, context: int, said: object
) -> None:
    assert family.read_config(llama(max_position_embeddings=said)).context == context


def test_swish_is_another_name_of_silu() -> None:
    assert LLAMA.read_config(llama(hidden_act="swish")) == LLAMA.read_config(llama())


@pytest.mark.parametrize(
    "stray",
    [{"sliding_window": 4096}, {"sliding_window": 64, "use_sliding_window": True}],
    ids=["a window", "a window that is on"],
)
def test_llama_has_no_windows_whatever_its_config_says(stray: dict[str, Any]) -> None:
    assert LLAMA.read_config(llama(**stray)) == LLAMA.read_config(llama())


def test_windows_of_qwen3_count_where_they_are_on() -> None:
    assert QWEN3.read_config(llama(sliding_window=4096)).layers == 30
    asked = {"use_sliding_window": True, "sliding_window": 64}
    with pytest.raises(UnsupportedError, match="sliding_window is 64"):
        QWEN3.read_config(llama(**asked))
    with pytest.raises(UnsupportedError, match="in 2 of 30 layers"):
        QWEN3.read_config(llama(**asked, max_window_layers=28))


def test_a_sliding_window_that_is_switched_off_is_no_obstacle() -> None:
    config = llama(use_sliding_window=False, sliding_window=4096, max_window_layers=28)
    assert QWEN3.read_config(config).layers == 30
    config = llama(use_sliding_window=True, sliding_window=4096, max_window_layers=30)
    assert QWEN3.read_config(config).layers == 30


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": ...}, "'hidden_size'"),
        ({"hidden_size": "576"}, "'576'"),
        ({"hidden_size": True}, "True"),
        ({"hidden_size": 576.0}, "576.0"),
        ({"hidden_size": 0}, "0"),
        ({"hidden_size": -32}, "-32"),
        ({"hidden_size": 10**30}, "10000"),
        ({"num_hidden_layers": 10**9}, "1000000000"),
        ({"num_attention_heads": 0}, "0"),
        ({"num_key_value_heads": 4}, "multiple"),
        ({"head_dim": 10**9}, "1000000000"),
        ({"vocab_size": 1 << 40}, str(1 << 40)),
        ({"max_position_embeddings": 1 << 25}, str(1 << 25)),
        ({"intermediate_size": []}, "[]"),
        ({"rms_norm_eps": float("nan")}, "nan"),
        ({"rms_norm_eps": float("inf")}, "inf"),
        ({"rms_norm_eps": "small"}, "'small'"),
        ({"tie_word_embeddings": 1}, "1"),
        ({"attention_bias": "no"}, "'no'"),
        ({"hidden_act": 3}, "3"),
        ({"eos_token_id": 49152}, "49152"),
        ({"eos_token_id": [1, "2"]}, "'2'"),
        ({"eos_token_id": [-1]}, "-1"),
        ({"bos_token_id": {}}, "{}"),
        ({"rope_theta": 0}, "0"),
        ({"rope_theta": "big"}, "'big'"),
        ({"rope_scaling": "linear"}, "'linear'"),
        ({"rope_scaling": {"type": "linear"}}, "'factor'"),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "0.5"),
        ({"rope_scaling": {"type": "linear", "factor": float("inf")}}, "inf"),
        ({"rope_scaling": {"rope_type": 5}}, "5"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "'low_freq_factor'"),
        (
            {
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8,
                    "low_freq_factor": 4,
                    "high_freq_factor": 4,
                }
            },
            "high_freq_factor 4",
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 1, "beta_slow": 2}}, "beta"),
        ({"rope_scaling": {"type": "yarn", "factor": 4, "truncate": 1}}, "'truncate'"),
        ({"rope_theta": 1.0, "rope_scaling": {"type": "yarn", "factor": 4}}, "rope_theta"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 0}},
            "'original_max_position_embeddings'",
        ),
        ({"rope_scaling": LONGROPE | {"long_factor": 2.0}}, "'long_factor'"),
        ({"rope_scaling": LONGROPE | {"short_factor": [1.0, 0.0]}}, "'short_factor'"),
        ({"rope_scaling": LONGROPE}, "2 divisors for heads of 16 pairs"),
        (
            {"rope_scaling": LONGROPE | {"long_factor": [1.0] * 16}},
            "2 divisors for heads of 16 pairs",
        ),
    ],
)
def test_senseless_values_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        LLAMA.read_config(llama(**{"num_attention_heads": 18, "head_dim": 32} | changes))
    assert words in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 570}, "hidden_size is 570"),
        ({"head_dim": 41}, "head_dim is 41"),
        ({"head_dim": 514}, "head_dim is 514"),
        ({"head_dim": 528}, "head_dim is 528"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"quantization_config": {"quant_method": "gptq"}}, "'gptq'"),
        ({"num_local_experts": 8}, "num_local_experts is 8"),
        ({"layer_types": ["full_attention", "sliding_attention"] * 15}, "15 of 30"),
        ({"partial_rotary_factor": 0.5}, "0.5"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, "0.25"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 4}}, "'dynamic'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4}}, "'dynamic'"),
        ({"rope_scaling": {"type": "x" * 10**6}}, "xxx..."),
        ({"eos_token_id": list(range(17))}, "17 end-of-text"),
    ],
)
def test_what_is_not_implemented_says_so(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        LLAMA.read_config(llama(**{"num_attention_heads": 18, "head_dim": 32} | changes))
    assert words in caught.value.message
    assert len(caught.value.message) < 300
    assert caught.value.remedy


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_found_by_architecture_and_by_model_type(family: Any) -> None:
    assert find_family({"architectures": [family.architectures[0]]}) is family
    assert find_family({"architectures": [], "model_type": family.model_types[0]}) is family


def test_architectures_wins_over_model_type() -> None:
    assert find_family({"architectures": ["Qwen3ForCausalLM"], "model_type": "llama"}) is QWEN3


@pytest.mark.parametrize("name", ["MixtralForCausalLM", "OlmoForCausalLM", "GPT2Model", ""])
def test_an_unknown_architecture_lists_those_known(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        find_family({"architectures": [name], "model_type": "llama"})
    implemented = [one for family in FAMILIES for one in family.architectures]
    assert caught.value.remedy == f"Implemented: {', '.join(implemented)}; see {PAGE}."
    assert {"LlamaForCausalLM", "Qwen3ForCausalLM"} <= set(implemented)


@pytest.mark.parametrize("config", [{}, {"architectures": None}, {"architectures": [3]}])
def test_a_config_that_names_no_architecture_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="architectures"):
        find_family(config)


EXPERTS = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 4,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
}


def mixture(**changes: Any) -> Mixture | None:
    return QWEN3_MOE.read_config(llama(**EXPERTS, **changes)).mixture


def test_layers_with_experts_are_those_that_the_step_divides_and_no_list_names() -> None:
    assert mixture() == Mixture((0, 1, 2, 3), 8, 2, 64, normalize=False)
    stepped = mixture(decoder_sparse_step=2, mlp_only_layers=[1], norm_topk_prob=True)
    assert stepped == Mixture((3,), 8, 2, 64, normalize=True)
    assert mixture(mlp_only_layers=[0, 1, 2, 3]) is None
    newer = {key: value for key, value in EXPERTS.items() if key != "num_experts"}
    renamed = llama(**newer, num_local_experts=8)
    assert QWEN3_MOE.read_config(renamed).mixture == mixture()


def test_a_shared_expert_is_one_of_qwen2() -> None:
    hf = llama(**EXPERTS | {"architectures": ["Qwen2MoeForCausalLM"]})
    found = QWEN2_MOE.read_config(hf)
    assert found.mixture == Mixture((0, 1, 2, 3), 8, 2, 64, normalize=False, shared=5632)
    assert found.attention_bias


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("num_experts_per_tok", 9, "9 of 8 experts"),
        ("mlp_only_layers", ["1"], "no list of layers"),
        ("decoder_sparse_step", 0, "decoder_sparse_step"),
    ],
)
def test_experts_that_do_not_fit_each_other_are_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        QWEN3_MOE.read_config(llama(**EXPERTS | {key: value}))
