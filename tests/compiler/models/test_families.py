"""A family declares the parameters its forward pass uses, under the checkpoint's names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.graph.nodes import GraphBuilder, Node
from edgewise_compiler.graph.operations import (
    Attention,
    Embed,
    Heads,
    Operation,
    RmsNorm,
    RopeAppend,
)
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.models.base import (
    Family,
    LinearSpec,
    Mixture,
    ModelConfig,
    RotationSpec,
    RouterSpec,
    VectorSpec,
)
from edgewise_compiler.models.families import FAMILIES
from edgewise_compiler.models.granite import GRANITE
from edgewise_compiler.models.granite4 import GRANITE4
from edgewise_compiler.models.llama import LLAMA
from edgewise_compiler.models.ministral3 import MINISTRAL3
from edgewise_compiler.models.phi3 import PHI3
from edgewise_compiler.models.qwen2 import QWEN2, QWEN2_MOE
from edgewise_compiler.models.qwen3 import QWEN3
from edgewise_compiler.models.qwen3_moe import QWEN3_MOE
from edgewise_compiler.models.rope import RopeConfig
from edgewise_compiler.models.rotation import rotation_table
from edgewise_compiler.models.smollm3 import SMOLLM3
from edgewise_compiler.weights.views import Turning, View

CONFIG = ModelConfig(
    family="llama",
    hidden=64,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=32,
    stored_head_dim=32,
    intermediate=176,
    vocab=320,
    context=256,
    rms_eps=1e-6,
    rope=RopeConfig(),
    tied=False,
    qk_norm=False,
    attention_bias=False,
    mlp_bias=False,
    sm_scale=32**-0.5,
    bos=0,
    eos=(1,),
)
CONFIGS = {
    "llama": CONFIG,
    "gemma": replace(CONFIG, family="gemma", activation="gelu_tanh"),
    "gemma2": replace(
        CONFIG,
        family="gemma2",
        norms="around",
        activation="gelu_tanh",
        softcap=50.0,
        logit_softcap=30.0,
        window=64,
        local=(0,),
    ),
    "gemma3": replace(
        CONFIG,
        family="gemma3",
        norms="around",
        activation="gelu_tanh",
        qk_norm=True,
        window=64,
        local=(1,),
        local_rope=RopeConfig(),
    ),
    "gpt_oss": replace(
        CONFIG,
        family="gpt_oss",
        activation="clamped_silu",
        attention_bias=True,
        sinks=True,
        window=64,
        local=(0,),
        mixture=Mixture((0, 1), 4, 2, 64, normalize=True),
    ),
    "granite": replace(CONFIG, family="granite", embed_factor=12.0, logit_factor=0.125),
    "granite4": replace(CONFIG, family="granite4", embed_factor=12.0, still=(1,)),
    "ministral3": replace(CONFIG, family="ministral3", temperature=(0.1, 64)),
    "mistral": replace(CONFIG, family="mistral"),
    "qwen2": replace(CONFIG, family="qwen2", attention_bias=True),
    "olmo2": replace(CONFIG, family="olmo2", norms="after", row_norm=True),
    "olmo3": replace(
        CONFIG,
        family="olmo3",
        norms="after",
        row_norm=True,
        window=64,
        local=(1,),
        local_rope=RopeConfig(theta=500000.0),
    ),
    "olmoe": replace(
        CONFIG, family="olmoe", row_norm=True, mixture=Mixture((0, 1), 4, 2, 64, normalize=False)
    ),
    "phi3": replace(CONFIG, family="phi3", rotated=24),
    "qwen3": replace(CONFIG, family="qwen3", qk_norm=True),
    "smollm3": replace(CONFIG, family="smollm3", still=(1,)),
    "qwen2_moe": replace(
        CONFIG,
        family="qwen2_moe",
        attention_bias=True,
        mixture=Mixture((1,), 4, 2, 64, normalize=False, shared=96),
    ),
    "qwen3_moe": replace(
        CONFIG, family="qwen3_moe", qk_norm=True, mixture=Mixture((1,), 6, 2, 64, normalize=True)
    ),
}


def forward(family: Family, cfg: ModelConfig) -> tuple[Node[Operation], ...]:
    """Every operation of the whole forward pass."""
    g = GraphBuilder("all", hidden=cfg.hidden, widths=linear_widths(family.params(cfg)))
    family.head(g, cfg, family.layers(g, cfg, family.embed(g, cfg)))
    return g.graph().nodes


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_declared_and_used_parameters_are_the_same(family: Family, tied: bool) -> None:
    cfg = replace(CONFIGS[family.name], tied=tied)
    specs, nodes = family.params(cfg), forward(family, cfg)
    used = [param for node in nodes for param in node.params]
    turned = [node.op.rotation for node in nodes if isinstance(node.op, RopeAppend)]
    rotations = [rotation for rotation in turned if rotation is not None]
    declared = [spec.name for spec in specs]
    assert list(dict.fromkeys((*used, *rotations))) == declared
    tables = [spec.name for spec in specs if isinstance(spec, RotationSpec)]
    assert tables == list(dict.fromkeys(rotations)) != []
    assert used[-1] == ("embed" if tied else "lm_head")


def test_a_layer_computes_what_the_papers_say() -> None:
    nodes = forward(LLAMA, replace(CONFIG, layers=1))
    assert [(node.op.name, *node.params) for node in nodes] == [
        ("embed", "embed"),
        ("rms_norm", "layers.0.attn_norm"),
        ("linear", "layers.0.qkv"),
        ("rope_append",),
        ("attention",),
        ("linear", "layers.0.o"),
        ("add",),
        ("rms_norm", "layers.0.mlp_norm"),
        ("linear", "layers.0.gate_up"),
        ("swiglu",),
        ("linear", "layers.0.down"),
        ("add",),
        ("gather",),
        ("rms_norm", "norm"),
        ("linear", "lm_head"),
    ]
    embed, add = nodes[0], nodes[6]
    assert add.inputs == (embed.output, nodes[5].output)
    assert nodes[11].inputs == (add.output, nodes[10].output)


def test_qwen3_normalizes_queries_and_keys() -> None:
    rotations = [
        node for node in forward(QWEN3, CONFIGS["qwen3"]) if isinstance(node.op, RopeAppend)
    ]
    assert [node.params for node in rotations] == [
        ("layers.0.q_norm", "layers.0.k_norm"),
        ("layers.1.q_norm", "layers.1.k_norm"),
    ]


def test_attention_knows_its_heads_its_scale_and_its_layer() -> None:
    nodes = forward(LLAMA, replace(CONFIG, sm_scale=0.5))
    heads = Heads(query=4, kv=2, width=32)
    assert [node.op for node in nodes if isinstance(node.op, Attention | RopeAppend)] == [
        op
        for layer in range(2)
        for op in (RopeAppend(heads, "rope", layer), Attention(heads, 0.5, layer))
    ]


def test_the_norms_of_heads_have_the_eps_of_the_model() -> None:
    nodes = forward(QWEN3, replace(CONFIGS["qwen3"], rms_eps=1e-3))
    assert {node.op.norm_eps for node in nodes if isinstance(node.op, RopeAppend)} == {1e-3}
    assert {node.op.eps for node in nodes if isinstance(node.op, RmsNorm)} == {1e-3}


def test_a_mean_over_padded_heads_has_a_smaller_eps() -> None:
    cfg = replace(CONFIGS["qwen3"], rms_eps=1e-3, stored_head_dim=24)
    nodes = forward(QWEN3, cfg)
    found = [node.op.norm_eps for node in nodes if isinstance(node.op, RopeAppend)]
    assert found == pytest.approx([0.75e-3, 0.75e-3])
    assert {node.op.eps for node in nodes if isinstance(node.op, RmsNorm)} == {1e-3}


def test_projections_are_stacked_and_gate_and_up_interleaved() -> None:
    specs = {spec.name: spec for spec in LLAMA.params(CONFIG)}
    attention = "model.layers.1.self_attn"
    assert specs["layers.1.qkv"] == LinearSpec(
        "layers.1.qkv",
        (f"{attention}.q_proj.weight", f"{attention}.k_proj.weight", f"{attention}.v_proj.weight"),
        (128, 64, 64),
        64,
    )
    mlp = "model.layers.1.mlp"
    assert specs["layers.1.gate_up"] == LinearSpec(
        "layers.1.gate_up",
        (f"{mlp}.gate_proj.weight", f"{mlp}.up_proj.weight"),
        (176, 176),
        64,
        interleave=True,
    )
    assert specs["layers.1.down"] == LinearSpec(
        "layers.1.down", (f"{mlp}.down_proj.weight",), (64,), 176
    )
    assert specs["norm"] == VectorSpec("norm", "model.norm.weight", 64)


def test_biases_follow_their_options() -> None:
    cfg = replace(CONFIG, attention_bias=True, mlp_bias=True)
    for spec in LLAMA.params(cfg):
        if isinstance(spec, LinearSpec) and spec.name.startswith("layers."):
            weights = tuple(name.removesuffix("weight") + "bias" for name in spec.sources)
            assert spec.biases == weights
        elif isinstance(spec, LinearSpec):
            assert spec.biases is None
    only_mlp = {spec.name: spec for spec in LLAMA.params(replace(CONFIG, mlp_bias=True))}
    assert only_mlp["layers.0.qkv"].biases is None
    assert only_mlp["layers.0.down"].biases == ("model.layers.0.mlp.down_proj.bias",)


def test_qwen2_has_biases_of_queries_keys_and_values_alone() -> None:
    specs = [spec for spec in QWEN2.params(CONFIGS["qwen2"]) if isinstance(spec, LinearSpec)]
    assert [spec.name for spec in specs if spec.biases] == ["layers.0.qkv", "layers.1.qkv"]
    assert specs[1].biases == tuple(
        f"model.layers.0.self_attn.{part}_proj.bias" for part in ("q", "k", "v")
    )


def test_a_layer_of_smollm3_without_positions_turns_nothing() -> None:
    nodes = forward(SMOLLM3, CONFIGS["smollm3"])
    found = [node.op.rotation for node in nodes if isinstance(node.op, RopeAppend)]
    assert found == ["rope", None]


def test_the_parts_of_phi3s_tensors_are_called_as_llamas() -> None:
    views = PHI3.views(replace(CONFIGS["phi3"], layers=1))
    attention, mlp = "model.layers.0.self_attn", "model.layers.0.mlp"
    whole, turning = f"{attention}.qkv_proj.weight", Turning(32, 24)
    assert views == {
        f"{attention}.q_proj.weight": View(whole, 0, 128, turning),
        f"{attention}.k_proj.weight": View(whole, 128, 64, turning),
        f"{attention}.v_proj.weight": View(whole, 192, None),
        f"{mlp}.gate_proj.weight": View(f"{mlp}.gate_up_proj.weight", 0, 176),
        f"{mlp}.up_proj.weight": View(f"{mlp}.gate_up_proj.weight", 176, None),
    }
    (table,) = [spec for spec in PHI3.params(CONFIGS["phi3"]) if isinstance(spec, RotationSpec)]
    assert (table.width, table.rotated) == (32, 24)


def test_granite4_names_the_parts_of_its_shared_mlp_as_llama_does() -> None:
    views = GRANITE4.views(replace(CONFIGS["granite4"], layers=1))
    ours, mlp = "model.layers.0.mlp", "model.layers.0.shared_mlp"
    assert views == {
        f"{ours}.gate_proj.weight": View(f"{mlp}.input_linear.weight", 0, 176),
        f"{ours}.up_proj.weight": View(f"{mlp}.input_linear.weight", 176, None),
        f"{ours}.down_proj.weight": View(f"{mlp}.output_linear.weight"),
    }


def test_nothing_turns_where_no_layer_has_positions() -> None:
    specs = GRANITE4.params(replace(CONFIGS["granite4"], still=(0, 1)))
    assert not [spec for spec in specs if isinstance(spec, RotationSpec)]


def test_queries_of_ministral3_have_numbers_of_their_own_beyond_the_original_context() -> None:
    (spec,) = [s for s in MINISTRAL3.params(CONFIGS["ministral3"]) if isinstance(s, RotationSpec)]
    assert rotation_table(spec, 64).shape == (64, 2, 16)
    table = rotation_table(spec, 200)
    assert table.shape == (200, 4, 16)
    keys, queries = table[:, :2], table[:, 2:]
    assert np.array_equal(queries[:64], keys[:64])
    for first, stretch in ((64, 2), (128, 3)):
        expected = keys[first : first + 64] * np.float32(1 + 0.1 * np.log(stretch))
        assert np.array_equal(queries[first : first + 64], expected)


def test_sinks_are_read_before_the_output_of_each_layer() -> None:
    cfg = replace(CONFIG, layers=1, sinks=True)
    names = [spec.name for spec in LLAMA.params(cfg)]
    assert names[1:5] == ["layers.0.attn_norm", "layers.0.qkv", "layers.0.sinks", "layers.0.o"]
    sinks = {spec.name: spec for spec in LLAMA.params(cfg)}["layers.0.sinks"]
    assert sinks == VectorSpec("layers.0.sinks", "model.layers.0.self_attn.sinks", 4)
    (node,) = [node for node in forward(LLAMA, cfg) if isinstance(node.op, Attention)]
    assert node.params == ("layers.0.sinks",)


def test_the_factors_of_granite_are_those_of_its_embeddings_and_of_its_last_norm() -> None:
    embed = forward(GRANITE, CONFIGS["granite"])[0]
    assert isinstance(embed.op, Embed)
    assert embed.op.factor == 12.0
    views = GRANITE.views(CONFIGS["granite"])
    assert views == {"model.norm.weight": View("model.norm.weight", times=0.125)}


def test_experts_stand_in_the_place_of_the_mlp_of_some_layers() -> None:
    cfg = CONFIGS["qwen3_moe"]
    nodes = [node for node in forward(QWEN3_MOE, cfg) if "layers.1." in node.label]
    names = [(node.op.name, *node.params) for node in nodes]
    assert names[names.index(("rms_norm", "layers.1.mlp_norm")) + 1 :] == [
        ("route", "layers.1.router"),
        ("experts", "layers.1.experts.gate_up"),
        ("experts", "layers.1.experts.down"),
        ("combine",),
    ]
    specs = {spec.name: spec for spec in QWEN3_MOE.params(cfg)}
    down, router = specs["layers.1.experts.down"], specs["layers.1.router"]
    assert isinstance(down, LinearSpec)
    assert down.expert(2).sources == ("model.layers.1.mlp.experts.2.down_proj.weight",)
    assert isinstance(router, RouterSpec)
    assert router.rows == (6,)
    assert "layers.0.gate_up" in specs


def test_qwen2s_shared_expert_has_a_gate_among_the_logits() -> None:
    cfg = CONFIGS["qwen2_moe"]
    router = next(s for s in QWEN2_MOE.params(cfg) if isinstance(s, RouterSpec))
    assert router.rows == (4, 1)
    combine = next(n for n in forward(QWEN2_MOE, cfg) if n.op.name == "combine")
    assert len(combine.inputs) == 3
