"""Numbers of bundles and plans beyond 2^32; web/tests/format/large.test.ts has the same ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from edgewise_runtime.devices.common import buffer_sizes
from edgewise_runtime.errors import BundleError, PlanError
from edgewise_runtime.format.manifest import BundleManifest, FileEntry
from edgewise_runtime.format.plan import Plan
from tests.format.cases import golden

FILE = "params/gpu/00000.safetensors"
BEYOND = 1 << 33
PAGES, PAGE = 1 << 16, 1 << 20
"""As many pages as there may be, of a mebibyte for each layer: 2^36 bytes."""


def large_manifest(shift: int = BEYOND) -> dict[str, Any]:
    """The golden manifest with the weights for GPUs ``shift`` bytes further back in their file."""
    manifest: dict[str, Any] = copy.deepcopy(golden("bundle.json"))
    for tensor in manifest["layouts"]["gpu"]["tensors"].values():
        tensor["offset"] += shift
    file = manifest["files"][FILE]
    file["bytes"] += BEYOND
    file["chunks"] = ["0" * 64] * FileEntry.chunk_count(file["bytes"])
    return manifest


def test_a_manifest_keeps_sizes_and_places_beyond_2_32() -> None:
    manifest = BundleManifest.from_json(large_manifest())
    assert manifest.files[FILE].bytes == BEYOND + 102720
    assert len(manifest.files[FILE].chunks) == 257
    assert manifest.layouts["gpu"]["embed.weight"].offset == BEYOND + 2112
    assert BundleManifest.from_json(manifest.to_json()) == manifest


def test_a_tensor_beyond_the_end_of_its_large_file_is_refused() -> None:
    with pytest.raises(BundleError):
        BundleManifest.from_json(large_manifest(BEYOND + (1 << 32)))


def large_plan(offset: int = BEYOND) -> dict[str, Any]:
    """A golden plan with large pages, its table of tokens at ``offset`` in a large buffer."""
    plan: dict[str, Any] = copy.deepcopy(golden("programs/webgpu-f32/plans/decode.json"))
    for buffer in plan["buffers"]:
        if buffer["role"] == "state" and buffer["name"].startswith("kv."):
            buffer["shape"] = ["pages", 2, 4, PAGE // 16]
            buffer["bytes"] = ["mul", "pages", PAGE]
        if buffer["name"] == "embed.weight":
            buffer["shape"] = [BEYOND // 4 + 2560]
            buffer["bytes"] = BEYOND + 10240
    for step in plan["steps"]:
        for binding in step["bindings"]:
            if binding["buffer"] == "embed.weight":
                binding["offset"] = offset
    return plan


def test_a_plan_keeps_sizes_and_places_beyond_2_32() -> None:
    plan = Plan.from_json(large_plan())
    sizes = buffer_sizes({"": plan}, {"pages": PAGES})
    assert sizes["kv.0"] == 1 << 36
    assert sizes["embed.weight"] == BEYOND + 10240
    (place,) = {b.offset for s in plan.steps for b in s.bindings if b.buffer == "embed.weight"}
    assert place == BEYOND
    assert Plan.from_json(plan.to_json()) == plan


def test_a_place_beyond_the_end_of_a_large_buffer_is_refused() -> None:
    with pytest.raises(PlanError):
        Plan.from_json(large_plan(BEYOND + (1 << 32)))
