"""A GGUF file of every architecture is the checkpoint that it was written from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from edgewise import Engine
from edgewise.exporting import export
from edgewise_compiler.as_file import file_recipe
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.gguf.known import ARCHITECTURES
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.rotation import rope_table
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from tests.compiler.gguf.make_family_goldens import GOLDENS, gaps, kinds_of, our_logits, prompt
from tests.compiler.gguf.test_source import assert_same_weights, set_key
from tests.compiler.gguf.tiny import OTHERWISE, TINY, write_tiny
from tests.compiler.gguf.writing import write_gguf
from tests.compiler.test_as_file import assert_weights, packed, schemes_of
from tests.conftest import made_once

GOLDEN = json.loads(GOLDENS.read_text())

NEAR = {"F32": 1e-3}
"""Logits: what is no further apart is a near tie. llama.cpp rounds activations to 8 bits where
weights are quantized, which moves these models' logits by 0.04 to 0.17 (RMS)."""
ROUNDED = 0.5
CHOOSES = {"qwen3moe": 1.0}
"""The same where rounding may choose another expert."""

Folders = Callable[[str], Path]


@pytest.fixture
def folders(shared: Path) -> Folders:
    """The tiny models as checkpoint folders, each written once."""
    place = shared / "gguf-tiny"
    place.mkdir(exist_ok=True)
    return lambda name: made_once(place / name, lambda out: write_tiny(name, out))


def same_numbers(ours: ModelConfig, theirs: ModelConfig) -> bool:
    """Whether two are one but for what a file rounds to float32; of Mistral's a file says less."""
    rounded = ("rms_eps", "logit_factor", "embed_factor", "sm_scale", "softcap", "logit_softcap")
    for name in (field.name for field in fields(ours)):
        a, b = getattr(ours, name), getattr(theirs, name)
        if name in ("rope", "local_rope") and a is not None:
            tables = [rope_table(rope, ours.rotated or ours.head_dim, 64) for rope in (a, b)]
            if not np.allclose(*tables, rtol=0, atol=2e-5):
                return False
        elif name in rounded and a is not None:
            if abs(a - b) > 1e-7 * abs(b):
                return False
        elif name != "family" and a != b:
            return False
    return True


@pytest.mark.parametrize("name", TINY)
def test_model_and_weights_are_those_of_the_folder(
    name: str, folders: Folders, tmp_path: Path
) -> None:
    path = write_gguf(folders(name), tmp_path / f"{name}.gguf")
    with open_checkpoint(folders(name)) as folder, open_checkpoint(path) as file:
        assert same_numbers(file.model, folder.model)
        assert_same_weights(folder, file)


def test_every_architecture_has_a_tiny_model() -> None:
    theirs = {"ministral3": "mistral3", "mistral": "llama", "mistral-window": "llama"}
    theirs |= {"olmo3": "olmo2", "granite4": "granite", "granite4-nope": "granite"}
    found = {theirs.get(name, name) for name in TINY}
    assert found | {"granitehybrid"} == ARCHITECTURES.keys()
    assert GOLDEN.keys() - {"llama_cpp"} == TINY.keys() - {*OTHERWISE}


@pytest.mark.quick(cases=4)
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in TINY if name not in OTHERWISE for kind in kinds_of(name)],
)
def test_greedy_tokens_are_those_of_llama_cpp_or_near_ties(
    name: str, kind: str, folders: Folders, tmp_path: Path
) -> None:
    path = write_gguf(folders(name), tmp_path / f"{name}.gguf", **kinds_of(name)[kind])
    config, answered = json.loads((folders(name) / "config.json").read_text()), GOLDEN[name][kind]
    logits = our_logits(path, config, [*prompt(name), *answered[:-1]])[-len(answered) :]
    assert gaps(logits, answered).max() < NEAR.get(kind, CHOOSES.get(name, ROUNDED))
    # Another answer is no near tie.
    assert gaps(logits, answered[::-1]).max() > ROUNDED


@pytest.mark.landing
@pytest.mark.sampled(one_in=12)
@pytest.mark.parametrize("name", TINY)
def test_compiled_logits_are_those_of_the_compiled_folder(
    name: str, folders: Folders, tmp_path: Path
) -> None:
    path = write_gguf(folders(name), tmp_path / f"{name}.gguf")
    tokens, found = list(range(2, 60)), []
    for source in (path, folders(name)):
        bundle = compile_model(
            source, tmp_path / source.name.replace(".", "-"), targets=("cpu",), quant="f32"
        )
        with Engine(bundle) as engine:
            found.append(engine.score(tokens))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["gemma3", "granite", "phi3"])
