"""The plan: a flat list of kernel launches over a static memory layout, as frozen dataclasses.

`Plan` objects are always valid: building one, from JSON or from the compiler, runs every check in
`plan_checks`. What varies is a symbol with bounds; sizes, grids and costs are expressions over
symbols (`expr`). Nothing here launches anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgewise_runtime.errors import PlanError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr, Range
from edgewise_runtime.format.plan_checks import (
    KV_RANGE,
    KV_SYMBOL,
    check_extents,
    check_plan,
    check_shared,
    check_states_written,
)
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.seal import VERSION

__all__ = [
    "ACCESSES",
    "DTYPES",
    "KINDS",
    "KV_RANGE",
    "KV_SYMBOL",
    "ROLES",
    "VERSION",
    "Binding",
    "Buffer",
    "Cost",
    "Kernel",
    "KernelArg",
    "Plan",
    "Step",
    "Symbol",
    "View",
    "check_extents",
    "check_shared",
    "check_states_written",
]

ROLES = ("param", "state", "input", "output", "scratch")
KINDS = ("load", "step")
ACCESSES = ("read", "write", "readwrite")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A bounded integer: `load` symbols are chosen once, `step` symbols vary from call to call."""

    name: str
    kind: str
    min: int
    max: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory. `shape` and `bytes` range over load symbols; scratch is raw uint8.

    State is zero when a program has been loaded.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[Expr, ...]
    bytes: Expr


@dataclass(frozen=True, slots=True)
class KernelArg:
    """One buffer argument as the kernel sees it."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    access: str

    @property
    def reads(self) -> bool:
        return self.access != "write"

    @property
    def writes(self) -> bool:
        return self.access != "read"

    @property
    def bytes(self) -> Expr:
        """Extent in bytes as an expression."""
        size: Expr = DTYPES[self.dtype]
        for dim in self.shape:
            size = (
                size * dim if isinstance(size, int) and isinstance(dim, int) else ("mul", size, dim)
            )
        return size


@dataclass(frozen=True, slots=True)
class Cost:
    """Bytes moved and floating point (or integer) operations of one launch, over any symbols."""

    bytes: Expr
    flops: Expr


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its symbol in the library or shader and its arguments in order."""

    symbol: str
    args: tuple[KernelArg, ...]
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """The buffer bound to an argument, from a constant byte offset that 256 divides."""

    buffer: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One launch. `reads` and `writes` name the buffers the kernel's arguments touch."""

    kernel: str
    bindings: tuple[Binding, ...]
    grid: tuple[Expr, Expr, Expr] = (1, 1, 1)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor that a launch is given: a buffer from a byte offset on, typed and shaped."""

    buffer: str
    offset: int
    dtype: str
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Plan:
    """A checked plan of one target. See the module for what the parts mean.

    It may be repeated up to `max_burst` times a call; repetitions in which every sequence has
    stopped (`abi.STOP`) do nothing. `host` is the symbol of the compiled function that launches all
    of it, where the target has one: it takes `views`, then k (int32).

    Raises:
        PlanError: on construction, quoting the plan, the step, the buffer and the value.
    """

    name: str
    target: str
    symbols: tuple[Symbol, ...]
    buffers: tuple[Buffer, ...]
    kernels: Mapping[str, Kernel]
    steps: tuple[Step, ...]
    host: str | None = None
    max_burst: int = 1
    version: int = field(default=VERSION)

    def __post_init__(self) -> None:
        check_plan(self)

    @cached_property
    def buffer_table(self) -> dict[str, Buffer]:
        """Buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    def views_of(self, step: Step) -> tuple[View, ...]:
        """The tensors of a launch, in the order of its kernel's arguments."""
        return tuple(
            View(binding.buffer, binding.offset, arg.dtype, arg.shape)
            for arg, binding in zip(self.kernels[step.kernel].args, step.bindings, strict=True)
        )

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The tensors of all launches, each once, as they come first: a buffer is there once for
        each type and shape that kernels see it as, so that the host function makes no tensors."""
        return tuple(dict.fromkeys(view for step in self.steps for view in self.views_of(step)))

    @cached_property
    def load_symbols(self) -> dict[str, Symbol]:
        """Load symbols by name."""
        return {symbol.name: symbol for symbol in self.symbols if symbol.kind == "load"}

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Inclusive bounds of every symbol."""
        return {symbol.name: (symbol.min, symbol.max) for symbol in self.symbols}

    def resolve(self, load: Mapping[str, int]) -> dict[str, int]:
        """Check values for the load symbols and return exactly those this plan declares.

        Raises:
            PlanError: ``plan.symbol`` for a missing value, ``plan.range`` for one out of bounds.
        """
        for symbol in self.load_symbols.values():
            value = load.get(symbol.name)
            if value is None:
                raise PlanError(
                    f"Plan {self.name!r} needs a value for the symbol {symbol.name!r}.",
                    code="plan.symbol",
                )
            if not symbol.min <= value <= symbol.max:
                raise PlanError(
                    f"Plan {self.name!r}: {symbol.name!r} = {shorten(value)} is outside "
                    f"{symbol.min}..{symbol.max}.",
                    code="plan.range",
                )
        return {name: load[name] for name in self.load_symbols}

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `Plan.from_json` of it gives an equal plan back."""
        return {
            "version": self.version,
            "name": self.name,
            "target": self.target,
            "max_burst": self.max_burst,
            "symbols": [
                {"name": s.name, "kind": s.kind, "min": s.min, "max": s.max} for s in self.symbols
            ],
            "buffers": [_buffer_to_json(buffer) for buffer in self.buffers],
            "kernels": {name: _kernel_to_json(kernel) for name, kernel in self.kernels.items()},
            "steps": [_step_to_json(step) for step in self.steps],
        } | ({} if self.host is None else {"host": self.host})

    @staticmethod
    def from_json(value: object) -> Plan:
        """Read a plan from parsed JSON that nobody vouches for.

        Raises:
            PlanError: whatever is wrong with it; nothing else.
        """
        # The reader builds these classes, so it can only be imported once they exist.
        from edgewise_runtime.format.plan_reader import read_plan

        return read_plan(value)


def _exprs_to_json(exprs: tuple[Expr, ...]) -> list[Any]:
    return [ex.to_json(item) for item in exprs]


def _buffer_to_json(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "role": buffer.role,
        "dtype": buffer.dtype,
        "shape": _exprs_to_json(buffer.shape),
        "bytes": ex.to_json(buffer.bytes),
    }


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    args = [
        {"name": a.name, "dtype": a.dtype, "shape": _exprs_to_json(a.shape), "access": a.access}
        for a in kernel.args
    ]
    data: dict[str, Any] = {"symbol": kernel.symbol, "args": args}
    if kernel.cost is not None:
        cost = kernel.cost
        data["cost"] = {"bytes": ex.to_json(cost.bytes), "flops": ex.to_json(cost.flops)}
    return data


def _step_to_json(step: Step) -> dict[str, Any]:
    return {
        "kernel": step.kernel,
        "bindings": [{"buffer": b.buffer, "offset": b.offset} for b in step.bindings],
        "grid": _exprs_to_json(step.grid),
        "reads": list(step.reads),
        "writes": list(step.writes),
        "label": step.label,
    }
