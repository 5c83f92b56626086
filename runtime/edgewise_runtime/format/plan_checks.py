"""What makes a plan safe to run: every check, each refusing with the value that fails it.

The contract of the checks: for every value a symbol may take, each kernel argument lies inside
its buffer. Sizes over load symbols are tried at the corners of their bounds when a plan is read,
and once more with the chosen values when a program is loaded (`check_extents`), where nothing is
symbolic but the step symbols and interval arithmetic is exact or too careful, never too lax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from edgewise_runtime.errors import PlanError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr, Range
from edgewise_runtime.format.reading import LIMIT, shorten
from edgewise_runtime.format.targets import TARGETS, KernelLimits, Target

if TYPE_CHECKING:
    from edgewise_runtime.format import plan as p

KV_SYMBOL = "kv"
"""Tokens of history per sequence: in cost expressions only, where it needs no declaration."""
KV_RANGE: Range = (0, 2**22)

ALIGNMENT = 256
"""Bytes that divide every binding's offset: what each graphics interface accepts."""

MAX_SIZE_SYMBOLS = 2
"""Load symbols that sizes may use: their corners are tried one by one."""


def check_plan(plan: p.Plan) -> None:
    """Run every check on one plan.

    Raises:
        PlanError: with the code of the first check that fails.
    """
    checker = _Checker(plan)
    target = checker.target()
    checker.symbols()
    checker.buffers()
    checker.kernels(target)
    checker.steps(target.limits)
    for load in _corners(plan):
        check_extents(plan, load)


def check_extents(plan: p.Plan, load: Mapping[str, int]) -> None:
    """Check that shapes fit their buffers and arguments their bindings at these load symbols.

    Raises:
        PlanError: ``plan.bytes``, ``plan.extent`` or ``plan.alias``.
    """
    checker = _Checker(plan)
    ranges = plan.ranges | {name: (value, value) for name, value in load.items()}
    sizes = {buffer.name: checker.buffer_size(buffer, ranges) for buffer in plan.buffers}
    extents: dict[str, tuple[int, ...]] = {
        name: tuple(ex.bounds(arg.bytes, ranges)[1] for arg in kernel.args)
        for name, kernel in plan.kernels.items()
    }
    for index, step in enumerate(plan.steps):
        checker.step_extents(index, step, sizes, extents[step.kernel])


def check_states_written(plans: Iterable[p.Plan]) -> None:
    """Check that every state buffer of a program is written by some step of some plan.

    TVM silently drops an in-place call whose result nobody uses.

    Raises:
        PlanError: ``plan.unwritten`` naming the state buffers nothing writes.
    """
    everything = list(plans)
    written = {name for plan in everything for step in plan.steps for name in step.writes}
    states = {b.name for plan in everything for b in plan.buffers if b.role == "state"}
    missing = sorted(states - written)
    if missing:
        raise PlanError(
            f"No plan writes the state {', '.join(missing[:8])}.", code="plan.unwritten"
        )


def check_shared(plans: Iterable[p.Plan]) -> None:
    """Check that plans of one program agree on what they share by name.

    Load symbols and every buffer but scratch must be declared alike; scratch may differ in size.

    Raises:
        PlanError: ``plan.shared`` naming both plans.
    """
    buffers: dict[str, tuple[str, p.Buffer]] = {}
    symbols: dict[str, tuple[str, p.Symbol]] = {}
    for plan in plans:
        for symbol in plan.load_symbols.values():
            owner, first = symbols.setdefault(symbol.name, (plan.name, symbol))
            if first != symbol:
                raise _disagreement("symbol", symbol.name, owner, plan.name)
        for buffer in plan.buffers:
            owner, known = buffers.setdefault(buffer.name, (plan.name, buffer))
            if known != buffer and (known.role != "scratch" or buffer.role != "scratch"):
                raise _disagreement("buffer", buffer.name, owner, plan.name)


def _disagreement(what: str, name: str, first: str, second: str) -> PlanError:
    return PlanError(
        f"Plans {first!r} and {second!r} declare the {what} {name!r} differently.",
        code="plan.shared",
    )


def _corners(plan: p.Plan) -> Iterator[dict[str, int]]:
    """Every combination of smallest and largest values of the load symbols sizes use."""
    used: set[str] = set()
    for buffer in plan.buffers:
        used |= ex.symbols(buffer.bytes)
        used |= {name for dim in buffer.shape for name in ex.symbols(dim)}
    names = sorted(used & plan.load_symbols.keys())
    if len(names) > MAX_SIZE_SYMBOLS:
        message = f"Plan {plan.name!r}: sizes use {len(names)} symbols, over {MAX_SIZE_SYMBOLS}."
        raise PlanError(message, code="plan.symbol")
    for values in product(*({plan.ranges[n][0], plan.ranges[n][1]} for n in names)):
        yield dict(zip(names, values, strict=True))