def test_codes_of_a_model_trained_for_q4_0_lie_in_its_bundle(
    name: str, folders: Folders, tmp_path: Path
) -> None:
    """Norms and rotations of a family are other ones; each weight is its code times its scale."""
    path = write_gguf(folders(name), tmp_path / f"{name}.gguf", kind="Q4_0")
    with open_checkpoint(path) as file:
        schemes = schemes_of(file, file_recipe(file))
        assert {scheme.name for scheme in schemes.values()} == {"q4"}
        assert_weights(file, schemes, packed(file, schemes, tmp_path), {})


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_codes_of_a_model_trained_for_q4_0_survive_the_bundle_and_an_exported_folder(
    name: str, folders: Folders, tmp_path: Path
) -> None:
    path = write_gguf(folders(name), tmp_path / f"{name}.gguf", kind="Q4_0")
    made = export(path, tmp_path / "folder", quant="q4f16_1", progress=lambda *done: None)
    with open_checkpoint(path) as file, open_checkpoint(made) as exported:
        for number, one in enumerate((file, exported)):
            schemes = schemes_of(one, file_recipe(one))
            assert {scheme.name for scheme in schemes.values()} == {"q4"}
            place = tmp_path / str(number)
            place.mkdir()
            assert_weights(file, schemes, packed(one, schemes, place), {})


@pytest.mark.parametrize("name", ["granite", "phi3", "qwen2moe", "qwen3moe", "smollm3"])
def test_codes_move_as_they_are(name: str, folders: Folders, tmp_path: Path) -> None:
    """Rows of queries that are permuted, or lie in a tensor of three."""
    path = write_gguf(folders(name), tmp_path / f"{name}.gguf", kind="Q4_0")
    with open_checkpoint(path) as file:
        up = "mlp.experts.3.up_proj" if name.endswith("moe") else "mlp.up_proj"
        for part in ("self_attn.q_proj", "self_attn.k_proj", up):
            matrix = f"model.layers.1.{part}.weight"
            read = file.held[matrix]["q4"]
            assert read is not None
            rows = read(5, 41)
            floats = (rows.codes.astype(np.float32) - 8) * np.repeat(
                rows.groups["scale"].astype(np.float32), 32, axis=1
            )
            np.testing.assert_array_equal(floats, file.weights.read(matrix, 5, 41))


def test_queries_keys_and_values_may_be_one_tensor_of_any_architecture(
    folders: Folders, tmp_path: Path
) -> None:
    """As ``--fuse-qkv`` of llama.cpp's converter writes them."""

    def fused(writer: GGUFWriter) -> None:
        for layer in range(2):
            for kind in ("weight", "bias"):
                parts = [f"blk.{layer}.attn_{part}.{kind}" for part in "qkv"]
                found = [writer.tensors[0].pop(name, None) for name in parts]
                if found[0] is not None:
                    joined = np.concatenate([one.tensor for one in found])
                    writer.add_tensor(f"blk.{layer}.attn_qkv.{kind}", joined)

    for name in ("llama", "qwen2"):
        path = write_gguf(folders(name), tmp_path / f"{name}.gguf", last=fused)
        with open_checkpoint(folders(name)) as folder, open_checkpoint(path) as file:
            assert_same_weights(folder, file)
            q = "model.layers.1.self_attn.q_proj.weight"
            np.testing.assert_array_equal(
                folder.weights.read(q, 3, 50), file.weights.read(q, 3, 50)
            )


@pytest.mark.parametrize("name", ["gemma3", "phi3"])
def test_a_split_model_is_the_whole_one(name: str, folders: Folders, tmp_path: Path) -> None:
    write_gguf(folders(name), tmp_path / "model.gguf", split=5)
    parts = sorted(tmp_path.glob("model-*.gguf"))
    assert len(parts) > 2
    with open_checkpoint(folders(name)) as folder, open_checkpoint(parts[0]) as file:
        assert_same_weights(folder, file)
        assert file.tokens == folder.tokens
        assert set(file.model.eos) == {1, 3}


def read(folders: Folders, tmp_path: Path, name: str, key: str, value: Any, **more: Any) -> Any:
    """The model of a file with another value of a key."""
    path = write_gguf(folders(name), tmp_path / "x.gguf", change=set_key(key, value), **more)
    with open_checkpoint(path) as file:
        return file.model


