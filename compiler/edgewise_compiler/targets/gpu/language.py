"""A GPU target's part of a bundle: kernels and plans of every variant, in any language."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from tvm.tirx import PrimFunc

from edgewise_compiler.graph.build import (
    GPU_FEW_ROWS,
    GPU_MANY_ROWS,
    build_graphs,
    shared_sizes,
)
from edgewise_compiler.job import Job, write_dump
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.layouts.base import Tensors
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.plan.build import BuiltPlan, build_plan, check_program, plan_symbols
from edgewise_compiler.plan.calls import Call
from edgewise_compiler.targets.gpu.lowering import GpuLowering
from edgewise_compiler.targets.gpu.plans import PlanSet, plans
from edgewise_compiler.targets.gpu.shader import Shader
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.lowering import param_tensors, parts_of
from edgewise_compiler.targets.table import TARGETS
from edgewise_runtime.errors import CompileError, UnsupportedError
from edgewise_runtime.files import write_bytes, write_json
from edgewise_runtime.format.bundle import Entry, Needs, Program

MAX_COMPILERS = 8
"""Kernels whose binaries are made at the same time: each takes some hundred megabytes."""


@dataclass(frozen=True)
class Language:
    """What is a GPU target's own.

    Attributes:
        target: its name in the table.
        limits: what its kernels may have, and what people call it.
        suffix: of its kernels' files.
        shader: generates the code of one kernel.
        variants: the programs made for a weight scheme, by its name, and for pages as the option
            ``kv`` has them.
        features: what a program needs of a device, by its names in bundles.
        listing: a text of a binary kernel that people can read, where there is one.
        binary: makes the content of a kernel's file of its entry point and its text, where that
            is not the text; called by several threads at a time.
        text: suffix of the texts then.
        joining: whether a launch takes so long that a linear does what one before it would: each of
            its workgroups joins attention's segments, which are long, for them to be few.
    """

    target: str
    limits: Limits
    suffix: str
    shader: Callable[[PrimFunc], Shader]
    variants: Callable[[str, str], tuple[Variant, ...]]
    features: Callable[[Variant], tuple[str, ...]]
    listing: Callable[[bytes], str] | None = None
    binary: Callable[[str, str], bytes] | None = None
    text: str = ""
    joining: bool = False

    @property
    def shaders(self) -> str:
        """Where its kernels lie in a bundle: one that several variants use is one file."""
        return f"programs/{self.target}"


def make_programs(language: Language, job: Job, tensors: Tensors) -> tuple[Program, ...]:
    """Compile every variant over the tensors of their layout."""
    options, family = job.options, job.checkpoint.family
    widths = linear_widths(job.params)
    many = build_graphs(family, job.cfg, widths, GPU_MANY_ROWS)
    few = build_graphs(family, job.cfg, widths, GPU_FEW_ROWS)
    shared = shared_sizes(many)
    parts = parts_of(GPU, job.schemes, job.params)
    shaders: dict[str, Shader] = {}
    programs = []
    phase = f"Compiling for {language.limits.target}"
    default = options.recipe.default
    variants = language.variants(default.name, options.kv)
    for done, variant in enumerate(variants):
        job.tell(phase, done, len(variants))
        low = GpuLowering(
            shared,
            options.bounds,
            param_tensors(tensors),
            parts,
            variant.kv_dtype,
            variant,
            language.limits,
        )
        made = plans(low, many, few, joining=language.joining)
        built = build_program(language, low, made, shaders)
        write_dump(job, variant.name, _texts(language, built, shaders))
        make_binaries(language, shaders, job.tell)
        programs.append(
            write_program(language, job.folder, low, made, built, shaders, default.arithmetic)
        )
    job.tell(phase, len(variants), len(variants))
    return tuple(programs)


def make_binaries(
    language: Language, shaders: dict[str, Shader], tell: Callable[[str, int, int], None]
) -> None:
    """Make the binaries that are missing, if the language has any, some at the same time.

    Raises:
        CompileError: the first of them that is refused; those not begun are left out.
    """
    make = language.binary
    waiting = [] if make is None else [n for n, made in shaders.items() if made.binary is None]
    if make is None or not waiting:
        return
    phase = f"Compiling kernels for {language.limits.target}"
    tell(phase, 0, len(waiting))
    with ThreadPoolExecutor(min(MAX_COMPILERS, os.cpu_count() or 1)) as pool:
        calls = {pool.submit(make, shaders[n].entry, shaders[n].source): n for n in waiting}
        try:
            for done, call in enumerate(as_completed(calls), 1):
                shaders[calls[call]] = replace(shaders[calls[call]], binary=call.result())
                tell(phase, done, len(waiting))
        finally:
            pool.shutdown(cancel_futures=True)


def build_program(
    language: Language, low: GpuLowering, made: PlanSet, shaders: dict[str, Shader]
) -> tuple[BuiltPlan, ...]:
    """All plans of one program, checked against each other and against their shaders.

    Args:
        shaders: by kernel name; what is missing is generated.

    Raises:
        UnsupportedError: a buffer that is larger than one binding.
    """
    for plan in made.plans:
        for call in plan.calls:
            _check_call(language, call, shaders)
    symbols = plan_symbols(low.bounds.rows, low.bounds.batch, low.bounds.context)
    built = tuple(
        build_plan(calls, symbols, language.target, lambda name: shaders[name].entry)
        for calls in made.plans
    )
    check_program(item.plan for item in built)
    limits = language.limits
    for item in built:
        for buffer in item.plan.buffers:
            if isinstance(buffer.bytes, int) and buffer.bytes > limits.binding:
                raise UnsupportedError(
                    f"The buffer {buffer.name!r} takes {buffer.bytes >> 20:,} MiB; "
                    f"{limits.target} binds {limits.binding >> 20} at a time.",
                    remedy="Choose a smaller --prefill-chunk, --context or --max-batch.",
                    code="unsupported.binding",
                )
    return built


def _check_call(language: Language, call: Call, shaders: dict[str, Shader]) -> None:
    """Generate a call's shader, and hold it to what the plan says the kernel touches."""
    name = str(call.kernel.attrs["global_symbol"])
    if name not in shaders:
        shaders[name] = language.shader(call.kernel)
    for argument, access in zip(call.arguments, shaders[name].access, strict=True):
        if (argument.access == "read") != (access == "read"):
            raise CompileError(
                f"{call.label}: the kernel {name!r} has {argument.tensor.name!r} as {access}, "
                f"the plan as {argument.access}."
            )


