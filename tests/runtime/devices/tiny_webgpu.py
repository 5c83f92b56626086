"""A tiny WebGPU program: that of `tests.runtime.sample` with the shaders of `tiny_shaders`.

Plans: ``prefill`` scales n rows and stamps the pages of b sequences; ``decode``, a loop, advances
both sequences; ``visit`` leaves a mark for every workgroup of a grid over n, r and t.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.runtime import sample
from tests.runtime.sample import STEP, TABLE, Json, X, arg

ID = "webgpu-f32"
HOME = f"programs/{ID}"
BURST = 8

SYMBOLS: list[Json] = [
    {"name": "pages", "kind": "load", "min": 1, "max": 1 << 22},
    {"name": "n", "kind": "step", "min": 1, "max": 4},
    {"name": "b", "kind": "step", "min": 1, "max": 2},
    {"name": "r", "kind": "step", "min": 1, "max": 2},
    {"name": "t", "kind": "step", "min": 1, "max": 64},
]

BUFFERS: dict[str, Json] = {
    **sample.BUFFERS,
    "seen": {"role": "output", "dtype": "float32", "shape": [8, 4], "bytes": 128},
    "logits": {"role": "output", "dtype": "float32", "shape": [2, 1 << 18], "bytes": 1 << 21},
    "scratch.0": {"role": "scratch", "dtype": "uint8", "shape": [256], "bytes": 256},
}

KERNELS: dict[str, Json] = {
    "scale": {
        "symbol": "scale_kernel",
        "args": [
            X,
            arg("w", "float32", [8], "read"),
            arg("marks", "float32", [4], "write"),
            STEP,
        ],
    },
    "stamp": {
        "symbol": "stamp_kernel",
        "args": [
            arg("marks", "float32", [4], "read"),
            arg("kv", "float32", ["pages", 2, 1, 32], "readwrite"),
            TABLE | {"access": "read"},
        ],
    },
    "advance": {"symbol": "advance_kernel", "args": [X, TABLE, STEP | {"access": "readwrite"}]},
    "visit": {
        "symbol": "visit_kernel",
        "args": [arg("seen", "float32", [8, 4], "readwrite"), STEP],
    },
}


def step(kernel: str, grid: list[object], *buffers: str) -> Json:
    pairs = list(zip(KERNELS[kernel]["args"], buffers, strict=True))
    return {
        "kernel": kernel,
        "bindings": [{"buffer": name, "offset": 0} for name in buffers],
        "grid": grid,
        "reads": [name for a, name in pairs if a["access"] != "write"],
        "writes": [name for a, name in pairs if a["access"] != "read"],
        "label": f"layers.0.{kernel}",
    }


def plan(name: str, steps: list[Json], *others: str) -> Json:
    """A plan over the buffers its steps bind, and `others`."""
    bound = dict.fromkeys(b["buffer"] for item in steps for b in item["bindings"])
    made: Json = {
        "version": 4,
        "name": name,
        "target": "webgpu",
        "max_burst": BURST if name == "decode" else 1,
        "symbols": SYMBOLS,
        "buffers": [{"name": key, **BUFFERS[key]} for key in [*bound, *others]],
        "kernels": {item["kernel"]: KERNELS[item["kernel"]] for item in steps},
        "steps": steps,
    }
    copied: Json = json.loads(json.dumps(made))
    return copied


def plans() -> dict[str, Json]:
    """The program's plans in their JSON form, fresh."""
    marks = "scratch.0"
    tall = ["mul", "n", "r"]
    made = [
        plan(
            "prefill",
            [
                step("scale", ["n", 1, 1], "x", "w", marks, "step"),
                step("stamp", ["b", 1, 1], marks, "kv.0", "table"),
            ],
        ),
        plan("decode", [step("advance", [1, 1, 1], "x", "table", "step")]),
        plan("visit", [step("visit", [tall, ["ceildiv", "t", 16], 1], "seen", "step")], "logits"),
    ]
    return {item["name"]: item for item in made}


def program(features: list[str]) -> Json:
    return {
        "id": ID,
        "target": "webgpu",
        "arithmetic": "f32",
        "layout": "cpu",
        "needs": {"arch": None, "features": features},
        "library": None,
        "plans": {name: f"{HOME}/plans/{name}.json" for name in plans()},
        "entries": {
            "prefill": [{"when": {"n": [1, 4]}, "plan": "prefill"}],
            "decode": [{"when": {"b": [1, 2]}, "plan": "decode"}],
        },
        "state_dtype": "float32",
        "page_bytes": [256],
        "decode_agrees": False,
        "shaders": {name: f"programs/webgpu/{name}.wgsl" for name in KERNELS},
    }


def write_bundle(folder: Path, shaders: Mapping[str, Json]) -> Json:
    """A whole bundle with a CPU program (its library a stand-in) and the WebGPU program."""
    sample.write_bundle(folder)
    (folder / HOME / "plans").mkdir(parents=True)
    for name, value in plans().items():
        (folder / HOME / f"plans/{name}.json").write_text(json.dumps(value))
    (folder / "programs/webgpu").mkdir()
    for name in KERNELS:
        (folder / f"programs/webgpu/{name}.wgsl").write_text(shaders[name]["source"])
    manifest = sample.manifest()
    # So that `logits` are more than a run brings along unasked.
    manifest["model"]["vocab"] = 1 << 18
    manifest["programs"].append(program([]))
    manifest["files"] = sample.list_files(folder)
    sample.write_manifest(folder, manifest)
    return manifest
