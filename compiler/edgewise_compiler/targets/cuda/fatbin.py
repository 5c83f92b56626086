"""A kernel's CUDA C to its fatbin: machine code for two architectures, and PTX for later ones."""

from __future__ import annotations

from pathlib import Path

from edgewise_compiler.targets.cuda import nvidia
from edgewise_compiler.targets.cuda.nvidia import compile_text, find_nvidia, pack, versions
from edgewise_compiler.targets.kept import kept_by
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.fatbin import Image, read_images, read_uses

CUBINS = (80, 90)
"""Architectures with machine code: A100 and whatever else has 8.x, H100 and H200."""

PTX = 90
"""The architecture of the PTX, which drivers compile for GPUs of later ones."""

OPTIONS = (
    "-std=c++17",
    # A sum is rounded where the text has one: `fmaf` where it means one rounding.
    "-fmad=false",
    # And these, which are NVRTC's own, so that no release of it changes them.
    "-ftz=false",
    "-prec-div=true",
    "-prec-sqrt=true",
)

ELSE = tuple(f"--ptxas-options=--register-usage-level={level}" for level in (0, 10))
"""What is tried in turn where ptxas spills by default. It stops short of a number of registers that
fewer workgroups would fit with, and spills a word or two for it; at one end of this scale or the
other it stops elsewhere. Code that does not spill is best left to its default."""

_DRIVERS = tuple(Path(file) for file in (__file__, nvidia.__file__))


def fatbin(entry: str, text: str) -> bytes:
    """The fatbin of one kernel; several threads may make some at the same time.

    Args:
        entry: the function in the text that is launched.

    Raises:
        CompileError: ``compile.cuda`` for a text that is not CUDA C, or has other kernels;
            ``compile.nvrtc`` without NVIDIA's libraries; what they refuse.
        StorageError: kept kernels cannot be written.
    """
    find_nvidia()
    drivers = (driver.read_text(encoding="utf-8") for driver in _DRIVERS)
    return kept_by(lambda: _fatbin(entry, text), "fatbin", versions(), *drivers, entry, text)


def _fatbin(entry: str, text: str) -> bytes:
    cubins = [(arch, _cubin(entry, text, arch)) for arch in CUBINS]
    ptx = compile_text(entry, text, (f"-arch=compute_{PTX}", *OPTIONS)).image
    made = pack(entry, cubins, [(PTX, ptx)])
    kinds = [(image.kind, image.arch) for image in read_images(entry, made)]
    if kinds != [*(("cubin", arch) for arch in CUBINS), ("ptx", PTX)]:
        raise CompileError(f"The fatbin of {entry!r} holds {kinds}.", code="compile.cuda")
    return made


def _cubin(entry: str, text: str, arch: int) -> bytes:
    """Machine code: that which keeps less of a thread's numbers in memory."""

    def compiled(*more: str) -> tuple[int, bytes]:
        image = compile_text(entry, text, (f"-arch=sm_{arch}", *OPTIONS, *more)).image
        cubin = Image("cubin", arch, image)
        check_kernels(entry, cubin)
        return read_uses(entry, cubin)[entry].stack, image

    stack, best = compiled()
    for option in ELSE:
        if not stack:
            break
        found, image = compiled(option)
        if found < stack:
            stack, best = found, image
    return best


def check_kernels(entry: str, image: Image) -> None:
    """Refuse a cubin that has another kernel than the one that plans launch, or more.

    Raises:
        CompileError: ``compile.cuda``.
    """
    if (found := list(read_uses(entry, image))) != [entry]:
        raise CompileError(
            f"The CUDA C of {entry!r} declares the kernels {', '.join(found) or 'none'}.",
            code="compile.cuda",
        )
