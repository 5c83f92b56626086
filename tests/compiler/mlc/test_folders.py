"""Folders of MLC LLM are read as what they say, and refused where they say something else."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.as_file import file_recipe
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.errors import CheckpointError, EdgewiseError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle
from tests.compiler.mlc.writing import CONVERSATION, Stored, write_mlc
from tests.parity.storing import write_weights

Folders = Callable[[str], Path]

CASES = ("llama-gqa2-tied-linear", "qwen3-gqa2-tied", "llama-mha", "qwen3-gqa4-d96-bias")
"""Both families; tied heads and others; 176 and 144 columns, which are no whole groups; biases."""

QUANTIZATIONS = ("q4f16_1", "q4f32_1", "q4f16_2", "q0f16", "q0f32")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_weight_is_what_the_format_says(
    quantization: str, case: str, checkpoints: Folders, tmp_path: Path
) -> None:
    out = tmp_path / "folder"
    expected = write_mlc(checkpoints(case), out, quantization)
    with open_checkpoint(out) as checkpoint:
        reader = checkpoint.weights
        assert set(reader.names()) == set(expected)
        for name, values in expected.items():
            assert reader.shape(name) == values.shape
            np.testing.assert_array_equal(reader.read(name), values)
            np.testing.assert_array_equal(reader.read(name, 3, 21), values[3:21])


@pytest.mark.parametrize("quantization", ["q4f16_1", "q4f32_1"])
@pytest.mark.parametrize("case", CASES)
def test_codes_are_kept_in_every_scheme(
    case: str, quantization: str, checkpoints: Folders, tmp_path: Path
) -> None:
    write_mlc(checkpoints(case), tmp_path / "folder", quantization)
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        params = checkpoint.family.params(checkpoint.model)
        schemes = linear_schemes(file_recipe(checkpoint), params)
        assert {scheme.name for scheme in schemes.values()} == {"q4"}
        for name, own in checkpoint.held.items():
            floats = checkpoint.weights.read(name)
            rows, k = floats.shape
            for scheme, source in own.items():
                assert source is not None
                found = SCHEMES[scheme].dequantize(source(0, rows))
                np.testing.assert_array_equal(found[:, :k], floats)
                assert not found[:, k:].any()


def test_a_code_of_eight_steps_is_one_of_minus_eight_with_the_scale_turned(
    checkpoints: Folders, tmp_path: Path
) -> None:
    name = "model.layers.0.mlp.down_proj"

    def fifteen(tensors: dict[str, Stored]) -> None:
        dtype, layout, shape, data = tensors[f"{name}.q_weight"]
        tensors[f"{name}.q_weight"] = (dtype, layout, shape, b"\x0f" + data[1:])

    expected = write_mlc(checkpoints(CASES[0]), tmp_path / "f", "q4f16_1", change=fifteen)
    with open_checkpoint(tmp_path / "f") as checkpoint:
        floats = checkpoint.weights.read(f"{name}.weight")
        own = expected[f"{name}.weight"]
        np.testing.assert_array_equal(floats[1:], own[1:])
        np.testing.assert_array_equal(floats[0, 2:], own[0, 2:])
        source = checkpoint.held[f"{name}.weight"]["q4"]
        assert source is not None
        rows = source(0, 2)
        assert rows.groups["scale"][0, 0] < 0 < rows.groups["scale"][1, 0]
        assert floats[0, 0] == -8 * float(rows.groups["scale"][0, 0])
        np.testing.assert_array_equal(SCHEMES["q4"].dequantize(rows), floats[:2])


def test_the_older_list_of_tensors_is_read(checkpoints: Folders, tmp_path: Path) -> None:
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q4f16_1", cache="ndarray-cache.json")
    open_checkpoint(tmp_path / "folder").close()


def test_configuration_tokens_and_defaults_come_from_the_folder(
    checkpoints: Folders, tmp_path: Path
) -> None:
    write_mlc(checkpoints("llama-gqa2-tied-linear"), tmp_path / "folder", "q4f16_1")
    with (
        open_checkpoint(tmp_path / "folder") as found,
        open_checkpoint(checkpoints("llama-gqa2-tied-linear")) as expected,
    ):
        # <|end|> ends messages and 3 is a stop token, beside the model's own 1.
        assert (found.model.bos, found.model.eos) == (0, (1, 3))
        assert found.model == expected.model
        assert json.loads(found.files["generation_config.json"]) == {
            "temperature": 0.6,
            "top_p": 0.9,
            "repetition_penalty": 1.0,
        }


def test_a_template_of_the_tokenizer_goes_before_that_of_the_folder(
    checkpoints: Folders, tmp_path: Path
) -> None:
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q0f16")
    (tmp_path / "folder/tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        assert checkpoint.chat_template == "{{ messages }}"


@pytest.mark.landing
def test_a_bundle_of_a_folder_computes_nearly_what_its_floats_do(
    checkpoints: Folders, tmp_path: Path
) -> None:
    folder, plain = tmp_path / "mlc", tmp_path / "plain"
    floats = write_mlc(checkpoints("qwen3-gqa2-tied"), folder, "q4f16_1")
    plain.mkdir()
    for file in checkpoints("qwen3-gqa2-tied").glob("*.json"):
        (plain / file.name).write_bytes(file.read_bytes())
    write_weights(plain, floats, "F32", 1)
    kept = compile_model(folder, tmp_path / "kept", prefill_chunk=128)
    exact = compile_model(plain, tmp_path / "exact", quant="f32", prefill_chunk=128)
    with closing(Bundle.open(kept)) as bundle:
        assert bundle.model.stored == "as-file"
    with Engine(kept) as ours, Engine(exact) as theirs:
        tokens = list(range(2, 60))
        found, expected = ours.score(tokens), theirs.score(tokens)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.035 * expected.std()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "model_type": ({"model_type": "rwkv6"}, "MLC folders of model_type 'rwkv6'"),
    "quantization": ({"quantization": "q3f16_1"}, "quantization is 'q3f16_1'"),
    "windows": ({"sliding_window_size": 64}, "sliding_window_size is 64"),
    "penalties": ({"presence_penalty": 0.5}, "presence_penalty is 0.5"),
    "functions": (
        {"conv_template": {**CONVERSATION, "function_string": "f()"}},
        r"function_string is 'f\(\)'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_implemented_is_refused_by_its_name(
    case: str, checkpoints: Folders, tmp_path: Path
) -> None:
    says, why = REFUSED[case]
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q4f16_1", says=says)
    with pytest.raises(UnsupportedError, match=why) as caught:
        open_checkpoint(tmp_path / "folder")
    assert "docs/supported.md" in caught.value.remedy


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_key_value_heads"])
@pytest.mark.parametrize("value", [[32], {}, "32", -1, True, 2.5])
def test_sizes_that_are_none_are_refused(
    key: str, value: object, checkpoints: Folders, tmp_path: Path
) -> None:
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q0f16")
    path = tmp_path / "folder/mlc-chat-config.json"
    chat = json.loads(path.read_text())
    chat["model_config"][key] = value
    path.write_text(json.dumps(chat))
    with pytest.raises(CheckpointError, match=f"'{key}' in model_config of mlc-chat-config"):
        open_checkpoint(tmp_path / "folder")


def test_a_size_that_is_not_there_is_named(checkpoints: Folders, tmp_path: Path) -> None:
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q0f16")
    path = tmp_path / "folder/mlc-chat-config.json"
    chat = json.loads(path.read_text())
    del chat["model_config"]["intermediate_size"]
    path.write_text(json.dumps(chat))
    with pytest.raises(CheckpointError, match="has no 'intermediate_size'"):
        open_checkpoint(tmp_path / "folder")


Change = Callable[[dict[str, Any]], object]

DAMAGE: dict[str, tuple[Change, str]] = {
    "beyond the shard": (lambda s: s["records"][0].update(byteOffset=1 << 20), "bytes from"),
    "an offset below 0": (lambda s: s["records"][0].update(byteOffset=-4), "bytes from -4"),
    "another size": (lambda s: s["records"][0].update(nbytes=4), "of shape"),
    "a huge shape": (lambda s: s["records"][0].update(shape=[1 << 40] * 4), "of shape"),
    "no shape": (lambda s: s["records"][0].update(shape=[]), "has shape"),
    "an unknown dtype": (lambda s: s["records"][0].update(dtype="int3"), "is 'int3'"),
    "a shard's other size": (lambda s: s.update(nbytes=12), "of 12"),
    "another MD5": (lambda s: s.update(md5sum="0" * 32), "its MD5 is"),
    "no MD5": (lambda s: s.pop("md5sum"), "no md5sum"),
    "a path": (lambda s: s.update(dataPath="../params_shard_0.bin"), "no file name"),
    "a shard that is not there": (lambda s: s.update(dataPath="x.bin"), "not in the folder"),
    "another format": (lambda s: s.update(format="zip"), "has format 'zip'"),
    "a name twice": (lambda s: s["records"].append(s["records"][0]), "is listed twice"),
    "a record that is none": (lambda s: s["records"].append(7), "has a tensor 7"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_list_is_refused(case: str, checkpoints: Folders, tmp_path: Path) -> None:
    change, why = DAMAGE[case]
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q4f16_1")
    path = tmp_path / "folder/tensor-cache.json"
    content = json.loads(path.read_text())
    change(content["records"][0])
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=why) as caught:
        open_checkpoint(tmp_path / "folder")
    assert caught.value.remedy


def test_a_changed_byte_of_a_shard_is_found(checkpoints: Folders, tmp_path: Path) -> None:
    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q4f16_1")
    shard = tmp_path / "folder/params_shard_1.bin"
    raw = bytearray(shard.read_bytes())
    raw[100] ^= 1
    shard.write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"params_shard_1\.bin is damaged: its MD5"):
        open_checkpoint(tmp_path / "folder")


LACKS: dict[str, tuple[Callable[[dict[str, Stored]], object], str]] = {
    "a scale": (lambda t: t.pop("model.layers.0.self_attn.qkv_proj.q_scale"), "there is no"),
    "a weight": (lambda t: t.pop("model.layers.0.self_attn.o_proj.q_weight"), "no q_weight"),
    "a norm": (lambda t: t.pop("model.norm.weight"), "no tensor for 'model.norm.weight'"),
    "a row": (
        lambda t: t.update(
            {"model.layers.0.mlp.gate_up_proj.q_weight": ("uint32", "raw", (383, 12), bytes(18384))}
        ),
        "has 383 rows, not 384",
    ),
    "a column": (
        lambda t: t.update(
            {"model.layers.0.mlp.down_proj.q_weight": ("uint32", "raw", (96, 20), bytes(7680))}
        ),
        "for 192 columns",
    ),
}


@pytest.mark.parametrize("case", LACKS)
def test_tensors_that_do_not_fit_together_are_refused(
    case: str, checkpoints: Folders, tmp_path: Path
) -> None:
    change, why = LACKS[case]

    def damage(tensors: dict[str, Stored]) -> None:
        change(tensors)

    write_mlc(checkpoints(CASES[0]), tmp_path / "folder", "q4f16_1", change=damage)
    with pytest.raises(EdgewiseError, match=why):
        open_checkpoint(tmp_path / "folder")


def test_more_shards_than_a_process_may_have_open_are_read(
    checkpoints: Folders, tmp_path: Path
) -> None:
    write_mlc(checkpoints("llama-mha"), tmp_path / "folder", "q4f16_1", shard=1)
    assert len([*(tmp_path / "folder").glob("*.bin")]) > 20
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = len([*Path("/proc/self/fd").iterdir()]) + 12
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        with open_checkpoint(tmp_path / "folder") as checkpoint:
            for name in checkpoint.weights.names():
                checkpoint.weights.read(name)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
