"""PrimFuncs to a shared library for one instruction set."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import tvm
from tvm.support.cc import create_shared
from tvm.tirx import PrimFunc

from edgewise_compiler.targets.cpu_isa import Isa
from edgewise_runtime.errors import CompileError

COMPILERS = ("cc", "gcc", "clang")


def find_linker() -> str:
    """The C compiler that links libraries.

    Raises:
        CompileError: none is on the PATH.
    """
    for name in COMPILERS:
        if path := shutil.which(name):
            return path
    raise CompileError(
        f"No C compiler found to link kernels (looked for {', '.join(COMPILERS)}).",
        remedy="Install one, for example: apt install gcc.",
        code="compile.linker",
    )


def build_library(functions: Sequence[PrimFunc], isa: Isa, path: Path) -> None:
    """Compile kernels and host functions into the shared library ``path``.

    Calls between functions bind inside the library, so two loaded programs never mix.

    Raises:
        CompileError: no linker, or LLVM or the linker refused the code.
    """
    linker = find_linker()
    module = tvm.IRModule({str(f.attrs["global_symbol"]): f for f in functions})
    try:
        with tvm.transform.PassContext(opt_level=3):
            built = tvm.compile(module, target=isa.target())
        built.export_library(
            str(path),
            fcompile=create_shared,
            cc=linker,
            options=["-shared", "-fPIC", "-Wl,-Bsymbolic"],
        )
    except Exception as error:
        raise CompileError(
            f"Code generation for {isa.name!r} failed: {str(error).strip()[-2000:]}",
            remedy="Run with --debug-dump DIR and report the kernels it writes.",
            code="compile.codegen",
        ) from error
