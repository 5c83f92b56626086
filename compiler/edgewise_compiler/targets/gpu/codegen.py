"""Generating a kernel's code by one of TVM's printers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm.target import Target
from tvm.tirx import PrimFunc

from edgewise_compiler.kernels.gpu.limits import Limits, check_limits
from edgewise_compiler.targets.gpu import passes, registers
from edgewise_compiler.targets.gpu.passes import access_of, device_module, threads_of
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.gpu.spelling import Spelling, spelled
from edgewise_compiler.targets.kept import kept
from edgewise_runtime.errors import CompileError

_DRIVERS = tuple(Path(file) for file in (__file__, passes.__file__, registers.__file__))


@dataclass(frozen=True)
class Printer:
    """One of TVM's code generators.

    Attributes:
        language: what it writes, as errors name it.
        kind: of a TVM target, whose ``target.build.KIND`` it is.
        spellings: of all neutral operations.
        limits: what kernels are held to.
        bind: makes bindings in a text of what `registers.marked` has marked; without, they are
            arrays.
        drivers: the files that ``bind`` is in.
    """

    language: str
    kind: str
    spellings: Mapping[str, Spelling]
    limits: Limits
    bind: Callable[[str], str] = str
    drivers: tuple[Path, ...] = ()

    def shader(self, function: PrimFunc, **attributes: object) -> Shader:
        """Generate the code of one kernel, without comments and blank lines.

        That the text keeps the kernel's arguments, all of them and in order, is for the language
        to see: each writes them in its own way.

        Args:
            attributes: of the TVM target, besides those that every kind has.

        Raises:
            CompileError: the kernel is beyond the limits, asks for an operation that has no
                spelling, or TVM cannot express it.
        """
        name = str(function.attrs["global_symbol"])
        check_limits(function, self.limits)
        words = spelled(function, self.spellings, self.language)
        target = self._target(attributes)
        module = tvm.IRModule({name: words})
        made = kept(
            lambda: self._generate(name, module, target), module, target, *_DRIVERS, *self.drivers
        )
        # TVM names what runs on the device after the function that it is split from.
        return Shader(made.decode(), f"{name}_kernel", threads_of(function), access_of(function))

    def _target(self, attributes: Mapping[str, object]) -> Target:
        # A warp of one thread keeps TVM from writing warp-synchronous code of its own.
        common = {
            "kind": self.kind,
            "max_num_threads": self.limits.threads,
            "max_shared_memory_per_block": self.limits.shared,
            "thread_warp_size": 1,
        }
        return Target({**common, **attributes}, host="llvm")

    def _generate(self, name: str, module: tvm.IRModule, target: Target) -> bytes:
        try:
            return self._printed(module, target).encode()
        except Exception as cause:
            # The first line of TVM's errors says nothing; the last one does.
            why = str(cause).strip().splitlines()[-1:] or [type(cause).__name__]
            raise CompileError(f"Kernel {name!r} has no {self.language}: {why[0]}") from cause

    def _printed(self, module: tvm.IRModule, target: Target) -> str:
        lowered = device_module(module, target)
        for symbol, function in lowered.functions.items():
            lowered[symbol] = registers.marked(function)
        built = tvm.get_global_func(f"target.build.{self.kind}")(lowered, target)
        # TVM repeats its comments and writes blank lines.
        lines = [line.rstrip() for line in str(built.inspect_source()).splitlines()]
        text = "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"
        return self.bind(text)
