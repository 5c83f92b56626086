"""The targets that `compile` makes programs for: each is one entry here and the folder of its name.

What both sides of a bundle must know of a target is in `edgewise_runtime.format.targets`. The
folder's ``program.py`` has ``make(job, tensors)``, which adds the target's programs to a bundle;
it is imported when the target is asked for, so that texts made from this table cost no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from edgewise_compiler.targets.cpu.linker import find_linker
from edgewise_compiler.targets.cuda.nvidia import find_nvidia
from edgewise_runtime.format import targets as formats

if TYPE_CHECKING:
    from edgewise_compiler.job import Job
    from edgewise_compiler.layouts.base import Tensors
    from edgewise_runtime.format.bundle import Program


@dataclass(frozen=True)
class TargetOption:
    """An argument of `compile_model`, and ``--name`` of the command line, that one target reads."""

    name: str
    default: str
    about: str


@dataclass(frozen=True)
class Target:
    """A target.

    Attributes:
        name: as people write it.
        layout: that its weights are packed in.
        batch: most sequences decoded together unless asked for.
        options: what can be asked of it alone.
        tools: each finds a program that making code calls, or raises the CompileError that says
            which one is missing; asked before any work is done.
    """

    name: str
    layout: str
    batch: int
    options: tuple[TargetOption, ...] = ()
    tools: tuple[Callable[[], object], ...] = ()

    @property
    def about(self) -> str:
        """What its programs are, for help texts."""
        return formats.TARGETS[self.name].about

    def make(self, job: Job, tensors: Tensors) -> tuple[Program, ...]:
        """Add the target's programs, over the tensors of its layout, to the bundle being built."""
        module = import_module(f"edgewise_compiler.targets.{self.name}.program")
        maker: Callable[[Job, Tensors], tuple[Program, ...]] = module.make
        return maker(job, tensors)


def check_tools(targets: Iterable[str]) -> None:
    """Raise the CompileError that names a program which making code for these targets needs."""
    for name in targets:
        for find in TARGETS[name].tools:
            find()


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "cpu",
            layout="cpu",
            batch=32,
            options=(
                TargetOption(
                    "cpu",
                    "native",
                    "native (the best one for this machine, the default), all, or avx512vnni, avx2 "
                    "or portable, on 64-bit ARM neon-dotprod or neon; for other machines "
                    "generic-arm64 (Linux) or apple-m1; several with commas between them",
                ),
            ),
            tools=(find_linker,),
        ),
        Target("webgpu", layout="gpu", batch=8),
        Target("vulkan", layout="gpu", batch=8),
        Target("cuda", layout="gpu", batch=8, tools=(find_nvidia,)),
        Target("metal", layout="gpu", batch=8),
    )
}
"""By name, in the order in which texts list them."""

DEFAULT_CONTEXT = 1 << 17
"""Most tokens of a sequence where nothing is asked for and the model has as many: its rotation's
table takes 64 MiB then, where heads are 128 wide."""

MAX_BATCH = 256
"""Most sequences decoded together that can be asked for."""


def default_batch(targets: Iterable[str]) -> int:
    """Most sequences decoded together where nothing is asked for.

    Buffers of the CPU take memory once a sequence uses them; a GPU's take it from the beginning,
    and a tab serves one person.
    """
    return min(TARGETS[target].batch for target in targets)


DEFAULT = ("cpu",)
"""What is compiled for where nothing is asked for."""
