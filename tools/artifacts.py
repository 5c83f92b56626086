"""Everything a compilation generates, by hash: which kernels, plans and weights a change moves.

    python -m tools.artifacts record before.json        on the old tree
    python -m tools.artifacts record after.json         on the new one
    python -m tools.artifacts compare before.json after.json

Tiny Llama and Qwen3 checkpoints (tests/parity) are compiled for every target in every scheme. A
CPU kernel is compared as TIR, a shader as WGSL, a plan by its launches, a tensor by its bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from edgewise_compiler.compile import compile_model
from tests.parity.make_checkpoints import write_checkpoint

CASES = ("llama-gqa4-bias-llama3", "llama-gqa2-tied-linear", "qwen3-gqa4-d96-bias")
SCHEMES = ("f32", "f16", "q8", "q4")
PAGES = ("auto", "int8")


def record() -> dict[str, str]:
    """The sha256 of every artifact of every bundle, by kind and name."""
    found: dict[str, str] = {}
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            checkpoint = write_checkpoint(case, Path(folder))
            for scheme in SCHEMES:
                for pages in PAGES:
                    name = f"{case}/{scheme}/{pages}"
                    console.print(name)
                    found |= _compiled(checkpoint, name, scheme, pages, Path(folder))
    return found


def _compiled(checkpoint: Path, name: str, scheme: str, pages: str, folder: Path) -> dict[str, str]:
    out, dump = folder / "bundle", folder / name
    compile_model(
        checkpoint,
        out,
        targets=("cpu", "webgpu"),
        quant=scheme,
        kv=pages,
        cpu="all",
        debug_dump=dump,
        context=128,
        max_batch=4,
        prefill_chunk=64,
    )
    found = {}
    for path in sorted(dump.rglob("*")):
        if path.suffix in (".py", ".wgsl", ".txt"):
            kind, program = path.name.split(".")[0], path.parent.name
            label = path.name if path.suffix != ".txt" else f"{program}/{path.name}"
            found[f"{kind} {name} {program}/{label}"] = _sha256(path.read_bytes())
    for path in sorted(out.glob("programs/*/plans/*.json")):
        launches = json.dumps(_launches(json.loads(path.read_bytes())), sort_keys=True)
        found[f"launches {name} {path.relative_to(out / 'programs')}"] = _sha256(launches.encode())
    manifest = json.loads((out / "bundle.json").read_bytes())
    for layout, tensors in manifest["layouts"].items():
        for tensor, entry in tensors["tensors"].items():
            data = np.memmap(out / entry["file"], np.uint8, "r")
            part = data[entry["offset"] : entry["offset"] + entry["bytes"]]
            found[f"tensor {name} {layout}/{tensor}"] = _sha256(part.tobytes())
    return found


def _launches(plan: dict[str, Any]) -> list[Any]:
    """What a plan does, apart from what its format says around it."""
    return [
        [step["kernel"], step["bindings"], step["grid"], step["label"]] for step in plan["steps"]
    ]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """A line for each artifact that is not the same in both."""
    words = {(True, False): "gone", (False, True): "new", (True, True): "changed"}
    return [
        f"{words[name in before, name in after]}: {name}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def main() -> int:
    """The command line; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="compile and write hashes")
    recording.add_argument("file", type=Path)
    comparing = commands.add_parser("compare", help="list what differs between two recordings")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        found = record()
        options.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found):,} artifacts")
        return 0
    before = json.loads(options.before.read_text())
    differing = compare(before, json.loads(options.after.read_text()))
    print("\n".join(differing) or f"All {len(before):,} artifacts are the same.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
