"""Benchmark checkpoints are what a reader of Hugging Face folders, or of GGUF, expects."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

from checkpoint import SHAPES, SPECIAL, Shape, config, tensors, vocabulary, write_checkpoint
from edgewise_compiler.models.base import LinearSpec, RouterSpec, VectorSpec
from edgewise_compiler.models.families import find_family
from peers.gguf_writer import write_gguf

TINY = SHAPES["tiny"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(path, TINY)
    return path


@pytest.mark.parametrize("size", [TINY.vocab, 151936])
def test_a_vocabulary_has_distinct_tokens_and_a_merge_for_each_that_is_no_byte(size: int) -> None:
    tokens, merges = vocabulary(size)
    assert len(tokens) == len(set(tokens)) == size
    assert tokens[-3:] == list(SPECIAL)
    assert [a + b for a, b in merges] == tokens[256:-3]


def test_weights_have_the_announced_shapes_and_spread(folder: Path) -> None:
    with safe_open(str(folder / "model.safetensors"), "numpy") as weights:
        found = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118
    assert {name: array.shape for name, array in found.items()} == dict(tensors(TINY))
    assert {array.dtype for array in found.values()} == {np.dtype(np.float16)}
    spread = found["model.layers.1.mlp.down_proj.weight"].astype(np.float64).std()
    assert spread == pytest.approx(0.02, rel=0.02)


def test_the_tokenizer_gives_any_text_back(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "Any text, even ünïcode ✓ and\nlines"
    assert tokenizer.get_vocab_size() == TINY.vocab
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_same_seed_writes_the_same_weights(folder: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, TINY)
    again = (tmp_path / "model.safetensors").read_bytes()
    assert again == (folder / "model.safetensors").read_bytes()


def test_gguf_lists_every_tensor_and_ends_with_the_last_one(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(folder, path)
    data = path.read_bytes()
    magic, version, count, pairs = struct.unpack_from("<4sIQQ", data)
    assert (magic, version, count) == (b"GGUF", 3, len(list(tensors(TINY))))
    assert pairs == 22
    with safe_open(str(folder / "model.safetensors"), "numpy") as weights:
        norm = weights.get_tensor("model.norm.weight").astype(np.float32).tobytes()
        embedding = weights.get_tensor("model.embed_tokens.weight").tobytes()
    assert data.endswith(norm)
    assert data.count(embedding) == 1
    assert len(data) % 32 == 0
    assert json.loads((folder / "config.json").read_text())["vocab_size"] == TINY.vocab


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_a_family_finds_every_tensor_of_a_shape_and_no_other(shape: Shape) -> None:
    family = find_family(config(shape))
    wanted: dict[str, tuple[int, ...]] = {}
    for spec in family.params(family.read_config(config(shape))):
        if isinstance(spec, VectorSpec):
            wanted[spec.source] = (spec.size,)
        elif isinstance(spec, LinearSpec | RouterSpec):
            wanted |= {s: (rows, spec.k) for s, rows in zip(spec.sources, spec.rows, strict=True)}
    assert wanted == dict(tensors(shape))


@pytest.mark.parametrize(
    ("name", "millions"),
    [("small", 41.6), ("smollm2-135m", 134.5), ("qwen3-0.6b", 596.0), ("llama-3.1-8b", 8030.3)],
)
def test_shapes_have_as_many_parameters_as_their_names_say(name: str, millions: float) -> None:
    count = sum(math.prod(size) for _, size in tensors(SHAPES[name]))
    assert round(count / 1e6, 1) == millions
