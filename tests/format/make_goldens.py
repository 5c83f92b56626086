"""Writes goldens/, a part of the compiled bundle of a tiny checkpoint that readers are tested with.

``python tests/format/make_goldens.py``: the manifest with some of its programs, each with one
plan for an operation, the plans of one of them as they were compiled, and in facts.json what the
Python runtime reads out of these. Nothing has to stay as the compiler is: they are valid as long as
the format's version stays.

In mixtures/ are manifests of models with experts, without their programs.

Beside them, what lies where in step buffers: abi.json has the numbers, step-buffers.json the shapes
for some bounds.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from edgewise_runtime.devices.common import buffer_sizes
from edgewise_runtime.format import abi
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import BundleManifest
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.seal import seal, unseal
from edgewise_runtime.kv.keys import page_key, producer_of, root_key
from tests.runtime import sample

FOLDER = Path(__file__).parent
GOLDENS = FOLDER / "goldens"
PROGRAM = "webgpu-f32"
PROGRAMS = {"cpu-w4a8-portable", "webgpu-f16-subgroups", "webgpu-f16", PROGRAM, "webgpu-a8"}
PAGES = (1, 40)
WRITTEN: list[Any] = [
    None,
    [True, False, 0, -7, 2**53 - 1],
    {"b": {}, "a": [], "": [[]], "\ue000": 1, "\U0001f600": 2},
    'plain " \\ / \b\f\n\r\t\x00\x1f\x7f\x80 é ñ 東京 \u2028 \U0001f680',
]
MIXTURES = ("gptoss-window", "qwen2moe-shared")
"""Between them experts with biases and without, one for every row, sinks and windows."""

BOUNDS = {"rows": 128, "batch": 8, "pages": 16, "hidden": 64, "vocab": 321}


def plan_facts(plan: Plan) -> dict[str, Any]:
    """What the readers of every language must agree on: sizes, and each step's reach."""
    ranges = plan.ranges
    return {
        "sizes": [[pages, buffer_sizes({"": plan}, {"pages": pages})] for pages in PAGES],
        "kernels": {
            name: [ex.bounds(arg.bytes, ranges) for arg in kernel.args]
            for name, kernel in plan.kernels.items()
        },
        "grids": [[ex.bounds(extent, ranges) for extent in step.grid] for step in plan.steps],
    }


def facts(plans: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """`plan_facts` of plans in their JSON form, by the file that holds them."""
    return {file: plan_facts(Plan.from_json(value)) for file, value in plans.items()}


def golden_plans() -> dict[str, dict[str, Any]]:
    """Every plan among the goldens by its path, unread."""
    found = sorted(GOLDENS.rglob("plans/*.json"))
    return {path.relative_to(GOLDENS).as_posix(): json.loads(path.read_bytes()) for path in found}


def prune(manifest: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest with `PROGRAMS` alone, and of each operation the plan for all of its rows."""
    programs = [item for item in manifest["programs"] if item["id"] in PROGRAMS]
    for program in programs:
        program.pop("signature", None)
        plans = {k: v for k, v in program["plans"].items() if k in program["entries"]}
        program["plans"] = plans
        program["entries"] = {
            operation: [entry for entry in entries if entry["plan"] in plans]
            for operation, entries in program["entries"].items()
        }
        used = {k for v in plans.values() for k in json.loads((folder / v).read_bytes())["kernels"]}
        program["shaders"] = {k: v for k, v in program["shaders"].items() if k in used}
    named = {
        path
        for program in programs
        for path in (*program["plans"].values(), *program["shaders"].values(), program["library"])
    }
    named |= {
        t["file"] for layout in manifest["layouts"].values() for t in layout["tensors"].values()
    }
    files = {k: v for k, v in manifest["files"].items() if k in named or "/" not in k}
    created_by = {k: v for k, v in manifest["created_by"].items() if k != "user"}
    return manifest | {"programs": programs, "files": files, "created_by": created_by}


def write_abi() -> None:
    """Write abi.json and step-buffers.json."""
    numbers = {name: value for name, value in vars(abi).items() if name.isupper()}
    (FOLDER / "abi.json").write_text(json.dumps(numbers, indent=1) + "\n")
    shapes = {"bounds": BOUNDS, "buffers": abi.shared_buffers(**BOUNDS)}
    (FOLDER / "step-buffers.json").write_text(json.dumps(shapes, indent=1) + "\n")


def keys() -> dict[str, Any]:
    """What pages of KV memory are called: of the goldens' programs, and after another."""
    manifest = BundleManifest.from_json(unseal((GOLDENS / "bundle.json").read_bytes()))
    bundle = cast("Bundle", SimpleNamespace(manifest=manifest))
    key = bytes(range(32))
    pages = []
    for tokens in ([], [0], [1, 2, 3], [321, 65_536, 2**31 - 1], list(range(16))):
        after = page_key(key, tokens)
        pages.append({"before": key.hex(), "tokens": tokens, "key": after.hex()})
        key = after
    return {
        "programs": {
            program.id: {
                "root": root_key(bundle, program).hex(),
                "producer": producer_of(bundle, program),
            }
            for program in manifest.programs
        },
        "pages": pages,
        "json": [{"value": one, "text": json.dumps(one, sort_keys=True)} for one in WRITTEN],
    }


def write_mixtures() -> None:
    """Write mixtures/: what manifests say of experts is said of their tensors."""
    from edgewise_compiler.compile import compile_model
    from tests.parity.make_checkpoints import write_checkpoint

    for case in MIXTURES:
        with tempfile.TemporaryDirectory() as temporary:
            checkpoint = write_checkpoint(case, Path(temporary))
            bundle = compile_model(
                checkpoint, Path(temporary) / "bundle", targets=("cpu", "webgpu"), quant="q4"
            )
            manifest = prune(unseal((bundle / "bundle.json").read_bytes()), bundle)
        kept = {path: file for path, file in manifest["files"].items() if path.startswith("params")}
        path = GOLDENS / f"mixtures/{case}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(manifest | {"programs": [], "files": kept}, indent=1) + "\n")


def main() -> None:
    # Only who writes goldens waits for the compiler to be imported.
    from edgewise_compiler.compile import compile_model
    from tests.parity.make_checkpoints import write_checkpoint

    write_abi()
    shutil.rmtree(GOLDENS, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = write_checkpoint("llama-mha", Path(temporary))
        bundle = compile_model(
            checkpoint,
            Path(temporary) / "bundle",
            targets=("cpu", "webgpu"),
            quant="q4",
            cpu="portable",
            prefill_chunk=128,
        )
        manifest = prune(unseal((bundle / "bundle.json").read_bytes()), bundle)
        program = next(item for item in manifest["programs"] if item["id"] == PROGRAM)
        for path in program["plans"].values():
            (GOLDENS / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(bundle / path, GOLDENS / path)
    (GOLDENS / "bundle.json").write_bytes(seal(manifest))
    for name, plan in sample.plans().items():
        path = GOLDENS / f"sample/plans/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(plan, separators=(",", ":")) + "\n")
    write_mixtures()
    (FOLDER / "page-keys.json").write_text(json.dumps(keys(), indent=1) + "\n")
    (GOLDENS / "facts.json").write_text(
        json.dumps(facts(golden_plans()), separators=(",", ":")) + "\n"
    )


if __name__ == "__main__":
    main()
