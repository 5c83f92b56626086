"""The C compiler that links a program's kernels: the system's, or that of the package ziglang.

Zig brings the linkers and the C libraries' symbols of other systems along, so a library for another
kind of machine is always its work.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from edgewise_compiler.kernels.cpu.isa import Isa
from edgewise_runtime.errors import CompileError
from edgewise_runtime.files import storage_error
from edgewise_runtime.installed import ZIG, need

COMPILERS = ("cc", "gcc", "clang")
_ZIG = (sys.executable, "-P", "-m", ZIG.name, "cc")

TRIPLES: Mapping[tuple[str, str], str] = {
    # The C library of what TVM's wheels for this system are made for (manylinux_2_28).
    ("aarch64", "linux"): "aarch64-linux-gnu.2.28",
    ("aarch64", "macos"): "aarch64-macos.11.0",
}
"""What Zig calls the machines that libraries can be linked for elsewhere."""

FLAGS: Mapping[str, tuple[str, ...]] = {
    # What TVM's runtime has is found when the library is loaded.
    "macos": (
        "-shared",
        "-fPIC",
        "-Wl,-undefined,dynamic_lookup",
        "-Wl,-install_name,@rpath/kernels.so",
    ),
    "linux": ("-shared", "-fPIC", "-Wl,-Bsymbolic"),
    "windows": ("-shared", "-fPIC", "-Wl,-Bsymbolic"),
}
"""By system. On macOS calls inside a library bind to itself without being told to."""

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""What linkers report in the system's words where nothing is wrong with them."""


def find_linker() -> tuple[str, ...]:
    """The command of a C compiler, to be followed by its arguments.

    Raises:
        CompileError: ``compile.linker`` where there is none.
    """
    for name in COMPILERS:
        if path := shutil.which(name):
            return (path,)
    if find_spec(ZIG.name) is not None:
        return _ZIG
    raise CompileError(
        f"`edgewise compile` needs a C compiler to link with: none of {', '.join(COMPILERS)} is "
        f"on the PATH, and the Python package {ZIG.name} is not installed.",
        remedy=f"Install one: `apt install gcc`, on macOS `xcode-select --install`, or, without "
        f"asking anybody, `pip install {ZIG.name}`.",
        code="compile.linker",
    )


def find_cross_linker() -> tuple[str, ...]:
    """The command of a C compiler that links for machines of other kinds, without which one.

    Raises:
        CompileError: ``compile.linker`` where there is none.
    """
    need(ZIG)
    return _ZIG


def link(objects: Sequence[Path], path: Path, isa: Isa) -> None:
    """Link object files of ``isa`` to the shared library ``path``; calls inside it bind to itself.

    Temporary files of the linker go beside the first of them.

    Raises:
        CompileError: ``compile.linker`` where there is no linker, or it refuses.
        StorageError: the disk refuses.
    """
    if isa.foreign:
        command = (*find_cross_linker(), "-target", TRIPLES[isa.arch, isa.system])
    else:
        command = find_linker()
    finished = subprocess.run(
        [*command, *FLAGS[isa.system], "-o", str(path), *map(str, objects)],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(objects[0].parent), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if not finished.returncode:
        return
    said = finished.stderr.strip()[-2000:]
    for number in _DISK:
        if os.strerror(number) in said:
            raise storage_error(OSError(number, os.strerror(number)), "link", path)
    raise CompileError(
        f"{' '.join(command)} could not link {path.name}: {said}",
        remedy="Check the C compiler, for example by compiling a small program.",
        code="compile.linker",
    )
