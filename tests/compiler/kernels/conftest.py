"""Compiling kernels for an instruction set and calling them on NumPy arrays."""

from __future__ import annotations

import mmap
import platform
import tempfile
from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm

from edgewise_compiler.kernels.cpu.isa import ISAS
from edgewise_compiler.targets.cpu.codegen import build_library

Array = npt.NDArray[Any]


def _cpu_flags() -> frozenset[str]:
    if platform.machine() not in ("x86_64", "AMD64"):
        return frozenset()
    words = Path("/proc/cpuinfo").read_text(encoding="ascii").split()
    # Linux writes avx512_vnni where everyone else writes avx512vnni.
    return frozenset(word.replace("avx512_", "avx512") for word in words)


# The instruction sets this machine can run, best first; the last of all is always among them.
RUNNABLE = [name for name, isa in ISAS.items() if set(isa.features) <= _cpu_flags()]


@pytest.fixture(params=RUNNABLE)
def isa(request: pytest.FixtureRequest) -> str:
    """Each instruction set this machine can run."""
    return str(request.param)


def aligned(shape: int | tuple[int, ...], dtype: str) -> Array:
    """A zeroed array whose data starts at a multiple of 64 bytes, as kernels require."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 64, "uint8")
    start = -raw.ctypes.data % 64
    return raw[start : start + count].view(dtype).reshape(shape)


NORESERVE = 0x4000
"""MAP_NORESERVE, which Python's mmap does not name: Linux then asks not whether there is room."""


def virtual(shape: tuple[int, ...], dtype: str) -> Array:
    """As :func:`aligned`, of any size: memory is taken where it is written, and by no reading."""
    size = prod(shape) * np.dtype(dtype).itemsize
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
    return np.frombuffer(pages, dtype).reshape(shape)


def aligned_copy(values: npt.ArrayLike) -> Array:
    """``values`` in an array from :func:`aligned`."""
    source = np.asarray(values)
    copy = aligned(source.shape, str(source.dtype))
    copy[...] = source
    return copy


def build(functions: Iterable[Any], isa: str) -> dict[str, Callable[..., None]]:
    """Compiles PrimFuncs for ``isa``: their names and callables on arrays from :func:`aligned`.

    The arrays are passed without a copy, so outputs are written in place.
    """
    named = {str(function.attrs["global_symbol"]): function for function in functions}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.so"
        build_library(named, [], ISAS[isa], path, lambda done, total: None)
        library = tvm.runtime.load_module(str(path))

    def callable_for(name: str) -> Callable[..., None]:
        function = library[name]

        def call(*arrays: Array) -> None:
            if any(array.ctypes.data % 64 for array in arrays):
                raise ValueError("kernels take arrays that start at a multiple of 64 bytes")
            function(*(tvm.runtime.from_dlpack(array) for array in arrays))

        return call

    return {name: callable_for(name) for name in named}
