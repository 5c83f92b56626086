"""Reading a plan from JSON that nobody vouches for."""

from __future__ import annotations

from edgewise_runtime.errors import PlanError
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.abi import RING
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr
from edgewise_runtime.format.plan import (
    ACCESSES,
    KINDS,
    ROLES,
    Binding,
    Buffer,
    Cost,
    Kernel,
    KernelArg,
    Plan,
    Step,
    Symbol,
)
from edgewise_runtime.format.reading import LIMIT, NAME, Fields
from edgewise_runtime.format.seal import VERSION
from edgewise_runtime.format.targets import TARGETS

MAX_SYMBOLS, MAX_BUFFERS, MAX_KERNELS, MAX_STEPS, MAX_ARGS, MAX_DIMS = 16, 16384, 4096, 65536, 64, 8


def read_plan(value: object) -> Plan:
    """`Plan.from_json`.

    Raises:
        PlanError: whatever is wrong with it; nothing else.
    """
    fields = Fields(value, "A plan", PlanError)
    fields.version(VERSION)
    name = fields.text("name", NAME)
    where = f"Plan {name!r}"
    fields.where = where
    plan = Plan(
        name=name,
        target=fields.choice("target", tuple(TARGETS)),
        symbols=tuple(
            _read_symbol(Fields(item, f"{where}, symbol {i}", PlanError))
            for i, item in enumerate(fields.items("symbols", most=MAX_SYMBOLS))
        ),
        buffers=tuple(
            _read_buffer(Fields(item, f"{where}, buffer {i}", PlanError))
            for i, item in enumerate(fields.items("buffers", most=MAX_BUFFERS))
        ),
        kernels={
            key: _read_kernel(Fields(item, f"{where}, kernel {key!r}", PlanError))
            for key, item in fields.table("kernels", most=MAX_KERNELS).items()
        },
        steps=tuple(
            _read_step(Fields(item, f"{where}, step {i}", PlanError))
            for i, item in enumerate(fields.items("steps", most=MAX_STEPS))
        ),
        host=fields.text("host", NAME) if fields.has("host") else None,
        max_burst=fields.integer("max_burst", 1, RING),
    )
    fields.done()
    return plan


def _read_expr(fields: Fields, value: object) -> Expr:
    try:
        return ex.parse(value)
    except PlanError as error:
        raise PlanError(f"{fields.where}: {error.message}", code=error.code) from error


def _read_shape(fields: Fields) -> tuple[Expr, ...]:
    return tuple(_read_expr(fields, item) for item in fields.items("shape", most=MAX_DIMS))


def _read_symbol(fields: Fields) -> Symbol:
    symbol = Symbol(
        name=fields.text("name", NAME),
        kind=fields.choice("kind", KINDS),
        min=fields.integer("min", 0, LIMIT - 1),
        max=fields.integer("max", 0, LIMIT - 1),
    )
    fields.done()
    return symbol


def _read_buffer(fields: Fields) -> Buffer:
    name = fields.text("name", NAME)
    fields.where += f" {name!r}"
    buffer = Buffer(
        name=name,
        role=fields.choice("role", ROLES),
        dtype=fields.choice("dtype", tuple(DTYPES)),
        shape=_read_shape(fields),
        bytes=_read_expr(fields, fields.get("bytes")),
    )
    fields.done()
    return buffer


def _read_kernel(fields: Fields) -> Kernel:
    cost = None
    if fields.has("cost"):
        part = Fields(fields.get("cost"), f"{fields.where}, cost", PlanError)
        cost = Cost(
            bytes=_read_expr(part, part.get("bytes")), flops=_read_expr(part, part.get("flops"))
        )
        part.done()
    kernel = Kernel(
        symbol=fields.text("symbol", NAME),
        args=tuple(
            _read_arg(Fields(item, f"{fields.where}, argument {i}", PlanError))
            for i, item in enumerate(fields.items("args", most=MAX_ARGS))
        ),
        cost=cost,
    )
    fields.done()
    return kernel


def _read_arg(fields: Fields) -> KernelArg:
    arg = KernelArg(
        name=fields.text("name", NAME),
        dtype=fields.choice("dtype", tuple(DTYPES)),
        shape=_read_shape(fields),
        access=fields.choice("access", ACCESSES),
    )
    fields.done()
    return arg


def _read_step(fields: Fields) -> Step:
    kernel = fields.text("kernel", NAME)
    fields.where += f" ({kernel})"
    grid = fields.items("grid", most=3)
    if len(grid) != 3:
        raise fields.fail("grid", f"'grid' must have 3 entries, found {len(grid)}")
    x, y, z = (_read_expr(fields, item) for item in grid)
    step = Step(
        kernel=kernel,
        bindings=tuple(
            _read_binding(Fields(item, f"{fields.where}, binding {i}", PlanError))
            for i, item in enumerate(fields.items("bindings", most=MAX_ARGS))
        ),
        grid=(x, y, z),
        reads=fields.names("reads", most=MAX_ARGS),
        writes=fields.names("writes", most=MAX_ARGS),
        label=fields.text("label"),
    )
    fields.done()
    return step


def _read_binding(fields: Fields) -> Binding:
    binding = Binding(fields.text("buffer", NAME), fields.integer("offset", 0, LIMIT - 1))
    fields.done()
    return binding
