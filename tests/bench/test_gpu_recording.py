"""Recorded kernel calls say the same again, and a wrong answer is told from a right one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.wgpu.adapter import choose_adapter
from edgewise_runtime.devices.wgpu.gpu import Gpu
from gpu.recording import MOST_BYTES, MOST_CALLS, Call, load_call, save_call
from gpu.replay import difference, needed_features, replay

SCALE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> count: array<i32>;
struct Last { x: u32 }
@group(0) @binding(3) var<uniform> last: Last;
@compute @workgroup_size(4, 1, 1)
fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x > last.x) { return; }
  y[id.x] = 2.0 * x[id.x];
  count[id.x] = count[id.x] + 1;
}
"""


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return Gpu(choose_adapter(None))


@pytest.fixture
def call() -> Call:
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    y, count = np.zeros(8, np.float32), np.arange(8, dtype=np.int32)
    return Call("scale_8", SCALE, "scale", (2, 1), (x, y, count), {1: 2 * x, 2: count + 1})


def test_a_call_reads_back_as_it_was_written(call: Call, tmp_path: Path) -> None:
    path = save_call(tmp_path, call)
    assert path is not None
    again = load_call(path)
    assert replace(again, before=(), after={}) == replace(call, before=(), after={})
    for found, expected in zip(again.before, call.before, strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    assert again.after.keys() == call.after.keys()
    assert all(np.array_equal(again.after[i], call.after[i]) for i in call.after)


def test_a_call_is_kept_once_and_a_kernel_a_few_times(call: Call, tmp_path: Path) -> None:
    assert save_call(tmp_path, call) is not None
    assert save_call(tmp_path, call) is None
    grids = [replace(call, grid=(i, 1)) for i in range(3, 3 + MOST_CALLS)]
    assert [save_call(tmp_path, other) is not None for other in grids] == [
        *[True] * (MOST_CALLS - 1),
        False,
    ]


def test_a_large_call_is_not_kept(call: Call, tmp_path: Path) -> None:
    large = replace(call, before=(np.zeros(MOST_BYTES // 4 + 1, np.float32),))
    assert save_call(tmp_path, large) is None


def test_the_device_that_was_recorded_passes(gpu: Gpu, call: Call) -> None:
    outcome = replay(gpu, call)
    assert outcome.passed, outcome
    assert outcome.error == 0


@pytest.mark.parametrize("argument", [1, 2])
def test_another_answer_fails(gpu: Gpu, call: Call, argument: int) -> None:
    wrong = call.after[argument].copy()
    wrong[3] += 1
    outcome = replay(gpu, replace(call, after={**call.after, argument: wrong}))
    assert not outcome.passed
    assert outcome.error > 0


def test_a_shader_that_a_device_refuses_is_a_failure_with_its_words(gpu: Gpu, call: Call) -> None:
    outcome = replay(gpu, replace(call, source="fn"))
    assert not outcome.passed
    assert "Error" in outcome.failure


def test_differences_are_relative_to_what_was_written() -> None:
    before = np.full(4, 1e9, np.float32)
    expected = np.array([1, -1, 1e9, 1e9], np.float32)
    assert difference(before, expected, expected) == 0
    near = np.array([1.25, -1, 1e9, 1e9], np.float32)
    assert difference(before, expected, near) == 0.25
    stray = np.array([1, -1, 0, 1e9], np.float32)
    assert difference(before, expected, stray) == 1e9


def test_infinities_belong_where_they_were_recorded() -> None:
    before = np.zeros(3, np.float32)
    expected = np.array([1, np.inf, np.nan], np.float32)
    assert difference(before, expected, expected.copy()) == 0
    assert difference(before, expected, np.array([1, 2, np.nan], np.float32)) == np.inf


def test_a_shader_names_the_features_it_needs() -> None:
    assert needed_features("enable f16;\nfn f() {}") == {"shader-f16"}
    assert needed_features("enable subgroups;\nenable f16;\n") == {"shader-f16", "subgroups"}
    assert needed_features(SCALE) == set()
