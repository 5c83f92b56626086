"""Every shader of a compiled bundle, and the two compilers that must accept it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from edgewise_runtime.devices.wgpu.wgsl import check_shader
from tests.gpu import device

HERE = Path(__file__).parent
BUNDLES = [
    ("llama-gqa4-bias-llama3", "q4", "auto"),
    ("llama-d80-yarn", "q8", "int8"),
    ("qwen3-gqa4-d96-bias", "f16", "auto"),
    ("qwen3-gqa2-tied", "f32", "auto"),
    ("qwen2moe-shared", "q4", "auto"),
]
"""Checkpoint, scheme and pages of bundles that have between them both families, biases, norms of
heads, odd head sizes, experts, every scheme, all pages."""

MORE_BUNDLES = [
    ("llama-d80-yarn", "q8", "auto"),
    ("qwen3-gqa2-tied", "q4", "auto"),
    ("qwen3-gqa2-tied", "q4", "int8"),
]
"""What the full suite takes, too."""

_ENTRY = re.compile(r"@compute[^{]*?fn (\w+)\(")


@dataclass(frozen=True)
class Source:
    """A shader's text, and what it is called."""

    name: str
    source: str
    entry: str


def source(name: str, text: str) -> Source:
    """A shader with the entry point found in its text."""
    found = _ENTRY.search(text)
    assert found is not None, f"{name} has no entry point"
    return Source(name, text, found[1])


def shaders_of(bundles: Iterable[Path]) -> list[Source]:
    """The shaders of bundles, each text once, named by the first bundle it is in."""
    names: dict[str, str] = {}
    for bundle in bundles:
        for path in sorted(bundle.rglob("*.wgsl")):
            names.setdefault(path.read_text(), f"{bundle.name}: {path.name}")
    return [source(name, text) for text, name in names.items()]


def tint(sources: Iterable[Source]) -> dict[str, list[str]]:
    """What Tint and Dawn's null backend have against each shader, warnings included, by name."""
    done = subprocess.run(
        ["node", str(HERE / "check.mjs")],
        input=json.dumps([asdict(item) for item in sources]).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    results: dict[str, list[str]] = json.loads(done.stdout)
    return results


def naga(sources: Iterable[Source]) -> dict[str, list[str]]:
    """What wgpu-native has against each shader under WebGPU's default limits, by name.

    Each has passed what edgewise itself looks at before.

    It is silent about barriers in control flow that is not uniform, about the mask of a shuffle and
    about workgroup memory: those are Tint's to find.
    """
    import wgpu

    results = {}
    for item in sources:
        # wgpu-native knows subgroup operations and refuses the line that asks for them.
        code = check_shader(item.name, item.source.encode()).replace("enable subgroups;", "")
        try:
            module = device().create_shader_module(code=code)
            device().create_compute_pipeline(
                layout="auto", compute={"module": module, "entry_point": item.entry}
            )
        except wgpu.GPUError as error:
            results[item.name] = [str(error)]
        else:
            results[item.name] = []
    return results
