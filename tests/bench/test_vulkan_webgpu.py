"""Programs by Vulkan beside the same by WebGPU: every figure of a pair is there."""

from __future__ import annotations

import pytest

from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from vulkan_webgpu import TARGETS, markdown, measure, pairs_of


@pytest.mark.full
def test_a_pair_is_measured_in_turn(bundles: BundleFactory) -> None:
    bundle = Bundle.open(bundles("qwen3-gqa2-tied", "q4", targets=TARGETS))
    assert {"f32", "f32-serial", "f16-subgroups"} <= {*pairs_of(bundle)}
    found = measure(bundle, "f32", rounds=2, tokens=8)
    for target in TARGETS:
        assert {name: len(values) for name, values in found["samples_s"][target].items()} == {
            "prefill": 2,
            "decode": 2,
            "decode k=1": 2,
            "submit": 8,
        }
        assert all(
            0 < found["least_s"][target][name] <= taken
            for name, taken in found["median_s"][target].items()
        )
    table = markdown({"pairs": [found]})
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        "`vulkan-f32`",
        "`webgpu-f32`",
    ]
