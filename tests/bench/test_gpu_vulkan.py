"""The GPU bench on Vulkan, here lavapipe: the generation loop of packed programs is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkpoint import SHAPES
from gpu import run
from gpu.pack import archive
from gpu.skeleton import compile_skeleton
from gpu.speed import Effort

EFFORT = Effort(rounds=1, sample_s=0.01, prefills=(32,), batches=(1, 2), histories=(40,))


@pytest.mark.full
def test_a_run_measures_the_generation_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "packed"
    compile_skeleton(SHAPES["tiny"], "q4", tmp_path / "tiny", 512, target="vulkan", max_batch=2)
    archive(tmp_path / "tiny", packed / "programs/vulkan/tiny.zip")
    monkeypatch.setitem(run.EFFORTS, "vulkan", (EFFORT, EFFORT))
    line = f"run.py {packed} --device vulkan --only speed --shapes tiny --programs vulkan-f32"
    monkeypatch.setattr("sys.argv", line.split())
    with pytest.raises(SystemExit) as ended:
        run.main()
    result = json.loads((packed / "results/results.json").read_text())
    assert (result["problems"], ended.value.code) == ([], 0)
    [found] = result["speed"]
    assert min(rate["median"] for rate in found["speed"].values()) > 0
    assert "| decode x2 k=8 after 40 |" in (packed / "results/results.md").read_text()
