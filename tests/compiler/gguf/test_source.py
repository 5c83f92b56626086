"""A GGUF file that was written from a checkpoint is that checkpoint again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter
from tokenizers import Tokenizer

from edgewise import Engine
from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.models.rotation import inverse_frequencies
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from tests.compiler.gguf.writing import write_gguf
from tests.conftest import BundleFactory
from tests.parity.make_checkpoints import CORPUS, TEMPLATE

CASES = [
    "llama-mha",
    "llama-gqa2-tied-linear",
    "llama-gqa4-bias-llama3",
    "llama-d80-yarn",
    "qwen3-gqa2-tied",
    "qwen3-gqa4-d96-bias",
    "llama-d8-bias-llama3",
    "qwen3-d24-odd",
    "qwen2-gqa2-tied",
]
Checkpoints = Callable[[str], Path]


@pytest.fixture
def written(checkpoints: Checkpoints, tmp_path: Path) -> Callable[..., Path]:
    """``written(case, **options)``: the case as a GGUF file."""
    return lambda case, **options: write_gguf(
        checkpoints(case), tmp_path / f"{case}.gguf", **options
    )


def set_key(key: str, value: Any) -> Callable[[GGUFWriter], None]:
    """A change of a file before it is written: another value of a key; ``...`` removes it."""

    def change(writer: GGUFWriter) -> None:
        pairs = writer.kv_data[0]
        if value is ...:
            del pairs[key]
            return
        kind = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
        pairs.pop(key, None)
        getattr(writer, f"add_{kind[type(value)]}")(key, value)

    return change


def opening_fails(path: Path, kind: type[EdgewiseError]) -> str:
    with pytest.raises(kind) as caught:
        open_checkpoint(path)
    assert caught.value.remedy
    return caught.value.message


def assert_same_weights(a: Checkpoint, b: Checkpoint) -> None:
    assert sorted(a.weights.names()) == sorted(b.weights.names())
    for name in a.weights.names():
        np.testing.assert_array_equal(a.weights.read(name), b.weights.read(name), name)


@pytest.mark.parametrize("case", CASES)
def test_model_weights_and_files_are_those_of_the_folder(
    case: str, checkpoints: Checkpoints, written: Callable[..., Path]
) -> None:
    with open_checkpoint(checkpoints(case)) as folder, open_checkpoint(written(case)) as file:
        # What a file stores in float32 only.
        eps, rope = np.float32(folder.model.rms_eps), folder.model.rope
        assert np.float32(file.model.rms_eps) == eps
        np.testing.assert_allclose(
            inverse_frequencies(file.model.rope, file.model.stored_head_dim),
            inverse_frequencies(rope, folder.model.stored_head_dim),
            rtol=1e-6,
        )
        assert file.model.rope.attention_factor == rope.attention_factor
        same = replace(file.model, rms_eps=folder.model.rms_eps, rope=rope)
        assert same == folder.model
        assert (file.tokens, file.chat_template) == (folder.tokens, TEMPLATE)
        assert_same_weights(folder, file)


@pytest.mark.landing
@pytest.mark.parametrize("case", ["llama-gqa2-tied-linear", "qwen3-gqa2-tied"])
def test_compiled_logits_are_those_of_the_compiled_folder(
    case: str, bundles: BundleFactory, written: Callable[..., Path], tmp_path: Path
) -> None:
    bundle = compile_model(
        written(case), tmp_path / "bundle", targets=("cpu",), quant="f32", prefill_chunk=128
    )
    tokens = list(range(2, 60))
    with Engine(bundle) as ours, Engine(bundles(case, "f32")) as theirs:
        np.testing.assert_array_equal(ours.score(tokens), theirs.score(tokens))
        assert ours.chat([{"role": "user", "content": "A plan?"}], max_tokens=8, temperature=0)


def test_any_rows_of_queries_are_those_of_the_folder(
    checkpoints: Checkpoints, written: Callable[..., Path]
) -> None:
    case, name = "llama-mha", "model.layers.1.self_attn.q_proj.weight"
    with open_checkpoint(checkpoints(case)) as folder, open_checkpoint(written(case)) as file:
        for start, stop in ((0, 1), (5, 40), (16, 16), (31, 64), (63, 64)):
            expected = folder.weights.read(name, start, stop)
            np.testing.assert_array_equal(file.weights.read(name, start, stop), expected)
        with pytest.raises(CheckpointError, match="rows 60"):
            file.weights.read(name, 60, 65)


def test_quantized_matrices_are_near_what_they_were_made_from(
    checkpoints: Checkpoints, written: Callable[..., Path]
) -> None:
    case = "qwen3-gqa2-tied"
    with (
        open_checkpoint(checkpoints(case)) as folder,
        open_checkpoint(written(case, kind="Q8_0")) as file,
    ):
        for name in folder.weights.names():
            exact, found = folder.weights.read(name), file.weights.read(name)
            assert np.abs(found - exact).max() <= np.abs(exact).max() / 127


def test_divisors_for_heads_of_another_size_are_refused(written: Callable[..., Path]) -> None:
    def change(writer: GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", np.ones(9, np.float32))

    message = opening_fails(written("llama-mha", change=change), CheckpointError)
    assert "rope_freqs.weight has shape [9]" in message


@pytest.mark.parametrize("case", ["llama-mha", "qwen3-gqa4-d96-bias"])
def test_a_split_model_is_the_whole_one(
    case: str, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    write_gguf(checkpoints(case), tmp_path / "model.gguf", split=9)
    parts = sorted(tmp_path.glob("model-*.gguf"))
    assert len(parts) > 2
    with open_checkpoint(checkpoints(case)) as folder, open_checkpoint(parts[0]) as file:
        assert_same_weights(folder, file)
    assert f"Name {parts[0].name}" in refusal(parts[1]).remedy
    parts[-1].rename(tmp_path / "other.gguf")
    with pytest.raises(EdgewiseError, match=parts[-1].name):
        open_checkpoint(parts[0])
    parts[1].rename(parts[-1])
    (tmp_path / "other.gguf").rename(parts[1])
    assert "calls itself part" in refusal(parts[0]).message


def refusal(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    return caught.value


def test_a_part_under_another_name_is_refused(checkpoints: Checkpoints, tmp_path: Path) -> None:
    write_gguf(checkpoints("llama-mha"), tmp_path / "model.gguf", split=9)
    first = min(tmp_path.glob("model-*.gguf")).rename(tmp_path / "first.gguf")
    assert "which its name does not say" in refusal(first).message


@pytest.mark.parametrize("case", ["llama-mha", "qwen3-gqa2-tied"])
def test_token_ids_are_those_of_the_folder(
    case: str, checkpoints: Checkpoints, written: Callable[..., Path]
) -> None:
    theirs = Tokenizer.from_file(str(checkpoints(case) / "tokenizer.json"))
    with open_checkpoint(written(case)) as file:
        ours = Tokenizer.from_buffer(file.files["tokenizer.json"])
        end = json.loads(file.files["generation_config.json"])["eos_token_id"]
    assert end == [1, 3]
    for text in (*CORPUS, " a  b\n\n\tc", "<|begin|>hi<|end|>", "x²½٣ don't I'LL", "🙂", ""):
        found = ours.encode(text).ids
        assert found == theirs.encode(text).ids
        assert ours.decode(found, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("general.architecture", "mamba", "'mamba'"),
        ("llama.expert_count", 8, "num_experts is 8"),
        ("llama.rope.dimension_count", 8, "0.5"),
        ("llama.rope.scaling.type", "dynamic", "'dynamic'"),
        ("llama.rope.scaling.attn_factor", 2.0, "attn_factor is 2.0"),
        ("llama.attention.causal", False, "causal is False"),
        ("llama.logit_scale", 0.5, "logit_scale is 0.5"),
        ("llama.final_logit_softcapping", [1.0, 2.0], "final_logit_softcapping"),
        ("tokenizer.ggml.model", "t5", "'t5'"),
        ("tokenizer.ggml.pre", "default", "'default'"),
        ("tokenizer.ggml.pre", ..., "'default'"),
        ("tokenizer.ggml.pre", "viking", "'viking'"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    key: str, value: Any, said: str, written: Callable[..., Path]
) -> None:
    path = written("llama-mha", change=set_key(key, value))
    assert said in opening_fails(path, UnsupportedError)


@pytest.mark.parametrize(
    ("architecture", "keys", "said"),
    [
        (
            "cohere2",
            {"attention.sliding_window": 512, "final_logit_softcapping": 0.0},
            "sliding windows (attention.sliding_window is 512); LayerNorm; attention and MLP side ",
        ),
        ("mamba", {"ssm.state_size": 16}, "other kinds of layers (ssm.state_size is 16)."),
        ("dbrx", {"expert_count": 16}, "mixtures of experts (expert_count is 16)."),
        ("phi2", {"attention.layer_norm_epsilon": 1e-5}, "LayerNorm (attention.layer_norm_epsilon"),
        ("mistral9", {}, "no family reads them, though nothing that they say of themselves"),
    ],
)
def test_another_architecture_is_refused_with_what_it_needs(
    architecture: str, keys: dict[str, Any], said: str, written: Callable[..., Path]
) -> None:
    def change(writer: GGUFWriter) -> None:
        set_key("general.architecture", architecture)(writer)
        for key, value in keys.items():
            set_key(f"{architecture}.{key}", value)(writer)

    message = opening_fails(written("llama-mha", change=change), UnsupportedError)
    assert message.startswith(f"GGUF files of architecture {architecture!r} are not implemented")
    assert said in message


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("general.type", "adapter", "an adapter (LoRA)"),
        ("general.type", "imatrix", "an importance matrix"),
        ("general.type", "mmproj", "reads images or sound"),
        ("general.architecture", "clip", "reads images or sound"),
    ],
)
def test_what_goes_beside_a_model_is_told_from_one(
    key: str, value: str, said: str, written: Callable[..., Path]
) -> None:
    path = written("llama-mha", change=set_key(key, value))
    assert said in opening_fails(path, UnsupportedError)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("general.architecture", ..., "general.architecture"),
        ("llama.embedding_length", ..., "llama.embedding_length"),
        ("llama.embedding_length", "64", "llama.embedding_length"),
        ("llama.embedding_length", 96, "has shape"),
        ("llama.block_count", 1, "does not use"),
        ("llama.block_count", 3, "layers.2"),
        ("llama.attention.head_count", 0, "num_attention_heads"),
        ("llama.attention.layer_norm_rms_epsilon", 2.0, "layer_norm_rms_epsilon"),
        ("tokenizer.ggml.tokens", ..., "tokens"),
        ("tokenizer.ggml.tokens", ["a", "a"], "twice"),
        ("tokenizer.ggml.tokens", ["a", "b"], "tokenizer.ggml.eot_token_id"),
        ("tokenizer.ggml.token_type", [1, 2, 3], "token_type"),
        ("tokenizer.ggml.merges", ["ab"], "no pair"),
        ("tokenizer.ggml.merges", ["no where"], "tokenizer.json"),
        ("tokenizer.ggml.bos_token_id", 320, "bos_token_id"),
        ("tokenizer.ggml.add_bos_token", 1, "add_bos_token"),
        ("tokenizer.chat_template", 1, "tokenizer.chat_template"),
    ],
)
def test_metadata_that_makes_no_sense_is_refused(
    key: str, value: Any, said: str, written: Callable[..., Path]
) -> None:
    path = written("llama-mha", change=set_key(key, value))
    assert said in opening_fails(path, CheckpointError)
