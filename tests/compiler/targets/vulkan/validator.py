"""Khronos's validator of SPIR-V, spirv-val of the package spirv-tools."""

from __future__ import annotations

import subprocess

ENVIRONMENT = "vulkan1.2"


def complaints(module: bytes) -> str:
    """What it has against a module; nothing where that is valid."""
    done = subprocess.run(
        ["spirv-val", "--target-env", ENVIRONMENT, "-"],
        input=module,
        capture_output=True,
        check=False,
    )
    said = (done.stdout + done.stderr).decode()
    return said or ("" if done.returncode == 0 else f"spirv-val ended with {done.returncode}")
