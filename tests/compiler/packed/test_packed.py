"""Folders that AWQ, GPTQ and compressed-tensors quantized are read as what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.as_file import file_codes, file_recipe, is_quantized
from edgewise_compiler.checkpoint import Checkpoint, open_checkpoint
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.packed import columns, words
from edgewise_compiler.packed.names import NAMES
from edgewise_compiler.packed.table import METHODS
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from tests.compiler.packed.writing import Kind, Stored, stored_words, write_packed

Folders = Callable[[str], Path]

CASES = ("llama-gqa2-tied-linear", "qwen3-gqa2-tied", "llama-gqa4-bias-llama3")
"""Both families; 96, 64 and 128 columns; biases, and a head of its own."""

KINDS = {
    "awq": (Kind("awq"), "q4a"),
    "awq-rows": (Kind("awq", group=-1), "q4a"),
    "awq-eights": (Kind("awq", symmetric=True), "q4"),
    "gptq": (Kind("gptq", symmetric=True), "q4"),
    "gptq-zeros": (Kind("gptq"), "q4a"),
    "gptq-v2": (Kind("gptq_v2", group=-1), "q4a"),
    "gptq-v2-symmetric": (Kind("gptq_v2", symmetric=True, dtype="BF16"), "q4"),
    "gptq-8": (Kind("gptq", bits=8, symmetric=True), "q8"),
    "pack": (Kind("pack", symmetric=True, dtype="BF16"), "q4"),
    "pack-zeros": (Kind("pack", dtype="BF16"), "q4a"),
    "pack-rows": (Kind("pack", group=-1, symmetric=True, dtype="F32", exact=True), "q4"),
    "pack-8": (Kind("pack", bits=8, symmetric=True), "q8"),
    "int8": (Kind("int8", bits=8, group=-1, symmetric=True, dtype="BF16"), "q8"),
}
"""Ways to quantize, and the narrowest scheme that holds them."""


def codes_of(checkpoint: Checkpoint, name: str, scheme: str) -> np.ndarray:
    """The floats that a matrix's codes in a scheme stand for, read in two pieces."""
    source = checkpoint.held[name][scheme]
    assert source is not None
    rows = checkpoint.weights.shape(name)[0]
    pieces = [source(0, 7), source(7, rows)]
    return np.concatenate([SCHEMES[scheme].dequantize(piece) for piece in pieces])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_is_what_the_format_says(
    kind: str, case: str, checkpoints: Folders, tmp_path: Path
) -> None:
    expected = write_packed(checkpoints(case), tmp_path / "folder", KINDS[kind][0])
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        reader = checkpoint.weights
        assert set(reader.names()) == set(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(reader.read(name), values)
            np.testing.assert_array_equal(reader.read(name, 3, 21), values[3:21])


@pytest.mark.parametrize("kind", KINDS)
def test_codes_in_every_scheme_are_the_weights(
    kind: str, checkpoints: Folders, tmp_path: Path
) -> None:
    how, narrowest = KINDS[kind]
    write_packed(checkpoints(CASES[0]), tmp_path / "folder", how)
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        assert len(checkpoint.held) == 14
        for name, schemes in checkpoint.held.items():
            assert next(iter(schemes)) == narrowest
            floats = checkpoint.weights.read(name)
            for scheme in schemes:
                found = codes_of(checkpoint, name, scheme)
                if scheme == "q4a" and not how.symmetric:
                    # A minimum is zero * scale rounded to eleven bits.
                    steps = np.abs(found - floats).max(axis=1) / np.abs(floats).max(axis=1)
                    assert steps.max() < 2**-10
                else:
                    np.testing.assert_array_equal(found, floats)


@pytest.mark.parametrize("method", ["awq", "gptq", "gptq_v2", "pack"])
def test_minima_that_float16_has_are_exact(
    method: str, checkpoints: Folders, tmp_path: Path
) -> None:
    write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind(method, exact=True))
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        for name in checkpoint.held:
            np.testing.assert_array_equal(
                codes_of(checkpoint, name, "q4a"), checkpoint.weights.read(name)
            )


def test_a_folder_is_kept_as_it_is_and_floats_beside_it_have_eight_bits(
    checkpoints: Folders, tmp_path: Path
) -> None:
    write_packed(
        checkpoints("llama-gqa4-bias-llama3"),
        tmp_path / "folder",
        Kind("awq"),
        left=("lm_head", "embed", "down_proj"),
    )
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        assert is_quantized(checkpoint)
        params = checkpoint.family.params(checkpoint.model)
        schemes = linear_schemes(file_recipe(checkpoint), params)
        assert {name: s.name for name, s in schemes.items() if "1" not in name} == {
            "embed": "q8",
            "layers.0.qkv": "q4a",
            "layers.0.o": "q4a",
            "layers.0.gate_up": "q4a",
            "layers.0.down": "q8",
            "lm_head": "q8",
        }
        own = file_codes(checkpoint, schemes)
        assert set(own) == set(checkpoint.held)


