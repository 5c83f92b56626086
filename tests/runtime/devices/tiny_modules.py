"""Compiles the modules of the tiny Vulkan program in `tests.runtime.devices.tiny_vulkan`.

Run as a process of its own: python tiny_modules.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

# tvm_ffi imports torch where it is installed, which takes seconds and helps nothing here.
blocked: Any = None
sys.modules["torch"] = blocked

from edgewise_compiler.targets.vulkan.codegen import shader  # noqa: E402
from tests.runtime.devices.tiny_shaders import LAUNCHES  # noqa: E402

if __name__ == "__main__":
    for make in LAUNCHES:
        launch = make()
        (Path(sys.argv[1]) / f"{launch.name}.spv").write_bytes(shader(launch.function).file)
