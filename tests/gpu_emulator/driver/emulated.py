"""The emulated CUDA driver: compiled here, and given kernels that the emulator runs."""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgewise_compiler.targets.gpu.shader import Shader
from tests.gpu_emulator.build import KEPT, library_path, shader_of

SOURCE = Path(__file__).with_name("cuda.cpp")
FLAGS = ("-std=c++17", "-O1", "-Wall", "-fPIC", "-shared")


@dataclass(frozen=True)
class Left:
    """What a driver still holds: contexts, pieces of its memory and of the host's, and what else
    was made in them (streams, events, modules, graphs)."""

    contexts: int
    memory: int
    pinned: int
    made: int


@dataclass(frozen=True)
class Done:
    """What a driver did so far: kernels executed, graphs launched, and waits for a stream."""

    kernels: int
    graphs: int
    waits: int


def driver_path() -> Path:
    """The driver's library, compiled where it is not kept."""
    text = SOURCE.read_bytes()
    path = KEPT / f"libcuda-{hashlib.sha256(text).hexdigest()}.so"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        command = [os.environ.get("CXX", "g++"), *FLAGS, "-o", str(temporary), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=120)
        os.replace(temporary, path)
    return path


def give_kernel(folder: Path, made: Shader) -> None:
    """Put a kernel where the driver looks for it (``EDGEWISE_EMULATED_KERNELS``)."""
    path = folder / f"{made.entry}.so"
    if not path.exists():
        path.symlink_to(library_path(made))
        (folder / f"{made.entry}.arguments").write_text(str(len(made.access)))


def give_dump(folder: Path, dump: Path) -> None:
    """As `give_kernel`, all kernels of programs compiled with ``debug_dump``."""
    for path in sorted(dump.rglob("kernel.*.cu")):
        give_kernel(folder, shader_of(path.read_text("utf-8")))


def left() -> Left:
    """What the driver of this process holds."""
    return Left(*_longs("emulated_left", 4))


def done() -> Done:
    """What the driver of this process did."""
    return Done(*_longs("emulated_counts", 3))


def fail(after: int, error: int) -> None:
    """Let the driver fail for good with what it does after so many more things on a stream."""
    ctypes.CDLL(str(driver_path())).emulated_fail(ctypes.c_long(after), error)


def _longs(function: str, count: int) -> list[int]:
    values = [ctypes.c_long() for _ in range(count)]
    call = getattr(ctypes.CDLL(str(driver_path())), function)
    call(*(ctypes.byref(value) for value in values))
    return [value.value for value in values]
