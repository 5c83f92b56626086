"""The CPU's part of a bundle: a library with plans for each ISA path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tvm.tirx import PrimFunc

from edgewise_compiler.graph.build import CPU_FLOAT, CPU_INTEGER, build_graphs, shared_sizes
from edgewise_compiler.graph.hidden import HIDDEN
from edgewise_compiler.graph.nodes import Graph
from edgewise_compiler.job import Job, write_dump
from edgewise_compiler.kernels.cpu.isa import Isa
from edgewise_compiler.layouts.base import Tensors
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.plan.build import BuiltPlan, build_plan, check_program, plan_symbols
from edgewise_compiler.state import KV_SUFFIXES
from edgewise_compiler.targets.cpu.codegen import build_library
from edgewise_compiler.targets.cpu.lower import ARITHMETICS, CpuLowering, plans
from edgewise_compiler.targets.lowering import param_tensors, parts_of
from edgewise_compiler.targets.table import TARGETS
from edgewise_runtime.errors import CompileError
from edgewise_runtime.files import write_json
from edgewise_runtime.format.bundle import Entry, Needs, Program

TARGET = "cpu"
LAYOUT = TARGETS[TARGET].layout


def make(job: Job, tensors: Tensors) -> tuple[Program, ...]:
    """Compile one program for each ISA path asked for, over the tensors of its layout."""
    options = job.options
    arithmetic = ARITHMETICS[options.recipe.default.arithmetic]
    passes = CPU_INTEGER if arithmetic.exact else CPU_FLOAT
    graphs = build_graphs(job.checkpoint.family, job.cfg, linear_widths(job.params), passes)
    shared, params = shared_sizes(graphs), param_tensors(tensors)
    parts = parts_of(CPU, job.schemes, job.params)
    programs = []
    for isa in options.isas:
        phase = f"Compiling for {isa.label}"
        job.tell(phase, 0, 1)
        kv_dtype = options.kv_dtype(arithmetic.kv_dtype)
        low = CpuLowering(shared, options.bounds, params, parts, kv_dtype, arithmetic, isa.name)
        built = build_program(low, graphs)
        write_dump(job, _program_id(low, isa), _texts(graphs, built))
        programs.append(_write_program(job.folder, low, built, isa, partial(job.tell, phase)))
    return tuple(programs)


def _program_id(low: CpuLowering, isa: Isa) -> str:
    own = low.kv_dtype == low.arithmetic.kv_dtype
    suffix = "" if own else KV_SUFFIXES[low.kv_dtype]
    return f"cpu-{low.arithmetic.name}-{isa.label}{suffix}"


def build_program(low: CpuLowering, graphs: Mapping[str, Graph]) -> tuple[BuiltPlan, ...]:
    """All plans of one program, checked against each other."""
    symbols = plan_symbols(low.bounds.rows, low.bounds.batch)
    built = tuple(build_plan(calls, symbols, TARGET) for calls in plans(low, graphs))
    check_program(item.plan for item in built)
    return built


def _write_program(
    folder: Path,
    low: CpuLowering,
    built: Sequence[BuiltPlan],
    isa: Isa,
    progress: Callable[[int, int], None],
) -> Program:
    program_id = _program_id(low, isa)
    home = f"programs/{program_id}"
    library = f"{home}/kernels.so"
    (folder / home / "plans").mkdir(parents=True)
    functions: dict[str, PrimFunc] = {}
    for item in built:
        for symbol, function in item.kernels.items():
            if functions.setdefault(symbol, function) is not function:
                raise CompileError(f"Two plans mean different kernels by {symbol!r}.")
    hosts = [item.host for item in built if item.host is not None]
    build_library(functions, hosts, isa, folder / library, progress)
    files = {}
    for item in built:
        files[item.plan.name] = f"{home}/plans/{item.plan.name}.json"
        write_json(folder / files[item.plan.name], item.plan.to_json())
    rows, batch = (1, low.bounds.rows), (1, low.bounds.batch)
    when = {
        "embed": ("n", rows),
        "prefill": ("n", rows),
        "logits": ("r", batch),
        HIDDEN: ("r", batch),
    }
    return Program(
        id=program_id,
        target=TARGET,
        arithmetic=low.arithmetic.name,
        layout=LAYOUT,
        needs=Needs(isa.arch, isa.needs),
        library=library,
        plans=files,
        entries={name: (Entry(dict([when.get(name, ("b", batch))]), name),) for name in files},
        state_dtype=low.kv_dtype,
        page_bytes=low.page_bytes,
        decode_agrees=low.arithmetic.exact,
    )


def _texts(graphs: Mapping[str, Graph], built: Sequence[BuiltPlan]) -> Iterator[tuple[str, str]]:
    """Graphs, kernels, plans and host functions, for whoever debugs the compiler."""
    for graph in graphs.values():
        yield f"graph.{graph.name}.txt", graph.text()
    for item in built:
        yield f"plan.{item.plan.name}.json", json.dumps(item.plan.to_json(), indent=1)
        if item.host is not None:
            yield f"host.{item.plan.name}.py", item.host.script()
        for symbol, function in item.kernels.items():
            yield f"kernel.{symbol}.py", function.script()
