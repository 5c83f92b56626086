"""Experts of gpt-oss in MXFP4: every weight is what the format says, and codes stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.as_file import file_recipe
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from tests.compiler.packed.mxfp4 import write_both
from tests.compiler.packed.writing import Stored

Folders = Callable[[str], Path]

CASE = "gptoss-window"


def test_every_weight_is_what_the_format_says_and_its_code_stays(
    checkpoints: Folders, tmp_path: Path
) -> None:
    coded, plain = write_both(checkpoints(CASE), tmp_path)
    with open_checkpoint(coded) as ours, open_checkpoint(plain) as theirs:
        assert set(ours.weights.names()) == set(theirs.weights.names())
        assert len(ours.held) == 2 * 6 * 3
        for name in theirs.weights.names():
            expected = theirs.weights.read(name)
            np.testing.assert_array_equal(ours.weights.read(name), expected)
        for name, holders in ours.held.items():
            expected = theirs.weights.read(name)
            assert list(holders) == ["mxfp4", "q5", "q6", "q8"]
            for scheme, source in holders.items():
                assert source is not None
                pieces = source(0, 7), source(7, len(expected))
                found = np.concatenate([SCHEMES[scheme].dequantize(piece) for piece in pieces])
                np.testing.assert_array_equal(found[:, : expected.shape[1]], expected)
        params = ours.family.params(ours.model)
        schemes = {n: s.name for n, s in linear_schemes(file_recipe(ours), params).items()}
        assert schemes["layers.1.experts.gate_up"] == schemes["layers.0.experts.down"] == "mxfp4"
        assert schemes["layers.0.qkv"] == schemes["embed"] == "q8"


def test_the_bytes_of_an_expert_are_its_own(checkpoints: Folders, tmp_path: Path) -> None:
    coded, _ = write_both(checkpoints(CASE), tmp_path)
    with open_checkpoint(coded) as ours:
        for name in ours.held:
            stored = sum(piece.nbytes for piece in ours.weights.stored(name))
            rows, k = ours.weights.shape(name)
            alternating = 1 if "down" in name else 2
            assert stored == ours.weights.size(name) == alternating * rows * k // 32 * 17


@pytest.mark.parametrize(
    ("end", "tensor", "words"),
    [
        ("down_proj_scales", ("U8", (6, 64, 2), bytes(6 * 64 * 2)), "should be U8"),
        ("down_proj_blocks", ("I32", (6, 64, 3, 16), bytes(4 * 6 * 64 * 48)), "should be U8"),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused(
    end: str, tensor: Stored, words: str, checkpoints: Folders, tmp_path: Path
) -> None:
    def change(tensors: dict[str, Stored]) -> None:
        tensors[f"model.layers.1.mlp.experts.{end}"] = tensor

    coded, _ = write_both(checkpoints(CASE), tmp_path, change)
    with pytest.raises(CheckpointError, match=words):
        open_checkpoint(coded)


@pytest.mark.parametrize("shape", [(1 << 40, 0, 2), (1025, 64, 1), (0, 64, 2), (6, 64, 0)])
def test_experts_without_weights_and_too_many_are_refused(
    shape: tuple[int, ...], checkpoints: Folders, tmp_path: Path
) -> None:
    def change(tensors: dict[str, Stored]) -> None:
        name = "model.layers.1.mlp.experts.down_proj"
        tensors[f"{name}_blocks"] = "U8", (*shape, 16), bytes(16 * math.prod(shape))
        tensors[f"{name}_scales"] = "U8", shape, bytes(math.prod(shape))

    coded, _ = write_both(checkpoints(CASE), tmp_path, change)
    with pytest.raises(CheckpointError, match=rf"is of {shape[0]} experts of .*1 to 1024"):
        open_checkpoint(coded)


def test_a_scale_beyond_float16_is_refused_where_codes_are_kept(
    checkpoints: Folders, tmp_path: Path
) -> None:
    def change(tensors: dict[str, Stored]) -> None:
        name = "model.layers.1.mlp.experts.down_proj_scales"
        dtype, shape, data = tensors[name]
        tensors[name] = dtype, shape, bytes([144]) + data[1:]

    coded, _ = write_both(checkpoints(CASE), tmp_path, change)
    with open_checkpoint(coded) as ours:
        source = ours.held["model.layers.1.mlp.experts.0.down_proj.weight"]["mxfp4"]
        assert source is not None
        with pytest.raises(UnsupportedError, match="float16 does not hold"):
            source(0, 2)


@pytest.mark.full
def test_a_bundle_of_packed_experts_computes_nearly_what_their_floats_do(
    checkpoints: Folders, tmp_path: Path
) -> None:
    coded, plain = write_both(checkpoints(CASE), tmp_path)
    kept = compile_model(coded, tmp_path / "kept", prefill_chunk=128)
    exact = compile_model(plain, tmp_path / "exact", quant="f32", prefill_chunk=128)
    with Engine(kept) as ours, Engine(exact) as theirs:
        tokens = list(range(2, 60))
        found, expected = ours.score(tokens), theirs.score(tokens)
    # Activations in 8 bits choose another expert now and then.
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.2 * expected.std()
