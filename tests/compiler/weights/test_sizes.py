"""Readers of every format say how many bytes of a tensor they give out as it is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from tests.compiler.gguf.writing import write_gguf
from tests.compiler.mlc.writing import write_mlc
from tests.compiler.packed.writing import Kind, write_packed

HOW = 300
"""Bytes at most that say how a tensor is taken out of another, behind what is stored."""

CASE = "llama-gqa2-tied-linear"


def as_awq(checkpoint: Path, out: Path) -> Path:
    write_packed(checkpoint, out, Kind("awq"), left=("lm_head", "embed_tokens"))
    return out


def as_mlc(checkpoint: Path, out: Path) -> Path:
    write_mlc(checkpoint, out, "q4f16_1")
    return out


MADE: dict[str, tuple[str, Callable[[Path, Path], Path]]] = {
    "safetensors in shards": ("llama-gqa4-bias-llama3", lambda folder, out: folder),
    "views of fused tensors": ("phi3-gqa2-longrope", lambda folder, out: folder),
    "padded heads": ("llama-d80-yarn", lambda folder, out: folder),
    "GGUF": (
        CASE,
        lambda folder, out: write_gguf(folder, out.with_suffix(".gguf"), kind="Q8_0"),
    ),
    "AWQ": (CASE, as_awq),
    "MLC": (CASE, as_mlc),
}


@pytest.mark.parametrize("what", MADE)
def test_a_tensor_is_as_large_as_what_is_stored_of_it(
    what: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    case, make = MADE[what]
    with open_checkpoint(make(checkpoints(case), tmp_path / "made")) as checkpoint:
        reader = checkpoint.weights
        beside = {
            name: sum(piece.nbytes for piece in reader.stored(name)) - reader.size(name)
            for name in reader.names()
        }
        assert all(0 <= more < HOW for more in beside.values())
        exact = [name for name, more in beside.items() if not more]
        assert len(exact) >= len(beside) / 4
        assert all(reader.size(name) > HOW for name in exact if "proj.weight" in name)
