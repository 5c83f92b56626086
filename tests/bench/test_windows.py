"""The benchmark of windows asks both models the same, with pages for no more than they need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checkpoint import SHAPES, write_checkpoint
from edgewise_compiler.compile import compile_model
from windows import measure

pytestmark = pytest.mark.landing


def test_a_window_needs_fewer_pages(tmp_path: Path) -> None:
    tiny = replace(SHAPES["tiny"], family="mistral", context=512)
    bundles = {}
    for window in (32, None):
        name = f"window-{window}"
        write_checkpoint(tmp_path / name, replace(tiny, name=name, window=window))
        bundles[name] = compile_model(
            tmp_path / name, tmp_path / f"{name}-q4", quant="q4", max_batch=1, prefill_chunk=32
        )
    found = measure(bundles, tokens=400, rounds=1)
    assert list(found) == list(bundles)
    assert all(one.prefill > 0 and one.decode > 0 for one in found.values())
    assert found["window-32"].pages == 7
    assert found["window-None"].pages == 29