def write_program(
    language: Language,
    folder: Path,
    low: GpuLowering,
    made: PlanSet,
    built: tuple[BuiltPlan, ...],
    shaders: Mapping[str, Shader],
    arithmetic: str,
) -> Program:
    """Write the plans and shaders of a program; shaders that are there already are shared.

    Args:
        arithmetic: of the weights, which the program names where it rounds activations.
    """
    variant = low.variant
    home = f"programs/{variant.name}"
    (folder / home / "plans").mkdir(parents=True)
    (folder / language.shaders).mkdir(parents=True, exist_ok=True)
    files, sources = {}, {}
    for item in built:
        files[item.plan.name] = f"{home}/plans/{item.plan.name}.json"
        write_json(folder / files[item.plan.name], item.plan.to_json())
        for name in item.kernels:
            sources[name] = f"{language.shaders}/{name}.{language.suffix}"
            if not (folder / sources[name]).exists():
                write_bytes(folder / sources[name], shaders[name].file)
    return Program(
        id=variant.name,
        target=language.target,
        arithmetic=variant.arithmetic(arithmetic),
        layout=TARGETS[language.target].layout,
        needs=Needs(None, language.features(variant)),
        library=None,
        plans=files,
        entries={
            operation: tuple(Entry(when, plan) for when, plan in choices)
            for operation, choices in made.entries.items()
        },
        state_dtype=variant.kv_dtype,
        page_bytes=low.page_bytes,
        decode_agrees=variant.serial,
        shaders=sources,
    )


def _texts(
    language: Language, built: tuple[BuiltPlan, ...], shaders: Mapping[str, Shader]
) -> Iterator[tuple[str, str]]:
    """Plans, kernels and shaders, for whoever debugs the compiler; of binaries their listings."""
    for item in built:
        yield f"plan.{item.plan.name}.json", json.dumps(item.plan.to_json(), indent=1)
        for name, function in item.kernels.items():
            yield f"kernel.{name}.py", function.script()
            made, file = shaders[name], f"kernel.{name}.{language.suffix}"
            if made.source and language.binary is not None:
                yield f"kernel.{name}.{language.text}", made.source
            elif made.binary is None:
                yield file, made.source
            elif language.listing is not None:
                yield f"{file}.txt", language.listing(made.binary)