_Extent: TypeAlias = "tuple[int, int, p.KernelArg]"
"""The bytes of a buffer that an argument is given: the first, the one after the last, and whose."""


def _overlapping(extents: list[_Extent]) -> tuple[p.KernelArg, p.KernelArg] | None:
    """Two arguments of one buffer that overlap although one of them is written."""
    reach: _Extent | None = None
    written: _Extent | None = None
    for one in sorted(extents, key=itemgetter(0)):
        other = reach if one[2].writes else written
        if other is not None and one[0] < other[1]:
            return other[2], one[2]
        if reach is None or one[1] > reach[1]:
            reach = one
        if one[2].writes and (written is None or one[1] > written[1]):
            written = one
    return None


class _Checker:
    """The checks of one plan, so that every error can name it."""

    def __init__(self, plan: p.Plan) -> None:
        self.plan = plan

    def fail(self, code: str, where: str, message: str) -> PlanError:
        place = f", {where}" if where else ""
        return PlanError(f"Plan {self.plan.name!r}{place}: {message}.", code=f"plan.{code}")

    def unique(self, what: str, names: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise self.fail("duplicate", "", f"two {what} are called {name!r}")
            seen.add(name)

    def bounds(self, where: str, expr: Expr, ranges: Mapping[str, Range]) -> Range:
        try:
            return ex.bounds(expr, ranges)
        except PlanError as error:
            raise self.fail(error.code.removeprefix("plan."), where, error.message[:-1]) from error

    def positive(self, where: str, expr: Expr, ranges: Mapping[str, Range]) -> Range:
        low, high = self.bounds(where, expr, ranges)
        if low < 1:
            shown = shorten(ex.to_json(expr))
            raise self.fail("size", where, f"{shown} can be {low}, and a size is at least 1")
        return low, high

    def target(self) -> Target:
        target = TARGETS.get(self.plan.target)
        if target is None:
            raise self.fail("target", "", f"no target is called {shorten(self.plan.target)}")
        if (self.plan.host is not None) != target.host:
            message = f"target {self.plan.target!r} and the host function disagree"
            raise self.fail("host", "", message)
        return target

    def symbols(self) -> None:
        self.unique("symbols", (symbol.name for symbol in self.plan.symbols))
        for s in self.plan.symbols:
            if not 0 <= s.min <= s.max < LIMIT:
                raise self.fail(
                    "bounds", f"symbol {s.name!r}", f"bounds {s.min}..{s.max} are empty"
                )

    def buffers(self) -> None:
        self.unique("buffers", (buffer.name for buffer in self.plan.buffers))
        load = {name: self.plan.ranges[name] for name in self.plan.load_symbols}
        for buffer in self.plan.buffers:
            where = f"buffer {buffer.name!r}"
            for dim in buffer.shape:
                self.positive(where, dim, load)
            self.positive(where, buffer.bytes, load)
            if buffer.role == "scratch":
                self.scratch(where, buffer)
            if buffer.role == "param" and ex.symbols(buffer.bytes):
                raise self.fail("param", where, "the size of a parameter cannot vary")

    def scratch(self, where: str, buffer: p.Buffer) -> None:
        if buffer.dtype != "uint8" or not isinstance(buffer.bytes, int):
            raise self.fail("scratch", where, "scratch is uint8 and of a constant size")
        if buffer.shape != (buffer.bytes,):
            raise self.fail("scratch", where, f"scratch has the shape [{buffer.bytes}]")

    def buffer_size(self, buffer: p.Buffer, ranges: Mapping[str, Range]) -> int:
        where = f"buffer {buffer.name!r}"
        size = self.bounds(where, buffer.bytes, ranges)[0]
        needed = DTYPES[buffer.dtype]
        for dim in buffer.shape:
            needed *= self.bounds(where, dim, ranges)[1]
        if needed > size:
            message = f"its shape takes {needed} bytes, and 'bytes' is {size}"
            raise self.fail("bytes", where, message)
        return size

    def kernels(self, target: Target) -> None:
        ranges = self.plan.ranges
        cost_ranges = {KV_SYMBOL: KV_RANGE} | ranges
        if target.host:
            # A host function is handed its tensors once: a step cannot change their shapes.
            ranges = {name: ranges[name] for name in self.plan.load_symbols}
        for name, kernel in self.plan.kernels.items():
            where = f"kernel {name!r}"
            self.unique(f"arguments of {name!r}", (arg.name for arg in kernel.args))
            for arg in kernel.args:
                for dim in arg.shape:
                    self.positive(f"{where}, argument {arg.name!r}", dim, ranges)
                self.positive(f"{where}, argument {arg.name!r}", arg.bytes, ranges)
            for cost in (kernel.cost.bytes, kernel.cost.flops) if kernel.cost else ():
                if self.bounds(f"{where}, cost", cost, cost_ranges)[0] < 0:
                    raise self.fail("cost", where, "a cost can be negative")

    def steps(self, limits: KernelLimits | None) -> None:
        buffers = self.plan.buffer_table
        for index, step in enumerate(self.plan.steps):
            where = f"step {index} ({step.kernel})"
            kernel = self.plan.kernels.get(step.kernel)
            if kernel is None:
                raise self.fail("unknown_name", where, f"no kernel is called {step.kernel!r}")
            if len(step.bindings) != len(kernel.args):
                counts = f"{len(step.bindings)} bindings for {len(kernel.args)} arguments"
                raise self.fail("args", where, counts)
            for arg, binding in zip(kernel.args, step.bindings, strict=True):
                self.binding(where, arg, binding, buffers.get(binding.buffer))
            largest = [self.positive(f"{where}, grid", e, self.plan.ranges)[1] for e in step.grid]
            if limits is not None:
                self.limits(where, kernel, largest, limits)
            self.touched(where, step, kernel)

    def limits(self, where: str, kernel: p.Kernel, grid: list[int], most: KernelLimits) -> None:
        if len(kernel.args) > most.buffers:
            message = f"{len(kernel.args)} buffers, and a shader has {most.buffers}"
            raise self.fail("limits", where, message)
        if any(found > allowed for found, allowed in zip(grid, most.workgroups, strict=True)):
            message = f"up to {grid} workgroups, over {list(most.workgroups)} in x, y or z"
            raise self.fail("limits", where, message)

    def binding(
        self, where: str, arg: p.KernelArg, binding: p.Binding, buffer: p.Buffer | None
    ) -> None:
        where = f"{where}, argument {arg.name!r}"
        if buffer is None:
            raise self.fail("unknown_name", where, f"no buffer is called {binding.buffer!r}")
        if binding.offset < 0 or binding.offset % ALIGNMENT:
            message = f"offset {binding.offset} in {buffer.name!r} is no multiple of {ALIGNMENT}"
            raise self.fail("offset", where, message)
        if buffer.role != "scratch" and arg.dtype != buffer.dtype:
            message = f"{buffer.name!r} is {buffer.dtype}, the kernel takes {arg.dtype}"
            raise self.fail("args", where, message)
        if buffer.role == "param" and arg.writes:
            raise self.fail("access", where, f"the kernel writes the parameter {buffer.name!r}")

    def touched(self, where: str, step: p.Step, kernel: p.Kernel) -> None:
        pairs = list(zip(kernel.args, step.bindings, strict=True))
        expected = {
            "reads": {binding.buffer for arg, binding in pairs if arg.reads},
            "writes": {binding.buffer for arg, binding in pairs if arg.writes},
        }
        for what, declared in (("reads", step.reads), ("writes", step.writes)):
            if set(declared) != expected[what] or len(set(declared)) != len(declared):
                difference = sorted(set(declared) ^ expected[what]) or sorted(declared)
                message = f"{what!r} disagrees with the kernel's access about {difference[:4]}"
                raise self.fail("access", where, message)

    def step_extents(
        self, index: int, step: p.Step, sizes: Mapping[str, int], extents: tuple[int, ...]
    ) -> None:
        where = f"step {index} ({step.kernel})"
        args = self.plan.kernels[step.kernel].args
        taken: dict[str, list[_Extent]] = {}
        for arg, binding, extent in zip(args, step.bindings, extents, strict=True):
            start, end = binding.offset, binding.offset + extent
            if end > sizes[binding.buffer]:
                raise self.fail(
                    "extent",
                    f"{where}, argument {arg.name!r}",
                    f"bytes {start}..{end} reach past {binding.buffer!r}, "
                    f"which has {sizes[binding.buffer]}",
                )
            taken.setdefault(binding.buffer, []).append((start, end, arg))
        for buffer, found in taken.items():
            if both := _overlapping(found):
                names = " and ".join(repr(arg.name) for arg in both)
                message = f"{names} overlap in {buffer!r}, and one of them is written"
                raise self.fail("alias", where, message)
