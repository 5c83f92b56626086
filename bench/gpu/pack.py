"""Packs what a GPU machine without a network and without the compiler needs for run.py.

    PYTHONPATH=bench:. .venv/bin/python bench/gpu/pack.py OUT [--python 3.12] [--platform P ...]
        [--packages NAME ...] [--only kernels demo programs vulkan cuda wheels] [--shapes NAME ...]
        [--kernels-mb MB] [--most-mb MB]

`kernels/` are the calls that the GPU kernel tests make here, with their answers; `demo.zip` is the
demo model, `demo-logits.npy` its logits here; `programs/` are the programs of larger shapes without
weights, `programs/cuda/` and `programs/vulkan/` the native ones; `wheels/` are the packages that
the runtime imports. The device here should be lavapipe.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from checkpoint import SHAPES
from edgewise_compiler.compile import compile_model
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.state import paged_state, pages_for
from gpu.contract import Contract
from gpu.recording import load_call
from gpu.skeleton import compile_skeleton

ROOT = Path(__file__).parents[2]
RECORD = "EDGEWISE_RECORD_KERNELS"
TESTS = "tests/compiler/kernels/gpu"
FATBINS = "EDGEWISE_RECORD_FATBINS"
QUANT = "q4"
PROGRAM_SHAPES = ("small", "qwen3-0.6b", "llama-3.1-8b")

CUDA_SHAPES = ("qwen3-0.6b", "llama-3.2-1b", "llama-3.1-8b")
CUDA_QUANTS = ("q4", "f16")
CUDA_BATCH, CUDA_CONTEXT = 32, 8192

PACKAGES = (
    *("wgpu", "rendercanvas", "cffi", "pycparser"),
    "vulkan",
    *("numpy", "tokenizers"),
)
"""What the runtime imports, in the versions installed here; nothing else is downloaded."""

PLATFORMS = tuple(
    f"manylinux{name}_x86_64" for name in ("_2_28", "_2_27", "_2_24", "_2_17", "2014", "1")
)

KERNELS_MB, MOST_MB = 14, 62

README = """# edgewise on a GPU machine

