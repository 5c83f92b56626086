"""NVIDIA's compiler of CUDA C (NVRTC) and its packer of fatbins (nvFatbin), by their C interfaces.

Both are libraries in wheels without Python code. Neither needs a GPU or a driver. They are those of
CUDA 12, whose code every driver since 2022 loads; that of CUDA 13 needs one of 2025.
"""

from __future__ import annotations

import ctypes
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path

from edgewise_runtime.errors import CompileError
from edgewise_runtime.installed import NVFATBIN, NVRTC, Package, need

_LIBRARIES = {
    NVRTC: ("libnvrtc.so.12", "nvrtc64_120_0.dll"),
    NVFATBIN: ("libnvfatbin.so.12", "nvfatbin_120_0.dll"),
}
"""What a package's library is called, on Linux and on Windows."""

_INSTALL = shlex.join(["pip", "install", *(package.requirement for package in _LIBRARIES)])

_MAX_LOG = 2000
"""Characters of what NVRTC complains about that are quoted."""


@dataclass(frozen=True)
class Compiled:
    """A kernel's image, a cubin or PTX, and what the compiler had to say."""

    image: bytes
    log: str


def find_nvidia() -> tuple[Path, ...]:
    """Where both libraries are.

    Raises:
        CompileError: ``compile.nvrtc`` with the package that is missing.
    """
    return tuple(_find(package) for package in _LIBRARIES)


def versions() -> str:
    """The versions of both packages, which decide what they generate."""
    return ", ".join(f"{p.name} {distribution(p.name).version}" for p in _LIBRARIES)


def _find(package: Package) -> Path:
    try:
        need(package)
    except CompileError as error:
        error.remedy = f"Install it: {_INSTALL}"
        raise
    for file in distribution(package.name).files or ():
        if file.name in _LIBRARIES[package]:
            return Path(str(file.locate())).resolve()
    raise CompileError(
        f"The package {package.name} has no {' or '.join(_LIBRARIES[package])}.",
        remedy=f"Install it anew: {_INSTALL} --force-reinstall",
        code="compile.nvrtc",
    )


@lru_cache
def _library(package: Package) -> ctypes.CDLL:
    path = _find(package)
    try:
        return ctypes.CDLL(str(path))
    except OSError as cause:
        raise CompileError(
            f"The package {package.name} does not load: {cause}.",
            remedy=f"Install it anew: {_INSTALL} --force-reinstall",
            code="compile.nvrtc",
        ) from cause


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def compile_text(name: str, text: str, options: Sequence[str]) -> Compiled:
    """Compile CUDA C by NVRTC: to a cubin for ``-arch=sm_N``, to PTX for ``-arch=compute_N``.

    Threads may compile at the same time.

    Args:
        name: what errors call the text.

    Raises:
        CompileError: ``compile.cuda`` with what the compiler says; ``compile.nvrtc`` without it.
    """
    nvrtc = _library(NVRTC)
    program = ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None
    )
    _check(nvrtc, made, name)
    try:
        failed = nvrtc.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _taken(nvrtc, "ProgramLog", program, name).rstrip(b"\0").decode(errors="replace")
        if failed:
            raise CompileError(
                f"NVRTC does not compile the kernel {name!r}: {log.strip()[:_MAX_LOG]}",
                code="compile.cuda",
            )
        real = any(option.startswith("-arch=sm_") for option in options)
        return Compiled(_taken(nvrtc, "CUBIN" if real else "PTX", program, name), log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _taken(nvrtc: ctypes.CDLL, what: str, program: ctypes.c_void_p, name: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), name)
    space = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, space), name)
    return space.raw


def _check(nvrtc: ctypes.CDLL, result: int, name: str) -> None:
    if result:
        said: Callable[[int], bytes] = nvrtc.nvrtcGetErrorString
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompileError(
            f"NVRTC fails at the kernel {name!r}: {said(result).decode()}.", code="compile.cuda"
        )


def pack(name: str, cubins: Sequence[tuple[int, bytes]], ptx: Sequence[tuple[int, bytes]]) -> bytes:
    """One fatbin of images, each with its architecture.

    Raises:
        CompileError: ``compile.cuda`` where nvFatbin refuses; ``compile.nvrtc`` without it.
    """
    library = _library(NVFATBIN)
    handle = ctypes.c_void_p()

    def call(function: str, *arguments: object) -> None:
        if result := getattr(library, function)(*arguments):
            raise CompileError(
                f"nvFatbin does not pack the kernel {name!r}: {function} says {result}.",
                code="compile.cuda",
            )

    call("nvFatbinCreate", ctypes.byref(handle), _strings(["-64"]), 1)
    try:
        for arch, image in cubins:
            size, version = ctypes.c_size_t(len(image)), str(arch).encode()
            call("nvFatbinAddCubin", handle, image, size, version, name.encode())
        for arch, image in ptx:
            size, version = ctypes.c_size_t(len(image)), str(arch).encode()
            call("nvFatbinAddPTX", handle, image, size, version, name.encode(), b"")
        whole = ctypes.c_size_t()
        call("nvFatbinSize", handle, ctypes.byref(whole))
        space = ctypes.create_string_buffer(whole.value)
        call("nvFatbinGet", handle, space)
        return space.raw
    finally:
        library.nvFatbinDestroy(ctypes.byref(handle))
