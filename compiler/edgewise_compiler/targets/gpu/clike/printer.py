"""Generating a kernel's code by our own printer, for languages that look like C."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm.target import Target
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.gpu.limits import Limits, check_limits
from edgewise_compiler.targets.gpu import passes, registers
from edgewise_compiler.targets.gpu.clike import dialect as dialects
from edgewise_compiler.targets.gpu.clike import expressions, kernel
from edgewise_compiler.targets.gpu.clike.dialect import Dialect, Signature
from edgewise_compiler.targets.gpu.clike.kernel import kernel_text, parameters_of
from edgewise_compiler.targets.gpu.passes import access_of, device_module, threads_of
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.kept import kept

_DRIVERS = tuple(
    Path(file)
    for file in (
        __file__,
        passes.__file__,
        registers.__file__,
        dialects.__file__,
        expressions.__file__,
        kernel.__file__,
    )
)


@dataclass(frozen=True)
class ClikePrinter:
    """Prints kernels in one dialect.

    Attributes:
        dialect: the language.
        limits: what kernels are held to.
        drivers: the source files that the dialect is written in.
    """

    dialect: Dialect
    limits: Limits
    drivers: tuple[Path, ...]

    def shader(self, function: PrimFunc) -> Shader:
        """Generate the code of one kernel. Its function has the kernel's name, and a pointer for
        each argument, under its own name and in order.

        Raises:
            CompileError: the kernel is beyond the limits, or asks for what the language, or the
                printer, has no word for.
        """
        name = str(function.attrs["global_symbol"])
        check_limits(function, self.limits)
        access, threads = access_of(function), threads_of(function)
        subgroups = bool(function.attrs["edgewise.subgroups"])
        signature = Signature(name, parameters_of(function, access), threads[0], subgroups)
        module = tvm.IRModule({name: function})
        target = self._target()

        def make() -> bytes:
            (lowered,) = device_module(module, target).functions.values()
            return kernel_text(self.dialect, signature, registers.named(lowered)).encode()

        made = kept(make, module, target, *_DRIVERS, *self.drivers)
        return Shader(made.decode(), name, threads, access)

    def _target(self) -> Target:
        # Of TVM's kinds the one whose rules leave functions their plain names, and write no code
        # of their own for warps.
        return Target(
            {
                "kind": "webgpu",
                "max_num_threads": self.limits.threads,
                "max_shared_memory_per_block": self.limits.shared,
                "thread_warp_size": 1,
            },
            host="llvm",
        )