def test_what_no_key_says_is_what_llama_cpp_has_in_its_code(
    folders: Folders, tmp_path: Path
) -> None:
    gemma2 = read(folders, tmp_path, "gemma2", "gemma2.attn_logit_softcapping", ...)
    assert (gemma2.softcap, gemma2.local) == (50.0, (0,))
    gemma3 = read(folders, tmp_path, "gemma3", "gemma3.attention.sliding_window_pattern", ...)
    assert gemma3.local == (0, 1, 2)
    gemma3 = read(folders, tmp_path, "gemma3", "gemma3.attention.sliding_window_pattern", 2)
    assert gemma3.local == (0, 2)
    gemma3 = read(folders, tmp_path, "gemma3", "gemma3.rope.freq_base_swa", ...)
    assert gemma3.local_rope.theta == 10000.0
    gemma3 = read(folders, tmp_path, "gemma3", "gemma3.attention.sliding_window", ...)
    assert (gemma3.window, gemma3.local) == (None, ())
    granite = read(folders, tmp_path, "granite", "granite.attention.scale", ...)
    assert granite.sm_scale == pytest.approx(32**-0.5)
    smollm3 = read(folders, tmp_path, "smollm3", "general.name", "x")
    assert smollm3.still == (3,)
    gpt_oss = read(folders, tmp_path, "gpt-oss", "gpt-oss.rope.scaling.type", "none")
    assert (gpt_oss.local, gpt_oss.rope.kind) == ((0,), "default")
    qwen2moe = read(folders, tmp_path, "qwen2moe", "general.name", "x")
    assert not qwen2moe.mixture.normalize


def test_granite_4_is_told_by_its_rotation_or_its_name(folders: Folders, tmp_path: Path) -> None:
    """Converters of today call it ``granite``, and those before them ``granitehybrid``."""
    for name in ("granite4", "granite4-nope"):
        for arch in ("granite", "granitehybrid"):
            path = write_gguf(folders(name), tmp_path / f"{name}.gguf", arch=arch)
            with open_checkpoint(path) as file, open_checkpoint(folders(name)) as folder:
                assert same_numbers(file.model, folder.model)
                assert_same_weights(folder, file)
    assert file.model.still == (0, 1)


def test_gpt_oss_has_its_makers_rotation_and_its_codes(folders: Folders, tmp_path: Path) -> None:
    kinds = {"kind": "Q8_0", "kinds": {"_exps": "MXFP4"}}
    path = write_gguf(folders("gpt-oss"), tmp_path / "x.gguf", **kinds)
    with open_checkpoint(path) as file:
        assert not file.model.rope.truncate
        assert file.model.local == (0,)
        schemes = schemes_of(file, file_recipe(file))
        experts = {scheme.name for name, scheme in schemes.items() if ".experts." in name}
        assert experts == {"mxfp4"}
        name = "model.layers.1.mlp.experts.3.up_proj"
        held = file.held[f"{name}.weight"]["mxfp4"]
        assert held is not None
        floats = SCHEMES["mxfp4"].dequantize(held(3, 50))
        np.testing.assert_array_equal(floats, file.weights.read(f"{name}.weight", 3, 50))
        whole = file.weights.read(f"{name}.bias")
        np.testing.assert_array_equal(file.weights.read(f"{name}.bias", 5, 9), whole[5:9])
        hashed = [b"".join(p.tobytes() for p in file.weights.stored(f"{name}.bias"))]
        assert whole.tobytes() in hashed[0]
        assert len(hashed[0]) < 4 * 96 + 16


def test_sinks_may_have_no_suffix_and_a_gate_of_one_row_a_dimension(
    folders: Folders, tmp_path: Path
) -> None:
    def bare(writer: GGUFWriter) -> None:
        for name in [name for name in writer.tensors[0] if "attn_sinks" in name]:
            found = writer.tensors[0].pop(name)
            writer.tensors[0][name.removesuffix(".weight")] = found

    path = write_gguf(folders("gpt-oss"), tmp_path / "oss.gguf", last=bare)
    with open_checkpoint(path) as file, open_checkpoint(folders("gpt-oss")) as folder:
        assert_same_weights(folder, file)

    def flat(writer: GGUFWriter) -> None:
        for name, found in writer.tensors[0].items():
            if "gate_inp_shexp" in name:
                assert found.shape == (1, 128)
                found.shape = (128,)

    path = write_gguf(folders("qwen2moe"), tmp_path / "qwen.gguf", last=flat)
    with open_checkpoint(path) as file, open_checkpoint(folders("qwen2moe")) as folder:
        assert_same_weights(folder, file)


