"""Kernel calls to a plan: constant offsets for temporaries, and its host function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tvm.tirx import PrimFunc

from edgewise_compiler.plan.calls import Call, PlanCalls, Tensor
from edgewise_compiler.plan.host import HostCall, StopTable, host_function
from edgewise_compiler.plan.storages import Lifetime, assign_storages
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format import plan as p
from edgewise_runtime.format.abi import MAX_PAGES, RING
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr
from edgewise_runtime.format.plan_checks import check_shared, check_states_written
from edgewise_runtime.format.state import PAGES
from edgewise_runtime.format.targets import TARGETS


@dataclass(frozen=True)
class BuiltPlan:
    """A plan, the kernels it calls by symbol, and its generated host function where it has one."""

    plan: p.Plan
    host: PrimFunc | None
    kernels: Mapping[str, PrimFunc]


def build_plan(
    calls: PlanCalls,
    symbols: tuple[p.Symbol, ...],
    target: str,
    entry: Callable[[str], str] = str,
) -> BuiltPlan:
    """Plan memory for the temporaries of ``calls`` and write everything down.

    Args:
        entry: what a kernel is called in the compiled code, by its name.

    Raises:
        CompileError: two different kernels claim one symbol, or a temporary is read before a step
            wrote it.
        PlanError: the result fails a check of its own format.
    """
    storage_of, sizes = assign_storages(_lifetimes(calls))
    scratch = [f"scratch.{i}" for i in range(len(sizes))]
    place = {key: scratch[index] for key, index in storage_of.items()}

    named: dict[str, Tensor] = {}
    kernels: dict[str, p.Kernel] = {}
    functions: dict[str, PrimFunc] = {}
    steps: list[p.Step] = []
    for call in calls.calls:
        symbol = str(call.kernel.attrs["global_symbol"])
        if functions.setdefault(symbol, call.kernel) is not call.kernel:
            raise CompileError(
                f"Two different kernels are called {symbol!r}.",
                remedy="A kernel factory must put every parameter into its symbol.",
            )
        kernels[symbol] = _kernel(entry(symbol), call)
        named |= {a.tensor.name: a.tensor for a in call.arguments if a.tensor.role != "scratch"}
        steps.append(_step(symbol, call, place))

    buffers = [_buffer(tensor) for tensor in named.values()]
    buffers += [
        p.Buffer(name, "scratch", "uint8", (size,), size)
        for name, size in zip(scratch, sizes, strict=True)
    ]
    plan = p.Plan(
        name=calls.name,
        target=target,
        symbols=symbols,
        buffers=tuple(buffers),
        kernels=kernels,
        steps=tuple(steps),
        host=f"plan_{calls.name}" if TARGETS[target].host else None,
        max_burst=RING if calls.repeats else 1,
    )
    return BuiltPlan(plan, _host(plan, stops=calls.repeats), functions)


def plan_symbols(rows: int, batch: int, context: int | None = None) -> tuple[p.Symbol, ...]:
    """The symbols of a program's plans; ``t`` only where a grid depends on the context."""
    reach = () if context is None else (p.Symbol("t", "step", 1, context),)
    return (
        p.Symbol(PAGES, "load", 1, MAX_PAGES),
        p.Symbol("n", "step", 1, rows),
        p.Symbol("b", "step", 1, batch),
        p.Symbol("r", "step", 1, batch),
        *reach,
    )


def check_program(plans: Iterable[p.Plan]) -> None:
    """Check a program's plans together: they agree on what they share, and all state is written."""
    everything = tuple(plans)
    check_shared(everything)
    check_states_written(everything)


def _lifetimes(calls: PlanCalls) -> list[Lifetime]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    size: dict[str, int] = {}
    for index, call in enumerate(calls.calls):
        for argument in call.arguments:
            tensor = argument.tensor
            if tensor.role != "scratch":
                continue
            if tensor.name not in first and argument.access != "write":
                raise CompileError(
                    f"Plan {calls.name!r}, {call.label}: {tensor.name!r} is read before any write."
                )
            first.setdefault(tensor.name, index)
            last[tensor.name] = index
            size[tensor.name] = tensor.bytes
    return [Lifetime(name, size[name], first[name], last[name]) for name in first]


def _kernel(symbol: str, call: Call) -> p.Kernel:
    args = tuple(
        p.KernelArg(f"{param.name}_{i}", a.tensor.dtype, a.tensor.shape, a.access)
        for i, (param, a) in enumerate(zip(call.kernel.params, call.arguments, strict=True))
    )
    return p.Kernel(symbol, args, p.Cost(call.bytes, call.flops))


def _step(symbol: str, call: Call, place: Mapping[str, str]) -> p.Step:
    bound = [(place.get(a.tensor.name, a.tensor.name), a.access) for a in call.arguments]
    return p.Step(
        kernel=symbol,
        bindings=tuple(p.Binding(name) for name, _ in bound),
        grid=(*call.grid, 1),
        reads=tuple(dict.fromkeys(name for name, access in bound if access != "write")),
        writes=tuple(dict.fromkeys(name for name, access in bound if access != "read")),
        label=call.label,
    )


def _host(plan: p.Plan, *, stops: bool) -> PrimFunc | None:
    """A plan's host function; `stops`: it ends where every sequence has."""
    if plan.host is None:
        return None
    numbers = {view: number for number, view in enumerate(plan.views)}
    calls = [
        HostCall(step.kernel, tuple(numbers[view] for view in plan.views_of(step)))
        for step in plan.steps
    ]
    table = _stop_table(numbers) if stops else None
    return host_function(plan.host, len(numbers), calls, table=table)


def _stop_table(views: Mapping[p.View, int]) -> StopTable:
    numbers = {view.buffer: number for view, number in views.items()}
    shape = next(view.shape for view in views if view.buffer == "table")
    height, width = (extent for extent in shape if isinstance(extent, int))
    return StopTable(numbers["step"], numbers["table"], (height, width))


def _buffer(tensor: Tensor) -> p.Buffer:
    size: Expr = 1
    fixed = DTYPES[tensor.dtype]
    for extent in tensor.shape:
        if isinstance(extent, int):
            fixed *= extent
        else:
            size = extent if size == 1 else ("mul", size, extent)
    total: Expr = fixed if size == 1 else ("mul", size, fixed)
    return p.Buffer(tensor.name, tensor.role, tensor.dtype, tensor.shape, total)
