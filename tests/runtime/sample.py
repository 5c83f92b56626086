"""A tiny program and bundle that every test of the formats and of the CPU device begins with.

The kernels are those of `devices/tiny_kernels.py`; tests of the formats alone get a stand-in file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from edgewise_runtime.format.seal import seal, unseal

Json = dict[str, Any]

MAX_PAGES = 1 << 22

SYMBOLS: list[Json] = [
    {"name": "pages", "kind": "load", "min": 1, "max": MAX_PAGES},
    {"name": "n", "kind": "step", "min": 1, "max": 4},
    {"name": "b", "kind": "step", "min": 1, "max": 2},
]

BUFFERS: dict[str, Json] = {
    "x": {"role": "output", "dtype": "float32", "shape": [4, 8], "bytes": 128},
    "w": {"role": "param", "dtype": "float32", "shape": [8], "bytes": 32},
    "kv.0": {
        "role": "state",
        "dtype": "float32",
        "shape": ["pages", 2, 1, 32],
        "bytes": ["mul", "pages", 256],
    },
    "table": {"role": "input", "dtype": "int32", "shape": [2, 12], "bytes": 96},
    "step": {"role": "input", "dtype": "int32", "shape": [8], "bytes": 32},
}

WEIGHT = np.array([1, 2, 3, 4, 5, 6, 7, 8], np.float32)


def arg(name: str, dtype: str, shape: list[Any], access: str) -> Json:
    return {"name": name, "dtype": dtype, "shape": shape, "access": access}


X = arg("x", "float32", [4, 8], "readwrite")
TABLE = arg("table", "int32", [2, 12], "readwrite")
STEP = arg("step", "int32", [8], "read")

KERNELS: dict[str, Json] = {
    "scale": {
        "symbol": "scale",
        "args": [X, arg("w", "float32", [8], "read"), arg("marks", "uint8", [256], "write")],
        "cost": {"bytes": ["add", ["mul", "n", 64], 32], "flops": ["mul", "n", 8]},
    },
    "stamp": {
        "symbol": "stamp",
        "args": [
            arg("marks", "uint8", [256], "read"),
            arg("kv", "float32", ["pages", 2, 1, 32], "readwrite"),
            arg("table", "int32", [2, 12], "read"),
        ],
        "cost": {"bytes": ["mul", "b", ["add", "kv", 4]], "flops": 8},
    },
    "advance": {
        "symbol": "advance",
        "args": [X, TABLE, STEP, arg("wide", "uint8", [512], "write")],
    },
    "spin": {"symbol": "spin", "args": [X, STEP]},
}


def step(kernel: str, *buffers: str, offsets: tuple[int, ...] = ()) -> Json:
    """A step that binds the kernel's arguments to these buffers."""
    args = KERNELS[kernel]["args"]
    pairs = list(zip(args, buffers, strict=True))
    starts = offsets or (0,) * len(buffers)
    return {
        "kernel": kernel,
        "bindings": [{"buffer": b, "offset": o} for b, o in zip(buffers, starts, strict=True)],
        "grid": [1, 1, 1],
        "reads": [b for a, b in pairs if a["access"] != "write"],
        "writes": [b for a, b in pairs if a["access"] != "read"],
        "label": f"layers.0.{kernel}",
    }


def scratch(size: int) -> Json:
    """Scratch of so many bytes."""
    raw = {"role": "scratch", "dtype": "uint8", "shape": [size], "bytes": size}
    return {"name": "scratch.0", **raw}


def make_plan(name: str, buffers: list[str], shared: int, steps: list[Json]) -> Json:
    """A plan over these buffers and so many bytes of scratch."""
    used = {item["kernel"] for item in steps}
    listed = [{"name": key, **BUFFERS[key]} for key in buffers]
    if shared:
        listed.append(scratch(shared))
    plan: Json = {
        "version": 4,
        "name": name,
        "target": "cpu",
        "max_burst": 1 if name == "prefill" else 8,
        "symbols": SYMBOLS,
        "buffers": listed,
        "kernels": {key: value for key, value in KERNELS.items() if key in used},
        "steps": steps,
        "host": f"plan_{name}",
    }
    # Nothing in it is shared with the tables above or with another plan.
    copied: Json = json.loads(json.dumps(plan))
    return copied


