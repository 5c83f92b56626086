"""Loading TVM's runtime and compiled libraries with tvm_ffi alone: the tvm package stays out.

Two of TVM's habits are changed, unless the environment says otherwise (`SETTINGS`). It pins its
workers to the first cores, on top of any other process's and whatever cores this one may use. And
after each kernel they look for the next 300,000 times, 0.1 s or more of a core at work for nothing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from pathlib import Path, PurePosixPath
from typing import Any

from edgewise_runtime.errors import DeviceError, StorageError
from edgewise_runtime.files import cache_folder, storage_errors, temporary_folder
from edgewise_runtime.folders import passing_folder
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.installed import FFI, TVM

RUNTIME_NAMES: dict[str, str] = {
    "darwin": "libtvm_runtime.dylib",
    "win32": "tvm_runtime.dll",
}
"""File name of TVM's runtime where it is not ``libtvm_runtime.so``."""

CARRIED = Path(__file__).parent / "lib"
"""Where edgewise-light has it; its build puts it there."""

SETTINGS: dict[str, str] = {
    "TVM_BIND_THREADS": "0",
    # Longer than the gap between two kernels of a plan. A worker that waits much longer for work
    # takes the core from whatever else is busy: with one more busy thread than cores, a spin count
    # of 20,000 decoded at 0.1 of the undisturbed speed, and this one at 0.3 to 0.65.
    "TVM_THREAD_POOL_SPIN_COUNT": "200",
}
"""Environment variables TVM reads when its first pool starts."""

BIG_CORES = 1
"""TVM's name for the way its pool picks cores; without pinning it means nothing."""

_lock = threading.Lock()
_ffi: Any = None


def runtime_path() -> Path:
    """Where TVM's runtime library lies, found without importing tvm.

    The one that is carried along only comes where TVM is not installed: a process that also
    compiles must not load two of them.

    Raises:
        DeviceError: ``device.runtime`` where the package or its library is missing.
    """
    spec = importlib.util.find_spec("tvm")
    name = RUNTIME_NAMES.get(sys.platform, "libtvm_runtime.so")
    installed = (spec.submodule_search_locations or []) if spec else []
    for folder in (*(Path(folder) / "lib" for folder in installed), CARRIED):
        if (folder / name).is_file():
            return folder / name
    raise DeviceError(
        f"TVM's runtime library {name} was not found.",
        remedy=f"Install it: {TVM.install}",
        code="device.runtime",
    )


def ffi() -> Any:
    """The tvm_ffi module with TVM's runtime loaded behind it.

    Raises:
        DeviceError: ``device.runtime``.
    """
    global _ffi
    with _lock:
        if _ffi is None:
            path = runtime_path()
            for name, value in SETTINGS.items():
                os.environ.setdefault(name, value)
            try:
                module = _import_ffi()
                ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
            except (ImportError, OSError) as cause:
                package = FFI if isinstance(cause, ImportError) else TVM
                raise DeviceError(
                    f"TVM's runtime could not be loaded: {cause}.",
                    remedy=f"Install it: {package.install}",
                    code="device.runtime",
                ) from cause
            _ffi = module
    return _ffi


def _import_ffi() -> Any:
    """Import tvm_ffi without torch, which it would import (seconds, and perhaps a C++ build).

    A torch that is loaded already is left alone, and one imported later works.
    """
    if "torch" in sys.modules or "tvm_ffi" in sys.modules:
        return importlib.import_module("tvm_ffi")
    blocked: Any = None
    sys.modules["torch"] = blocked
    try:
        return importlib.import_module("tvm_ffi")
    finally:
        del sys.modules["torch"]


def configure_threads(threads: int) -> None:
    """Give the calling thread's pool this many workers; call it before the first kernel.

    Naming as many CPUs as threads sizes the pool itself; their numbers go unused.
    """
    configure = ffi().get_global_func("runtime.config_threadpool")
    configure(BIG_CORES, threads, [str(cpu) for cpu in range(threads)])


def pool_threads() -> int:
    """How many threads the calling thread's pool uses."""
    return int(ffi().get_global_func("runtime.NumThreads")())


def load_library(data: bytes, name: str) -> Any:
    """Load a compiled library from a private copy of its contents.

    So what is loaded is what was checked: nobody can swap the file in between, and a library
    compiled again under the same name is not taken for the old one. It is unloaded with the last
    of its functions.

    Args:
        name: what errors call it; its last part is the copy's name.

    Raises:
        DeviceError: ``device.library`` where the system refuses to load it.
        StorageError: where there is no room for the copy.
    """
    refused: list[Exception] = []
    # Some systems forbid running code from their temporary folder, and some have it full.
    for place in (temporary_folder, cache_folder):
        try:
            return _load_copy(data, PurePosixPath(name).name, place())
        except (StorageError, OSError, RuntimeError, UnicodeError) as cause:
            refused.append(cause)
    if all(isinstance(cause, StorageError) for cause in refused):
        raise refused[0]
    reasons = [shorten(str(cause).strip().splitlines()[-1:]) for cause in refused]
    if any(isinstance(cause, StorageError) for cause in refused):
        raise DeviceError(
            f"{name} could not be loaded from a copy: {'; '.join(reasons)}.",
            remedy="Name a folder in TMPDIR that has some space, and that code may be run from.",
            code="device.library",
        )
    raise DeviceError(
        f"{name} could not be loaded: {'; '.join(reasons)}.",
        remedy="Compile the model again on this machine. If this is where it was compiled, name a "
        "folder in TMPDIR that code may be run from.",
        code="device.library",
    )


def _load_copy(data: bytes, name: str, parent: Path) -> Any:
    with storage_errors("copy a library to", parent):
        parent.mkdir(parents=True, exist_ok=True)
    with passing_folder(parent) as folder:
        copy = folder / name
        copy.write_bytes(data)
        # Windows keeps a loaded library's file until the process ends.
        return ffi().load_module(str(copy), keep_module_alive=False)
