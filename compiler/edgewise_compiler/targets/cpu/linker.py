"""The C compiler that links a program's kernels: the system's, or that of the package ziglang."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from edgewise_runtime.errors import CompileError
from edgewise_runtime.files import storage_error

COMPILERS = ("cc", "gcc", "clang")
PACKAGE = "ziglang"

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
    if find_spec(PACKAGE) is not None:
        return (sys.executable, "-P", "-m", PACKAGE, "cc")
    raise CompileError(
        f"`edgewise compile` needs a C compiler to link with: none of {', '.join(COMPILERS)} is "
        f"on the PATH, and the Python package {PACKAGE} is not installed.",
        remedy=f"Install one: `apt install gcc`, on macOS `xcode-select --install`, or, without "
        f"asking anybody, `pip install {PACKAGE}`.",
        code="compile.linker",
    )


def link(objects: Sequence[Path], path: Path) -> None:
    """Link object files to the shared library ``path``; calls inside it bind to itself.

    Temporary files of the linker go beside the first of them.

    Raises:
        CompileError: ``compile.linker`` where there is no linker, or it refuses.
        StorageError: the disk refuses.
    """
    command = find_linker()
    flags = ("-shared", "-fPIC", "-Wl,-Bsymbolic", "-o")
    finished = subprocess.run(
        [*command, *flags, str(path), *map(str, objects)],
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
