"""A tiny CUDA program: the plans of `tests.runtime.devices.tiny_webgpu`, kernels in CUDA C.

Its fatbins are made by NVRTC, the libraries that the emulated driver runs by the C++ compiler.
Run as a process of its own, since the former imports tvm: python -m tests.runtime.devices.tiny_cuda
FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from edgewise_compiler.targets.gpu.shader import Shader
from tests.runtime import sample
from tests.runtime.devices import tiny_webgpu
from tests.runtime.devices.tiny_webgpu import KERNELS
from tests.runtime.sample import Json

ID = "cuda-f32"
HOME = f"programs/{ID}"
FATBINS = "programs/cuda"

_HEAD = 'extern "C" __global__ void __launch_bounds__({threads}) {name}_kernel(\n{arguments}) {{\n'
_PLACE = """\
  const int x = (int)blockIdx.x;
  const int y = (int)blockIdx.y;
  const int t = (int)threadIdx.x;
"""

# As tiny_shaders.py has them: arguments, written or only read, threads, and what a thread does.
_KERNELS = {
    "scale": (
        {"x": "float", "w": "const float", "marks": "float", "step": "const int"},
        8,
        """\
  if (x < b3_step[0]) {
    b0_x[x * 8 + t] = b0_x[x * 8 + t] * b1_w[t];
    if (t == 0) {
      b2_marks[x] = (float)(x + 1);
    }
  }
""",
    ),
    "stamp": (
        {"marks": "const float", "kv": "float", "table": "const int"},
        4,
        """\
  const int page = b2_table[x * 12 + 8];
  b1_kv[page * 64 + t] = b1_kv[page * 64 + t] + b0_marks[t];
""",
    ),
    "advance": (
        {"x": "float", "table": "int", "step": "int"},
        1,
        """\
  if (b2_step[1] > 0) {
    b0_x[0] = b0_x[0] + 1.0f;
    b1_table[0] = b1_table[0] + 1;
    b1_table[12] = b1_table[12] + 1;
    if (b1_table[0] >= b1_table[4]) {
      b1_table[3] = 2;
      b2_step[1] = 0;
    }
  }
""",
    ),
    "visit": (
        {"seen": "float", "step": "const int"},
        1,
        """\
  if (t < b1_step[1]) {
    b0_seen[x * 4 + y] = b0_seen[x * 4 + y] + 1.0f;
  }
""",
    ),
}


def kernel(name: str) -> Shader:
    """A kernel's CUDA C."""
    arguments, threads, body = _KERNELS[name]
    listed = ",\n".join(
        f"    {kind}* __restrict__ b{i}_{argument}"
        for i, (argument, kind) in enumerate(arguments.items())
    )
    head = _HEAD.format(threads=threads, name=name, arguments=listed)
    access = tuple("read" if kind[:5] == "const" else "read_write" for kind in arguments.values())
    return Shader(f"{head}{_PLACE}{body}}}\n", f"{name}_kernel", (threads, 1, 1), access)


def plans() -> dict[str, Json]:
    """The program's plans in their JSON form, fresh."""
    return {name: plan | {"target": "cuda"} for name, plan in tiny_webgpu.plans().items()}


def program(features: list[str]) -> Json:
    return tiny_webgpu.program(features) | {
        "id": ID,
        "target": "cuda",
        "plans": {name: f"{HOME}/plans/{name}.json" for name in plans()},
        "shaders": {name: f"{FATBINS}/{name}.fatbin" for name in KERNELS},
    }


def write_bundle(folder: Path, fatbins: Mapping[str, bytes]) -> Json:
    """A whole bundle with a CPU program (its library a stand-in) and the CUDA program."""
    sample.write_bundle(folder)
    (folder / HOME / "plans").mkdir(parents=True)
    for name, value in plans().items():
        (folder / HOME / f"plans/{name}.json").write_text(json.dumps(value))
    (folder / FATBINS).mkdir()
    for name in KERNELS:
        (folder / FATBINS / f"{name}.fatbin").write_bytes(fatbins[name])
    manifest = sample.manifest()
    # So that `logits` are more than a run brings along unasked.
    manifest["model"]["vocab"] = 1 << 18
    manifest["programs"].append(program([]))
    manifest["files"] = sample.list_files(folder)
    sample.write_manifest(folder, manifest)
    return manifest


def main(folder: Path) -> None:
    """Write every kernel's fatbin, and the library that the emulated driver runs."""
    from edgewise_compiler.targets.cuda.fatbin import fatbin
    from tests.gpu_emulator.driver.emulated import give_kernel

    for name in KERNELS:
        made = kernel(name)
        (folder / f"{name}.fatbin").write_bytes(fatbin(made.entry, made.source))
        give_kernel(folder, made)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