def plans() -> dict[str, Json]:
    """The program's plans in their JSON form, fresh."""
    return {
        "prefill": make_plan(
            "prefill",
            ["x", "w", "kv.0", "table"],
            256,
            [step("scale", "x", "w", "scratch.0"), step("stamp", "scratch.0", "kv.0", "table")],
        ),
        "decode": make_plan(
            "decode",
            ["x", "table", "step"],
            512,
            [step("advance", "x", "table", "step", "scratch.0")],
        ),
        "spin": make_plan("spin", ["x", "step"], 0, [step("spin", "x", "step")]),
    }


def program(name: str, features: list[str], *, arithmetic: str = "f32") -> Json:
    home = f"programs/{name}"
    return {
        "id": name,
        "target": "cpu",
        "arithmetic": arithmetic,
        "layout": "cpu",
        "needs": {"arch": None, "features": features},
        "library": f"{home}/kernels.so",
        "plans": {key: f"{home}/plans/{key}.json" for key in plans()},
        "entries": {
            "prefill": [{"when": {"n": [1, 4]}, "plan": "prefill"}],
            "decode": [{"when": {"b": [1, 2]}, "plan": "decode"}],
        },
        "state_dtype": "float32",
        "page_bytes": [256],
        "decode_agrees": False,
        "shaders": {},
    }


def manifest() -> Json:
    """``bundle.json`` without its files, fresh."""
    return {
        "version": 4,
        "name": "tiny",
        "model": {
            "family": "llama",
            "hidden": 8,
            "layers": 1,
            "heads": 1,
            "kv_heads": 1,
            "head_dim": 2,
            "intermediate": 16,
            "vocab": 32,
            "context": 64,
            "max_batch": 2,
            "prefill_chunk": 4,
            "bos": None,
            "eos": [2],
            "quant": "f32",
        },
        "weights_id": "ab" * 32,
        "created_by": {"edgewise": "0.1.0", "tvm": "0.27.0"},
        "state_groups": [
            {
                "kind": "paged",
                "layers": [0],
                "window": None,
                "page_tokens": 16,
                "kv_heads": 1,
                "head_dim": 2,
                "buffers": ["kv.0"],
            }
        ],
        "layouts": {
            "cpu": {
                "tensors": {
                    "w": {
                        "file": "params/cpu/00000.safetensors",
                        "dtype": "float32",
                        "shape": [8],
                        "offset": 64,
                        "bytes": 32,
                    }
                }
            }
        },
        "programs": [program("cpu-f32-portable", [])],
        "files": {},
    }


def write_files(folder: Path, library: bytes = b"stand-in for machine code") -> None:
    """The files of the bundle but ``bundle.json``."""
    home = folder / "programs/cpu-f32-portable"
    (home / "plans").mkdir(parents=True)
    (folder / "params/cpu").mkdir(parents=True)
    (home / "kernels.so").write_bytes(library)
    for name, plan in plans().items():
        (home / f"plans/{name}.json").write_text(json.dumps(plan))
    params = bytes(64) + WEIGHT.tobytes() + bytes(32)
    (folder / "params/cpu/00000.safetensors").write_bytes(params)
    (folder / "tokenizer.json").write_text("{}")


def list_files(folder: Path) -> Json:
    """The manifest's ``files`` for what lies in the folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in found
        if path.name != "bundle.json"
    }


def read_manifest(folder: Path) -> Json:
    """``bundle.json`` without its digest."""
    value: Json = unseal((folder / "bundle.json").read_bytes())
    return value


def write_manifest(folder: Path, value: Json) -> None:
    """Write ``bundle.json`` with its digest, as somebody would who means what it says."""
    (folder / "bundle.json").write_bytes(seal(value))


def write_bundle(folder: Path, library: bytes = b"stand-in for machine code") -> Json:
    """A whole valid bundle; returns its manifest, ready to be changed and written again."""
    folder.mkdir()
    write_files(folder, library)
    value = manifest() | {"files": list_files(folder)}
    write_manifest(folder, value)
    return value


def write_plan(folder: Path, plan: Json) -> None:
    """Replace a plan of a whole bundle and list it anew."""
    path = folder / f"programs/cpu-f32-portable/plans/{plan['name']}.json"
    path.write_text(json.dumps(plan))
    write_manifest(folder, manifest() | {"files": list_files(folder)})