def test_parts_of_a_linear_that_differ_get_what_holds_both(
    checkpoints: Folders, tmp_path: Path
) -> None:
    def eights(tensors: dict[str, Stored]) -> None:
        for name, (_, shape, _) in tensors.items():
            if name.endswith("k_proj.qzeros"):
                tensors[name] = stored_words(np.full(shape, 0x88888888))

    write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind("awq"), change=eights)
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        name = "model.layers.0.self_attn.k_proj.weight"
        assert list(checkpoint.held[name]) == ["q4", "q4a", "q5", "q6", "q8"]
        schemes = linear_schemes(
            file_recipe(checkpoint), checkpoint.family.params(checkpoint.model)
        )
        assert schemes["layers.0.qkv"].name == "q4a"


REFUSED: dict[str, tuple[Kind, dict[str, Any], str]] = {
    "awq-bits": (Kind("awq"), {"bits": 3}, "AWQ with bits is 3"),
    "awq-gemv": (Kind("awq"), {"version": "gemv"}, "AWQ with version is 'gemv'"),
    "awq-zero": (Kind("awq"), {"zero_point": False}, "zero_point false"),
    "awq-group": (Kind("awq"), {"group_size": 48}, "group_size 48"),
    "gptq-bits": (Kind("gptq"), {"bits": 3}, "GPTQ with bits is 3"),
    "gptq-format": (Kind("gptq"), {"checkpoint_format": "marlin"}, "marlin"),
    "gptq-group": (Kind("gptq"), {"group_size": 0}, "group_size 0"),
    "gptq-words": (Kind("gptq"), {"pack_dtype": "int16"}, "int16"),
    "pack-format": (Kind("pack"), {"format": "nvfp4-pack-quantized"}, "nvfp4"),
    "pack-cache": (Kind("pack"), {"kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme"),
    "pack-status": (Kind("pack"), {"quantization_status": "frozen"}, "frozen"),
    "pack-sparse": (Kind("pack"), {"sparsity_config": {"format": "sparse-24"}}, "sparse-24"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_implemented_is_refused_by_its_name(
    case: str, checkpoints: Folders, tmp_path: Path
) -> None:
    kind, says, why = REFUSED[case]
    write_packed(checkpoints(CASES[0]), tmp_path / "folder", kind, says=says)
    with pytest.raises(UnsupportedError, match=why) as caught:
        open_checkpoint(tmp_path / "folder")
    assert caught.value.code == "unsupported.quantized"
    assert "docs/supported.md" in caught.value.remedy


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_bits", 3),
        ("type", "float"),
        ("strategy", "tensor"),
        ("actorder", "group"),
        ("group_size", 20),
    ],
)
def test_groups_of_compressed_tensors_that_are_not_read_are_refused(
    key: str, value: object, checkpoints: Folders, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    write_packed(checkpoints(CASES[0]), folder, Kind("pack"))
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"]["config_groups"]["group_0"]["weights"][key] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedError, match=f"{key}.*{value}"):
        open_checkpoint(folder)


def test_inputs_in_another_order_are_refused(checkpoints: Folders, tmp_path: Path) -> None:
    def disorder(tensors: dict[str, Stored]) -> None:
        name = "model.layers.1.mlp.up_proj.g_idx"
        index = np.frombuffer(tensors[name][2], "<i4").copy()
        index[[5, 40]] = index[[40, 5]]
        tensors[name] = ("I32", index.shape, index.tobytes())

    write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind("gptq"), change=disorder)
    with pytest.raises(UnsupportedError, match=r"up_proj\.g_idx' column 5 is of group 1"):
        open_checkpoint(tmp_path / "folder")


def test_eight_bits_with_zeros_of_their_own_are_refused(
    checkpoints: Folders, tmp_path: Path
) -> None:
    write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind("gptq", bits=8))
    with pytest.raises(UnsupportedError, match="other zeros than 128"):
        open_checkpoint(tmp_path / "folder")


def test_a_scale_that_float16_has_not_is_refused_where_codes_are_kept(
    checkpoints: Folders, tmp_path: Path
) -> None:
    kind = Kind("pack", symmetric=True, dtype="F32")
    expected = write_packed(checkpoints(CASES[0]), tmp_path / "folder", kind)
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        name = next(iter(checkpoint.held))
        with pytest.raises(UnsupportedError, match="which float16 does not hold") as caught:
            codes_of(checkpoint, name, "q4")
        assert "--quant balanced" in caught.value.remedy
        np.testing.assert_array_equal(checkpoint.weights.read(name), expected[name])