def test_mistral3_is_mistral_with_yarns_scale(folders: Folders, tmp_path: Path) -> None:
    def change(writer: GGUFWriter) -> None:
        set_key("mistral3.rope.scaling.type", "yarn")(writer)
        set_key("mistral3.rope.scaling.factor", 16.0)(writer)
        set_key("mistral3.rope.scaling.original_context_length", 16)(writer)
        set_key("mistral3.rope.scaling.yarn_log_multiplier", 1.0)(writer)

    path = write_gguf(folders("mistral"), tmp_path / "x.gguf", arch="mistral3", change=change)
    with open_checkpoint(path) as file, open_checkpoint(folders("mistral")) as folder:
        assert (file.family.name, file.model.rope.attention_factor) == ("mistral", 1.0)
        assert_same_weights(folder, file)


@pytest.mark.parametrize(
    ("name", "key", "value", "kind", "said"),
    [
        ("gemma3", "gemma3.attn_logit_softcapping", 50.0, UnsupportedError, "softcapping is 50.0"),
        ("granite", "granite.residual_scale", 1e20, CheckpointError, "residual_multiplier"),
        ("phi3", "phi3.rope.dimension_count", 32, CheckpointError, "where 16 pairs turn"),
        ("phi3", "phi3.feed_forward_length", 191, CheckpointError, "has shape"),
        ("gemma2", "gemma2.attention.sliding_window_pattern", [True], CheckpointError, "no flags"),
        ("qwen3moe", "qwen3moe.expert_count", 13, CheckpointError, "has shape [12, "),
        ("qwen3moe", "qwen3moe.expert_count", 11, CheckpointError, "has shape [12, "),
        ("qwen2moe", "qwen2moe.expert_shared_feed_forward_length", 63, CheckpointError, "shape"),
        ("gpt-oss", "gpt-oss.expert_count", 5, CheckpointError, "has shape [6, "),
        ("gpt-oss", "gpt-oss.attention.sliding_window", ..., CheckpointError, "sliding_window"),
        ("granite4", "granite.attention.head_count_kv", [2, 0], UnsupportedError, "that differ"),
        ("gemma2", "gemma2.block_count", 1 << 31, CheckpointError, "between 1 and 1024"),
        ("granite4", "granite.expert_count", 4, UnsupportedError, "mixtures of experts"),
        ("qwen3moe", "qwen3moe.expert_gating_func", 2, UnsupportedError, "gating_func is 2"),
        ("smollm3", "smollm3.attention.temperature_scale", 0.1, UnsupportedError, "temperature"),
    ],
)
def test_what_does_not_fit_or_is_not_there_is_refused(
    name: str,
    key: str,
    value: Any,
    kind: type[EdgewiseError],
    said: str,
    folders: Folders,
    tmp_path: Path,
) -> None:
    with pytest.raises(kind) as caught:
        read(folders, tmp_path, name, key, value)
    assert said in caught.value.message
    assert caught.value.remedy


def test_divisors_without_the_other_list_are_refused(folders: Folders, tmp_path: Path) -> None:
    def change(writer: GGUFWriter) -> None:
        del writer.tensors[0]["rope_factors_short.weight"]

    path = write_gguf(folders("phi3"), tmp_path / "x.gguf", last=change)
    with pytest.raises(
        CheckpointError, match=r"rope_factors_long.weight and no rope_factors_short"
    ):
        open_checkpoint(path)


def test_each_expert_is_hashed_by_its_own_bytes(folders: Folders, tmp_path: Path) -> None:
    path = write_gguf(folders("qwen3moe"), tmp_path / "x.gguf", kind="Q8_0")
    with open_checkpoint(path) as file:
        experts = [name for name in file.weights.names() if ".experts." in name]
        hashed = {
            name: b"".join(piece.tobytes() for piece in file.weights.stored(name))
            for name in experts
        }
        sizes = {name: file.weights.size(name) for name in experts}
    # A mark of the expert, of a few letters, follows what is stored.
    assert all(0 <= len(hashed[name]) - sizes[name] < 16 for name in experts)
    assert len(set(hashed.values())) == len(experts)
    assert sum(sizes.values()) < path.stat().st_size
