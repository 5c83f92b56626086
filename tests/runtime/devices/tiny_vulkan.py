"""A tiny Vulkan program: the plans of `tests.runtime.devices.tiny_webgpu` with SPIR-V."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from edgewise_runtime.devices.vulkan.probe import assembled
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu
from tests.runtime.devices.tiny_webgpu import KERNELS
from tests.runtime.sample import Json

ID = "vulkan-f32"
HOME = f"programs/{ID}"
MODULES = "programs/vulkan"
ENTRY = "main"

NOTHING = assembled(
    (
        (17, 1),
        (14, 0, 1),
        (15, 5, 1, int.from_bytes(b"main", "little"), 0),
        (16, 1, 17, 1, 1, 1),
        (19, 2),
        (33, 3, 2),
        (54, 2, 1, 0, 3),
        (248, 4),
        (253,),
        (56,),
    )
)
"""A kernel that binds nothing and does nothing."""


def plans() -> dict[str, Json]:
    """The program's plans in their JSON form, fresh."""
    found = {name: plan | {"target": "vulkan"} for name, plan in tiny_webgpu.plans().items()}
    for plan in found.values():
        for kernel in plan["kernels"].values():
            kernel["symbol"] = ENTRY
    return found


def program(features: list[str]) -> Json:
    return tiny_webgpu.program(features) | {
        "id": ID,
        "target": "vulkan",
        "plans": {name: f"{HOME}/plans/{name}.json" for name in plans()},
        "shaders": {name: f"{MODULES}/{name}.spv" for name in KERNELS},
    }


def write_bundle(folder: Path, modules: Mapping[str, bytes]) -> Json:
    """A whole bundle with a CPU program (its library a stand-in) and the Vulkan program."""
    sample.write_bundle(folder)
    (folder / HOME / "plans").mkdir(parents=True)
    for name, value in plans().items():
        (folder / HOME / f"plans/{name}.json").write_text(json.dumps(value))
    (folder / MODULES).mkdir()
    for name in KERNELS:
        (folder / MODULES / f"{name}.spv").write_bytes(modules[name])
    manifest = sample.manifest()
    # So that `logits` are more than a run brings along unasked.
    manifest["model"]["vocab"] = 1 << 18
    manifest["programs"].append(program([]))
    manifest["files"] = sample.list_files(folder)
    sample.write_manifest(folder, manifest)
    return manifest