Needs Python {python}, a Vulkan, Metal or Direct3D 12 driver (on Linux also the Vulkan loader,
package libvulkan1), or NVIDIA's driver, and a copy of the repository. In its root, with this folder
as PACKED:

    python3 -m pip install --no-index --no-deps --target SITE PACKED/wheels/*.whl
    PYTHONPATH=SITE:runtime:bench:. python3 bench/gpu/run.py PACKED --results RESULTS

`--device vulkan` runs SPIR-V (the contract, and tokens a second). With NVIDIA's driver there is
`--device cuda`; PyTorch is measured beside it where it is installed.
`--only kernels contract` is a minute; `--only speed --shapes llama-3.1-8b` makes 4.5 GB of random
weights first. RESULTS gets results.json and results.md, written anew after every stage.
"""


def main() -> None:
    args = arguments()
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    parts: Mapping[str, Callable[[], None]] = {
        "kernels": lambda: pack_kernels(out / "kernels", int(args.kernels_mb * 1e6)),
        "demo": lambda: pack_demo(out),
        "programs": lambda: pack_programs(out / "programs", args.shapes),
        "vulkan": lambda: pack_programs(out / "programs" / "vulkan", args.shapes, "vulkan"),
        "cuda": lambda: pack_cuda(out / "programs" / "cuda", args.cuda_shapes, args.cuda_quants),
        "wheels": lambda: pack_wheels(out / "wheels", args.packages, args.python, args.platform),
    }
    for name in args.only or parts:
        parts[name]()
        print(f"{name}: {folder_bytes(out) / 1e6:.1f} MB so far", flush=True)
    (out / "README.md").write_text(README.format(python=args.python), "utf-8")
    total = folder_bytes(out)
    if total > args.most_mb * 1e6:
        raise SystemExit(
            f"{out} has {total / 1e6:.1f} MB, more than --most-mb {args.most_mb:g}. "
            "Lower --kernels-mb, or leave out --packages that are there."
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default="3.12", help="the GPU machine's Python")
    parser.add_argument("--platform", nargs="+", default=PLATFORMS, help="its wheel platforms")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help="wheels it lacks")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=PROGRAM_SHAPES)
    parser.add_argument("--cuda-shapes", nargs="+", choices=SHAPES, default=CUDA_SHAPES)
    parser.add_argument("--cuda-quants", nargs="+", default=CUDA_QUANTS)
    parts = ("kernels", "demo", "programs", "vulkan", "cuda", "wheels")
    parser.add_argument("--only", nargs="+", choices=parts)
    parser.add_argument("--kernels-mb", type=float, default=KERNELS_MB, help="of calls, at most")
    parser.add_argument("--most-mb", type=float, default=MOST_MB, help="of everything, at most")
    return parser.parse_args()


def pack_kernels(out: Path, most: int) -> None:
    """Run the GPU kernel tests, recording; keep calls of every kernel within ``most`` bytes."""
    with tempfile.TemporaryDirectory() as recorded:
        command = [sys.executable, "-m", "pytest", "-q", TESTS]
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, RECORD: recorded, FATBINS: "1"}, check=True
        )
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        found = list(Path(recorded).glob("*.npz"))
        kept = chosen(found, most)
        for path in kept:
            shutil.copyfile(path, out / path.name)
        kernels = {load_call(path).kernel for path in kept}
        everything = {load_call(path).kernel for path in found}
    print(f"{len(kept)} of {len(found)} calls, {len(kernels)} of {len(everything)} kernels")


def chosen(paths: Sequence[Path], most: int) -> list[Path]:
    """The smallest call of every kernel, then second calls, while ``most`` bytes hold them."""
    by_kernel: dict[str, list[Path]] = {}
    for path in sorted(paths, key=lambda path: (path.stat().st_size, path.name)):
        by_kernel.setdefault(path.name.partition("-")[0], []).append(path)
    turns = max((len(calls) for calls in by_kernel.values()), default=0)
    ordered = [calls[i] for i in range(turns) for calls in by_kernel.values() if i < len(calls)]
    kept, size = [], 0
    for path in ordered:
        if size + path.stat().st_size <= most:
            kept.append(path)
            size += path.stat().st_size
    return kept


def pack_demo(out: Path) -> None:
    """The demo model with its weights, and the logits that its plainest program gives here."""
    targets = ("webgpu", "vulkan", "cuda")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "demo"
        compile_model(ROOT / "examples/demo-model", made, targets=targets, quant=QUANT)
        archive(made, out / "demo.zip")
        bundle = Bundle.open(made)
        pages = 8 * pages_for(bundle.model.context, paged_state(bundle.manifest).page_tokens)
        with WgpuDevice().load(bundle, "webgpu-f32", load_symbols={"pages": pages}) as program:
            np.save(out / "demo-logits.npy", Contract(program, pages).whole())


def pack_programs(out: Path, shapes: Sequence[str], target: str = "webgpu") -> None:
    """An archive of plans and shaders for each shape."""
    for name in shapes:
        with tempfile.TemporaryDirectory() as folder:
            compile_skeleton(SHAPES[name], QUANT, Path(folder), target=target)
            archive(Path(folder), out / f"{name}.zip")


def pack_cuda(out: Path, shapes: Sequence[str], quants: Sequence[str]) -> None:
    """An archive of plans and fatbins for each shape and weight scheme."""
    for name in shapes:
        for quant in quants:
            with tempfile.TemporaryDirectory() as folder:
                compile_skeleton(
                    SHAPES[name],
                    quant,
                    Path(folder),
                    CUDA_CONTEXT,
                    target="cuda",
                    max_batch=CUDA_BATCH,
                )
                archive(Path(folder), out / f"{name}-{quant}.zip")


def archive(folder: Path, path: Path) -> None:
    """A zip file of all files under a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder))


def pack_wheels(out: Path, packages: Sequence[str], python: str, platforms: Sequence[str]) -> None:
    """Packages, in the versions installed here, for another Python and platform."""
    shutil.rmtree(out, ignore_errors=True)
    wanted = [f"{name}=={version(name)}" for name in packages]
    options = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--dest", str(out)]
    options += ["--python-version", python]
    options += [f"--platform={platform}" for platform in platforms]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        *options,
        *wanted,
    ]
    subprocess.run(command, check=True)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
