"""Folders of MLC LLM with mixtures of experts, and of what else has its attention as Qwen2 has."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise import Engine
from edgewise.exporting import export
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.mlc import export as exporting
from edgewise_compiler.mlc.export import export_mlc
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from tests.compiler.gguf.tiny import TINY, write_tiny
from tests.compiler.gguf.writing import write_gguf
from tests.compiler.mlc.test_export import listed
from tests.compiler.mlc.writing import CONVERSATION, Stored, write_mlc
from tests.conftest import made_once

KINDS = ("qwen2", "qwen2moe", "qwen3moe")
UP = "model.layers.1.mlp.moe_gate_up_proj"

Folders = Callable[[str], Path]


@pytest.fixture
def folders(shared: Path) -> Folders:
    """The tiny models as checkpoint folders, each written once."""
    place = shared / "mlc-tiny"
    place.mkdir(exist_ok=True)
    return lambda name: made_once(place / name, lambda out: write_tiny(name, out))


@pytest.mark.parametrize("quantization", ["q4f16_1", "q4f32_1", "q0f16", "q0f32"])
@pytest.mark.parametrize("name", KINDS)
def test_a_folder_is_byte_for_byte_what_is_written_by_hand(
    name: str, quantization: str, folders: Folders, tmp_path: Path
) -> None:
    floats = write_mlc(folders(name), tmp_path / "hand", quantization)
    (tmp_path / "hand/ndarray-cache.json").write_bytes(
        (tmp_path / "hand/tensor-cache.json").read_bytes()
    )
    export_mlc(folders(name), tmp_path / "ours", CONVERSATION, quantization=quantization)
    ours, theirs = listed(tmp_path / "ours"), listed(tmp_path / "hand")
    assert ours.keys() == theirs.keys()
    for tensor, one in ours.items():
        for key in ("shape", "dtype", "nbytes", "data"):
            assert one[key] == theirs[tensor][key], (tensor, key)
    with open_checkpoint(tmp_path / "hand") as checkpoint:
        assert set(checkpoint.weights.names()) == floats.keys()
        for tensor, values in floats.items():
            np.testing.assert_array_equal(checkpoint.weights.read(tensor), values, tensor)


def test_names_and_shapes_are_those_of_mlc(folders: Folders, tmp_path: Path) -> None:
    export_mlc(folders("qwen2moe"), tmp_path / "ours", CONVERSATION)
    found = {name: one["shape"] for name, one in listed(tmp_path / "ours").items()}
    layer = {
        name.removeprefix("model.layers.1."): shape
        for name, shape in found.items()
        if name.startswith("model.layers.1.")
    }
    assert layer == {
        "input_layernorm.weight": [128],
        "post_attention_layernorm.weight": [128],
        "self_attn.c_attn.q_weight": [256, 16],
        "self_attn.c_attn.q_scale": [256, 4],
        "self_attn.c_attn.bias": [256],
        "self_attn.o_proj.q_weight": [128, 16],
        "self_attn.o_proj.q_scale": [128, 4],
        "mlp.gate.weight": [6, 128],
        "mlp.shared_expert_gate.weight": [1, 128],
        "mlp.shared_expert.gate_up_proj.q_weight": [128, 16],
        "mlp.shared_expert.gate_up_proj.q_scale": [128, 4],
        "mlp.shared_expert.down_proj.q_weight": [128, 8],
        "mlp.shared_expert.down_proj.q_scale": [128, 2],
        "mlp.moe_gate_up_proj.q_weight": [6, 192, 16],
        "mlp.moe_gate_up_proj.q_scale": [6, 192, 4],
        "mlp.moe_down_proj.q_weight": [6, 128, 12],
        "mlp.moe_down_proj.q_scale": [6, 128, 3],
    }
    config = json.loads((tmp_path / "ours/mlc-chat-config.json").read_text())
    assert config["model_type"] == "qwen2_moe"
    said = {key: config["model_config"][key] for key in ("num_experts", "decoder_sparse_step")}
    assert said == {"num_experts": 6, "decoder_sparse_step": 1}


@pytest.mark.landing
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("name", KINDS)
def test_an_exported_folder_and_one_written_by_hand_answer_alike(
    name: str, folders: Folders, tmp_path: Path
) -> None:
    write_mlc(folders(name), tmp_path / "hand", "q4f16_1")
    export_mlc(folders(name), tmp_path / "ours", CONVERSATION)
    scores = []
    for which in ("hand", "ours"):
        bundle = compile_model(
            tmp_path / which, tmp_path / f"{which}-bundle", targets=("cpu",), prefill_chunk=64
        )
        with Engine(bundle) as engine:
            scores.append(engine.score(list(range(2, 60))))
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("name", KINDS)
def test_configuration_comes_back_as_it_was(name: str, folders: Folders, tmp_path: Path) -> None:
    export_mlc(folders(name), tmp_path / "ours", CONVERSATION)
    with open_checkpoint(tmp_path / "ours") as found, open_checkpoint(folders(name)) as was:
        assert found.model == was.model


def test_codes_of_experts_in_q4_0_are_exported_without_changing_one(
    folders: Folders, tmp_path: Path
) -> None:
    given = write_gguf(folders("qwen3moe"), tmp_path / "given.gguf", kind="Q4_0")
    export(given, tmp_path / "ours", progress=lambda *done: None)
    with open_checkpoint(tmp_path / "ours") as ours, open_checkpoint(given) as theirs:
        kept = [name for name in theirs.held if ".experts." in name]
        assert len(kept) == 2 * 12 * 3
        for name in kept:
            np.testing.assert_array_equal(ours.weights.read(name), theirs.weights.read(name))


def test_a_head_that_is_the_table_is_written_once_more(tmp_path: Path) -> None:
    case = TINY["qwen3moe"]
    tied = replace(case, config={**case.config, "tie_word_embeddings": True})
    folder = write_tiny("qwen3moe", tmp_path / "tied", tied)
    export_mlc(folder, tmp_path / "ours", CONVERSATION)
    found = listed(tmp_path / "ours")
    for end in ("q_weight", "q_scale"):
        assert found[f"lm_head.{end}"]["data"] == found[f"model.embed_tokens.{end}"]["data"]
    with open_checkpoint(tmp_path / "ours") as checkpoint:
        assert not checkpoint.model.tied


def test_a_choice_among_many_experts_has_four_bits(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "MOST_ROUTED", 8)
    export_mlc(folders("qwen3moe"), tmp_path / "ours", CONVERSATION)
    assert listed(tmp_path / "ours")["model.layers.1.mlp.gate.q_weight"]["shape"] == [12, 16]
    with open_checkpoint(tmp_path / "ours") as found, open_checkpoint(folders("qwen3moe")) as was:
        name = "model.layers.1.mlp.gate.weight"
        expected = was.weights.read(name)
        off = np.abs(found.weights.read(name) - expected)
        assert 0 < off.max() < np.abs(expected).max() / 7


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "another family": ("gpt-oss", {}, "family gpt_oss are not exported"),
    "a dense layer": ("qwen3moe", {"mlp_only_layers": [1]}, "no layers without experts"),
    "a stretched rotation": (
        "qwen3moe",
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        "no stretched rotations",
    ),
    "wide heads": ("qwen2moe", {"hidden_size": 96}, "heads that together are not as wide"),
    "no biases": ("qwen2", {"qkv_bias": False}, "queries and keys without biases"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_mlc_has_not_is_refused(case: str, tmp_path: Path) -> None:
    name, changes, said = REFUSED[case]
    tiny = TINY[name]
    other = replace(tiny, config={**tiny.config, **changes})
    if "qkv_bias" in changes:
        other = replace(other, qkv_bias=False)
    folder = write_tiny(name, tmp_path / "other", other)
    with pytest.raises(UnsupportedError, match=said) as caught:
        export_mlc(folder, tmp_path / "ours", CONVERSATION)
    assert caught.value.remedy
    assert not (tmp_path / "ours").exists()


def _flat(tensors: dict[str, Stored]) -> None:
    for end, columns in (("q_weight", 16), ("q_scale", 4)):
        dtype, layout, _, data = tensors[f"{UP}.{end}"]
        tensors[f"{UP}.{end}"] = (dtype, layout, (12 * 128, columns), data)


def _one_more(tensors: dict[str, Stored]) -> None:
    for end, columns in (("q_weight", 16), ("q_scale", 4)):
        dtype, layout, shape, data = tensors[f"{UP}.{end}"]
        row = len(data) // shape[0]
        tensors[f"{UP}.{end}"] = (dtype, layout, (13, 128, columns), data + bytes(row))


@pytest.mark.parametrize(
    ("change", "says", "said"),
    [
        (_flat, {}, "has 1536 times 16 rows, not 12 times 128"),
        (_one_more, {}, "has 13 times 128 rows, not 12 times 128"),
        (lambda t: t.pop(f"{UP}.q_scale"), {}, "there is no"),
        (lambda t: None, {"num_experts": 11}, "has 12 times 128 rows, not 11 times 128"),
        (lambda t: None, {"num_experts": 1 << 39}, "between 1 and 1024"),
        (lambda t: None, {"moe_intermediate_size": 32}, "rows, not 12 times 64"),
        (lambda t: None, {"decoder_sparse_step": 2}, "no tensor for"),
    ],
)
def test_experts_that_do_not_fit_are_refused(
    change: Callable[[dict[str, Stored]], None],
    says: dict[str, Any],
    said: str,
    folders: Folders,
    tmp_path: Path,
) -> None:
    write_mlc(folders("qwen3moe"), tmp_path / "folder", "q4f16_1", change=change)
    path = tmp_path / "folder/mlc-chat-config.json"
    chat = json.loads(path.read_text())
    chat["model_config"] |= says
    path.write_text(json.dumps(chat))
    with pytest.raises(CheckpointError, match=said):
        open_checkpoint(tmp_path / "folder")
