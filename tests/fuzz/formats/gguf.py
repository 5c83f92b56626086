"""GGUF files: a tiny model's, whole but for its header, and headers of parts nobody would write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.gguf.reader import GgufReader
from tests.compiler.gguf.test_container import build, info, pair, text
from tests.compiler.gguf.tiny import write_tiny
from tests.compiler.gguf.writing import write_gguf
from tests.fuzz.case import Files, Format, WrongAnswerError
from tests.fuzz.mutate import raw, values
from tests.parity.make_checkpoints import write_checkpoint

FILE = "model.gguf"
ROWS = 4
OTHERS = {
    "gemma3": "Q8_0",
    "granite": "Q4_0",
    "olmo2": "Q4_0",
    "phi3": "Q4_0",
    "smollm3": "Q8_0",
    "qwen3moe": "Q4_0",
    "gpt-oss": "MXFP4",
    "granite4-nope": "Q8_0",
    "qwen2moe": "Q4_0",
}
"""Architectures whose metadata or tensors are read otherwise than Llama's, and a type for each."""

_KINDS = tuple(range(14))
"""Types of values; 13 is none."""
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_KEYS = (
    *("general.architecture", "general.alignment", "split.count", "split.no", "llama.block_count"),
    *("llama.embedding_length", "llama.context_length", "tokenizer.ggml.model", "k", "k" * 300),
    *("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "llama.rope.freq_base", ""),
    *("gpt-oss.expert_count", "granite.attention.head_count_kv", "qwen3.pooling_type"),
    *("gemma3.attention.sliding_window_pattern", "gemma3.block_count", "phi3.rope.dimension_count"),
)
_TEXTS = ("llama", "qwen3", "gpt-oss", "qwen2moe", "gemma3", "phi3", "gpt2", "", "é", "x" * 5000)


def _seeds() -> Sequence[Files]:
    with TemporaryDirectory() as place:
        folder = write_checkpoint("llama-gqa2-tied-linear", Path(place))
        paths = [
            write_gguf(folder, Path(place) / f"{kind}.gguf", kind=kind) for kind in ("F16", "Q4_0")
        ]
        for name, kind in OTHERS.items():
            model = write_tiny(name, Path(place) / name)
            paths.append(write_gguf(model, Path(place) / f"{name}.gguf", kind=kind))
        return [{FILE: path.read_bytes()} for path in paths]


def _mutate(rng: Random, files: Files) -> Files:
    if rng.random() < 0.3:
        return {FILE: _made_up(rng)}
    data = files[FILE]
    # Metadata first, then what each tensor is; the rest is numbers.
    return {FILE: raw.changed(rng, data, head=rng.choice((40, 1500, 24_000)))}


def _made_up(rng: Random) -> bytes:
    pairs = tuple(_pair(rng) for _ in range(rng.randrange(6)))
    infos = tuple(_info(rng) for _ in range(rng.randrange(4)))
    counts = None
    if rng.random() < 0.2:
        counts = _number(rng), _number(rng)
    version = rng.choice((2, 3, 3, 3, 3, 4))
    data = bytes(rng.choice((0, 32, 1024, 4096)))
    return build(pairs, infos, data, version=version, counts=counts)


def _number(rng: Random) -> int:
    return rng.choice(values.INTS) % (1 << 64)


def _pair(rng: Random) -> bytes:
    kind, key = rng.choice(_KINDS), rng.choice(_KEYS)
    if kind == 8:
        return pair(key, kind, text(rng.choice(_TEXTS)))
    if kind != 9:
        return pair(key, kind, _number(rng).to_bytes(8, "little")[: _SIZES.get(kind, 4)])
    count, item = rng.choice((0, 1, 3, 1000, _number(rng))), rng.choice(_KINDS)
    held = rng.randbytes(min(count, 1000) * _SIZES.get(item, 4))
    return pair(key, kind, item.to_bytes(4, "little") + count.to_bytes(8, "little") + held)


def _info(rng: Random) -> bytes:
    name = rng.choice(("w", "token_embd.weight", "blk.0.attn_q.weight", "x" * 64, ""))
    dims = tuple(_number(rng) if rng.random() < 0.3 else 32 for _ in range(rng.randrange(5)))
    return info(name, dims, rng.randrange(40), rng.choice((0, 0, 32, _number(rng))))


def _use(folder: Path, files: Files) -> None:
    path = folder / FILE
    with GgufReader(path) as reader:
        for name in reader.names():
            shape = reader.shape(name)
            rows = min(ROWS, shape[0])
            if reader.read(name, 0, rows).shape != (rows, *shape[1:]):
                raise WrongAnswerError(f"{name} of {shape} is read as another shape")
    with open_checkpoint(path) as checkpoint:
        weights = checkpoint.weights
        for name in weights.names():
            shape = weights.shape(name)
            rows = min(ROWS, shape[0])
            if weights.read(name, 0, rows).shape != (rows, *shape[1:]):
                raise WrongAnswerError(f"{name} of {shape} is read as another shape")


GGUF = Format(_seeds, _mutate, _use)
