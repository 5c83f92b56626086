"""PrimFuncs to a shared library for one instruction set."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import tvm
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.cpu.isa import Isa
from edgewise_compiler.plan.host import relay_function
from edgewise_compiler.targets.cpu.linker import link
from edgewise_compiler.targets.kept import kept
from edgewise_runtime.errors import CompileError, StorageError
from edgewise_runtime.files import storage_errors, temporary_folder


def build_library(
    kernels: Mapping[str, PrimFunc],
    hosts: Sequence[PrimFunc],
    isa: Isa,
    path: Path,
    progress: Callable[[int, int], None],
) -> None:
    """Compile kernels and host functions into the shared library ``path``.

    Each kernel is an object file of its own, so they compile side by side; host functions only hand
    arguments on and are not worth optimizing. Calls bind inside the library, so two loaded programs
    never mix.

    Args:
        progress: told how many kernels of how many are compiled.

    Raises:
        CompileError: no linker, or LLVM or the linker refused the code.
        StorageError: the disk has no room.
    """
    relays = [relay_function(symbol, len(f.params)) for symbol, f in kernels.items()]
    with (
        _interrupts_kept(),
        storage_errors("write", path),
        # Beside the library: on a disk that has to have room anyway.
        tempfile.TemporaryDirectory(prefix="objects-", dir=path.parent) as temporary,
        _workers() as pool,
    ):
        host = pool.submit(_compile, [*hosts, *relays], isa, optimize=False)
        pending = [pool.submit(kernel_object, kernel, isa) for kernel in kernels.values()]
        objects = []
        for index, future in enumerate([*pending, host]):
            progress(index, len(pending) + 1)
            objects.append(Path(temporary) / f"{index}.o")
            objects[-1].write_bytes(future.result())
        link(objects, path, isa)
    progress(1, 1)


@contextmanager
def _workers() -> Iterator[ThreadPoolExecutor]:
    """A thread for each processor; what is not begun when the block ends never is."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Puts Python's handler of Ctrl-C back as it was.

    The solver inside TVM takes SIGINT while it works and gives it back in a way that lets system
    calls restart, so that nothing waiting notices; two solvers may even give it back to each other.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@lru_cache(maxsize=512)
def kernel_object(kernel: PrimFunc, isa: Isa) -> bytes:
    """One kernel's object file; programs of one process that share a kernel compile it once."""
    return _compile([kernel], isa, optimize=True)


def _compile(functions: Sequence[PrimFunc], isa: Isa, *, optimize: bool) -> bytes:
    module = tvm.IRModule({str(f.attrs["global_symbol"]): f for f in functions})
    target = isa.target()
    if not optimize:
        target = tvm.target.Target({**target.export(), "opt-level": 0})
    return kept(lambda: _generate(module, target, isa), module, target, Path(__file__))


def _generate(module: tvm.IRModule, target: tvm.target.Target, isa: Isa) -> bytes:
    try:
        built = tvm.compile(module, target=target).mod
        with _object_file() as name:
            built.write_to_file(name, "o")
            return Path(name).read_bytes()
    except StorageError:
        raise
    except Exception as error:
        names = ", ".join(sorted(name.name_hint for name in module.functions)[:3])
        raise CompileError(
            f"Code generation for {isa.name!r} failed at {names}: {str(error).strip()[-2000:]}",
            remedy="Run with --debug-dump DIR and report the kernel it writes.",
            code="compile.codegen",
        ) from error


@contextmanager
def _object_file() -> Iterator[str]:
    """A name for LLVM to write to, in memory where the system has such files.

    LLVM ends the process where a disk has no room for what it writes.
    """
    if sys.platform == "linux":
        handle = os.memfd_create("object")
        try:
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile(suffix=".o", dir=temporary_folder()) as file:
            yield file.name