def test_tiny_scales_become_float16s_multiples(checkpoints: Folders, tmp_path: Path) -> None:
    name = "model.layers.0.mlp.up_proj"

    def vanish(tensors: dict[str, Stored]) -> None:
        dtype, shape, raw = tensors[f"{name}.weight_scale"]
        scales = np.frombuffer(raw, "<u2").copy()
        scales[:3] = (np.float32([1e-5, 1e-7, 1e-30]).view(np.uint32) >> 16).astype("<u2")
        tensors[f"{name}.weight_scale"] = (dtype, shape, scales.tobytes())

    kind = Kind("pack", symmetric=True, dtype="BF16")
    write_packed(checkpoints(CASES[0]), tmp_path / "folder", kind, change=vanish)
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        found = codes_of(checkpoint, f"{name}.weight", "q4")
        far = np.abs(found - checkpoint.weights.read(f"{name}.weight"))
    assert 0 < far.max() <= 8 * 2.0**-25
    assert not far[1:].any()


def halved(tensor: Stored) -> Stored:
    dtype, (rows, *more), raw = tensor
    return dtype, (rows // 2, *more), raw[: len(raw) // 2]


def turned(tensor: Stored) -> Stored:
    dtype, shape, raw = tensor
    return dtype, shape[::-1], raw


def of_floats(tensor: Stored) -> Stored:
    return "F32", *tensor[1:]


def of(rows: int, columns: int) -> Callable[[Stored], Stored]:
    return lambda tensor: (*tensor[:2], np.array([rows, columns], "<i8").tobytes())


DAMAGE: dict[str, tuple[str, str, Callable[[Stored], Stored]]] = {
    "a short qweight": ("awq", "q_proj.qweight", halved),
    "words that are floats": ("awq", "q_proj.qweight", of_floats),
    "scales of another shape": ("gptq", "o_proj.scales", turned),
    "an index that is too short": ("gptq", "o_proj.g_idx", halved),
    "a shape that is not the weights'": ("pack", "o_proj.weight_shape", of(96, 1 << 50)),
    "a shape below nothing": ("pack", "o_proj.weight_shape", of(-96, -96)),
    "zeros of another shape": ("pack", "o_proj.weight_zero_point", turned),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_tensors_that_do_not_fit_together_are_refused(
    case: str, checkpoints: Folders, tmp_path: Path
) -> None:
    method, end, damage = DAMAGE[case]
    name = f"model.layers.0.self_attn.{end}"

    def change(tensors: dict[str, Stored]) -> None:
        tensors[name] = damage(tensors[name])

    write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind(method), change=change)
    with pytest.raises((CheckpointError, UnsupportedError)) as caught:
        open_checkpoint(tmp_path / "folder")
    assert "self_attn" in caught.value.message


def test_a_matrix_that_is_there_twice_is_refused(checkpoints: Folders, tmp_path: Path) -> None:
    def again(tensors: dict[str, Stored]) -> None:
        tensors["model.layers.0.mlp.up_proj.weight"] = ("F16", (192, 96), bytes(192 * 96 * 2))

    write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind("awq"), change=again)
    with pytest.raises(CheckpointError, match="there twice"):
        open_checkpoint(tmp_path / "folder")


def test_a_matrix_is_turned_block_by_block_as_it_would_be_at_once(
    checkpoints: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = write_packed(checkpoints(CASES[0]), tmp_path / "folder", Kind("gptq"))
    monkeypatch.setattr(words, "BLOCK", 1000)
    monkeypatch.setattr(columns, "KEPT", 1)
    with open_checkpoint(tmp_path / "folder") as checkpoint:
        for name in checkpoint.held:
            np.testing.assert_array_equal(checkpoint.weights.read(name), expected[name])


def test_names_are_those_of_the_formats() -> None:
    assert tuple(METHODS) == NAMES


def test_patterns_of_what_was_left_alone_are_not_asked(
    checkpoints: Folders, tmp_path: Path
) -> None:
    says = {"ignore": ["re:(.+)+(.+)+$", "model.layers.0.mlp.up_proj"]}
    expected = write_packed(checkpoints(CASES[0]), tmp_path / "f", Kind("pack"), says=says)
    with open_checkpoint(tmp_path / "f") as checkpoint:
        assert len(checkpoint.held) == 14
        for name, values in expected.items():
            np.testing.assert_array_equal(checkpoint.weights.read(name), values)
