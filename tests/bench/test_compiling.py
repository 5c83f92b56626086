"""Compiling a large model takes as much memory as a small one, and the benchmark sees it."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

from checkpoint import SHAPES, Shape, tensors
from compiling import Peak, watch
from edgewise_compiler.weights.safetensors import SafetensorsReader
from sparse import INDEX, ROWS, write_sparse

TINY = SHAPES["tiny"]


def test_a_sparse_checkpoint_has_every_tensor_in_its_shards(tmp_path: Path) -> None:
    stored = write_sparse(tmp_path, TINY, shard=300 << 10)
    index = json.loads((tmp_path / INDEX).read_text())
    assert len(set(index["weight_map"].values())) > 2
    with SafetensorsReader(tmp_path) as reader:
        assert {name: reader.shape(name) for name in reader.names()} == dict(tensors(TINY))
        assert sum(map(reader.size, reader.names())) == stored == index["metadata"]["total_size"]
        weight = reader.read("model.layers.1.mlp.down_proj.weight")
        assert np.abs(weight[:ROWS]).max() > 0
        assert not weight[ROWS:].any()
        assert (reader.read("model.norm.weight") == 1).all()


def test_a_large_checkpoint_takes_hardly_any_disk(tmp_path: Path) -> None:
    large = replace(TINY, hidden=2048, intermediate=8192, layers=16)
    stored = write_sparse(tmp_path, large)
    taken = sum(file.stat().st_blocks * 512 for file in tmp_path.glob("*.safetensors"))
    assert stored > 30 * taken
    assert stored == sum(2 * prod(size) for _, size in tensors(large))


HOLDER = """
import subprocess, sys, time
held = bytearray(40 << 20)
held[::4096] = b"1" * (len(held) >> 12)  # a byte of each page: it is there then
if sys.argv[1:]:
    subprocess.run([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], check=True)
time.sleep(0.5)
print("done")
"""


def test_the_memory_of_all_processes_is_seen() -> None:
    alone = watch([sys.executable, "-c", HOLDER])
    assert alone.said == ["done"]
    assert 40 << 20 < alone.anonymous <= alone.together < 80 << 20
    # The words are the compiler's, so that the second is taken for it.
    both = watch([sys.executable, "-c", HOLDER, HOLDER, "", "-m", "edgewise_compiler.worker"])
    assert both.together > 80 << 20
    assert both.compiler > 40 << 20


MID = Shape(
    "mid", 2048, 4, 32, 8, 64, 8192, 32768, context=4096, family="llama", eps=1e-5, tied=False
)
"""A layer of it has 61 million weights, its head 67."""


def peak_of(layers: int, folder: Path) -> tuple[Peak, int]:
    model, out = folder / f"mid-{layers}", folder / f"bundle-{layers}"
    stored = write_sparse(model, replace(MID, layers=layers))
    command = [sys.executable, "-m", "edgewise.cli", "compile", str(model), "-o", str(out)]
    command += ["--quant", "q4", "--target", "cpu,webgpu"]
    peak = watch([*command, "--max-batch", "8", "--prefill-chunk", "128"])
    shutil.rmtree(out)
    return peak, stored


@pytest.mark.full
def test_compiling_three_times_the_layers_takes_hardly_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the 970 MB of weights that come to it an eighth would be seen. Some 10 MB for each layer
    are LLVM's, while it compiles the functions that call a plan's kernels in order."""
    # Both generate all of their kernels.
    monkeypatch.delenv("EDGEWISE_KEPT_KERNELS")
    (small, few), (large, many) = peak_of(4, tmp_path), peak_of(12, tmp_path)
    assert many - few > 900 << 20
    assert large.compiler < small.compiler + (many - few) // 8
    assert large.together < small.together + (many - few) // 8
    for phase in ("Checking weights", "Reading", "Packing weights", "Computing the proof"):
        assert any(line.startswith(f"{phase}: ") for line in large.said)
