"""Random kernels, each a tree of statements that can be had as TIR and computed by NumPy.

A kernel has registers of all kinds, a local array, shared memory, a buffer it reads and one it
writes its registers to. What drivers may round as they like is kept exact: floats are multiples of
a sixteenth that stay below 4096, and operands of fma are small whole numbers; no result follows
from the sign of a zero. What is divided is small, since integers that wrap around are no indices
(`targets.vulkan.arithmetic`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu import operations as ops
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    kernel,
    local,
    shared,
    store,
    when,
)

THREADS, GROUPS = 32, 2
COUNT = THREADS * GROUPS
WORDS = 64
"""Elements of the buffer that a kernel reads, a power of two."""
SLOTS = 4
"""Elements of its local array."""

KINDS = ("int32", "uint32", "float32", "bool", "float32x4", "float32x2", "uint32x4", "float16x2")
REGISTERS = tuple((kind, i) for kind in KINDS for i in range(2))
WRITTEN = {"int32": 0, "uint32": 2, "float32": 4, "bool": 6, "float32x4": 8, "uint32x4": 16}
"""Where registers are in the uint32 that a thread writes; the others are added to those."""
FLOATS = ((4, 6), (8, 16), (24, 28))
"""Of these which are floats."""
ROW = 28

Node = tuple[Any, ...]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Program:
    """The statements of a kernel, and the number it was drawn by."""

    seed: int
    body: tuple[Node, ...]


class Drawing:
    """Draws a program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = 0

    def choose(self, *options: Callable[[], Node]) -> Node:
        return self.random.choice(options)()

    def body(self, depth: int, *, uniform: bool) -> tuple[Node, ...]:
        return tuple(self.statement(depth, uniform) for _ in range(self.random.randint(2, 5)))

    def statement(self, depth: int, uniform: bool) -> Node:
        options = [self.assignment] * 4 + [self.slot]
        if uniform:
            options.append(lambda: ("exchange", self.whole(2), self.random.randint(0, 31)))
        if depth:
            options += [
                lambda: ("if", self.truth(2), self.body(depth - 1, uniform=False), ()),
                lambda: (
                    "if",
                    self.truth(2),
                    self.body(depth - 1, uniform=False),
                    self.body(depth - 1, uniform=False),
                ),
                lambda: self.loop(depth, uniform),
                lambda: ("while", self.random.randint(1, 5), self.body(depth - 1, uniform=False)),
            ]
        return self.choose(*options)

    def loop(self, depth: int, uniform: bool) -> Node:
        fixed = self.random.random() < 0.6
        turns = ("int32", self.random.randint(1, 4)) if fixed else ("and", self.whole(1), 3)
        self.loops += 1
        body = self.body(depth - 1, uniform=uniform and fixed)
        self.loops -= 1
        kind = self.random.choice(("for", "unrolled")) if fixed else "for"
        return (kind, self.random.randint(0, 2), turns, body)

    def assignment(self) -> Node:
        kind, i = self.random.choice(REGISTERS)
        return ("set", kind, i, self.expression(kind, 3))

    def slot(self) -> Node:
        at = ("int32", self.random.randrange(SLOTS))
        index = at if self.random.random() < 0.5 else ("and", self.whole(1), SLOTS - 1)
        return ("slot", index, self.whole(2))

    def expression(self, kind: str, depth: int) -> Node:
        match kind:
            case "int32":
                return self.whole(depth)
            case "uint32":
                return self.word(depth)
            case "float32":
                return self.number(depth)
            case "bool":
                return self.truth(depth)
            case "float16x2":
                return ("halves", self.small(1), self.small(1), self.random.choice("+*"))
        return self.vector(kind, depth)

    def whole(self, depth: int) -> Node:
        options = [
            lambda: ("int32", self.random.choice((-7, -1, 0, 1, 2, 3, 31, 1000, -(2**31)))),
            lambda: ("thread",),
            lambda: ("group",),
            lambda: ("register", "int32", self.random.randrange(2)),
            lambda: ("turn", self.random.randrange(self.loops) if self.loops else 0),
        ]
        if depth:
            a, b = (lambda: self.whole(depth - 1)), (lambda: self.whole(depth - 1))
            options = [
                lambda: (self.random.choice("+-*&|^"), a(), b()),
                lambda: (self.random.choice(("min", "max")), a(), b()),
                lambda: (self.random.choice(("<<", ">>")), a(), self.random.randint(0, 31)),
                lambda: (
                    self.random.choice(("floordiv", "floormod", "div", "mod")),
                    ("narrow", a(), self.random.choice((0, 300))),
                    self.random.choice((1, 2, 3, 7, 8, 10)),
                ),
                lambda: ("select", self.truth(depth - 1), a(), b()),
                lambda: ("load", ("and", a(), WORDS - 1)),
                lambda: ("slots", ("and", a(), SLOTS - 1)),
                lambda: ("cast", "int32", self.word(depth - 1)),
                lambda: ("cast", "int32", ("grid", self.number(depth - 1))),
                lambda: ("cast", "int32", self.truth(depth - 1)),
                *options,
            ]
        return self.choose(*options)

    def word(self, depth: int) -> Node:
        options = [
            lambda: ("uint32", self.random.choice((0, 1, 5, 255, 2**31, 2**32 - 1))),
            lambda: ("register", "uint32", self.random.randrange(2)),
            lambda: ("lane", ("register", "uint32x4", self.random.randrange(2)), self.four()),
        ]
        if depth:
            a, b = (lambda: self.word(depth - 1)), (lambda: self.word(depth - 1))
            options = [
                lambda: (self.random.choice("+-*&|^"), a(), b()),
                lambda: (self.random.choice(("<<", ">>")), a(), self.random.randint(0, 31)),
                lambda: (
                    self.random.choice(("floordiv", "floormod")),
                    a(),
                    self.random.choice((1, 3, 8, 10)),
                ),
                lambda: (self.random.choice(("min", "max")), a(), b()),
                lambda: ("select", self.truth(depth - 1), a(), b()),
                lambda: ("cast", "uint32", self.whole(depth - 1)),
                lambda: ("bits", "uint32", ("abs", self.number(depth - 1))),
                *options,
            ]
        return self.choose(*options)

    def number(self, depth: int) -> Node:
        options = [
            lambda: ("float32", self.random.choice((0.0, 0.5, -1.25, 3.0, 100.0))),
            lambda: ("register", "float32", self.random.randrange(2)),
            lambda: ("lane", ("register", "float32x4", self.random.randrange(2)), self.four()),
        ]
        if depth:
            a, b = (lambda: self.number(depth - 1)), (lambda: self.number(depth - 1))
            options = [
                lambda: (self.random.choice(("+", "-", "*", "min", "max")), a(), b()),
                lambda: ("fma", self.small(1), self.small(1), self.small(1)),
                lambda: ("abs", a()),
                lambda: ("round", a()),
                lambda: ("select", self.truth(depth - 1), a(), b()),
                lambda: ("cast", "float32", self.whole(depth - 1)),
                lambda: ("lane", ("register", "float16x2", self.random.randrange(2)), 0),
                *options,
            ]
        return ("grid", self.choose(*options))

    def small(self, depth: int) -> Node:
        return ("small", self.number(depth))

    def truth(self, depth: int) -> Node:
        options = [lambda: ("register", "bool", self.random.randrange(2))]
        if depth:
            a, b = (lambda: self.truth(depth - 1)), (lambda: self.truth(depth - 1))
            kind = self.random.choice((self.whole, self.word, self.number))
            compared = self.random.choice(("<", "<=", ">", ">=", "==", "!="))
            options += [
                lambda: (compared, kind(depth - 1), kind(depth - 1)),
                lambda: (self.random.choice(("all", "any")), a(), b()),
                lambda: ("not", a()),
            ]
        return self.choose(*options)

    def vector(self, kind: str, depth: int) -> Node:
        scalar, lanes = kind[:-2], int(kind[-1])
        part = self.word if scalar == "uint32" else self.number
        options = [
            lambda: ("register", kind, self.random.randrange(2)),
            lambda: ("splat", kind, part(1)),
            lambda: ("vector", kind, *(part(1) for _ in range(lanes))),
        ]
        if depth:
            a, b = (lambda: self.vector(kind, depth - 1)), (lambda: self.vector(kind, depth - 1))
            signs = "+&|^" if scalar == "uint32" else "+-*"
            options += [
                lambda: (self.random.choice(signs), a(), b()),
                lambda: ("select", self.truth(1), a(), b()),
            ]
            if kind == "float32x4":
                pairs = [("register", "float32x2", self.random.randrange(2)) for _ in range(2)]
                options.append(lambda: ("join", *pairs))
        made = self.choose(*options)
        return made if scalar == "uint32" else ("grid", made)

    def four(self) -> int:
        return self.random.randrange(4)


def drawn(seed: int) -> Program:
    """The program of a number."""
    return Program(seed, Drawing(seed).body(3, uniform=True))


def words() -> Array:
    """What the buffer that programs read holds."""
    return np.random.default_rng(5).integers(-(2**31), 2**31, WORDS, np.int32)


class Writer:
    """Writes a program as TIR."""

    def __init__(self, thread: Thread, read: Buffer) -> None:
        self.thread, self.read = thread, read
        self.registers = {key: local((1,), key[0]) for key in REGISTERS}
        self.slots, self.exchange = local((SLOTS,), "int32"), shared((THREADS,), "int32")
        self.turns: list[Any] = []
        for (kind, _), register in self.registers.items():
            store(register, zero(kind), 0)
        for i in range(SLOTS):
            store(self.slots, 0, i)

    def write(self, body: Sequence[Node]) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: Node) -> None:
        match node:
            case ("set", kind, i, value):
                store(self.registers[kind, i], self.value(value), 0)
            case ("slot", index, value):
                store(self.slots, self.value(value), self.value(index))
            case ("exchange", value, mask):
                store(self.exchange, self.value(value), self.thread.t)
                barrier()
                store(self.registers["int32", 0], self.exchange[self.thread.t ^ ops.i32(mask)], 0)
                barrier()
            case ("if", condition, then, ()):
                with when(self.value(condition)):
                    self.write(then)
            case ("if", condition, then, otherwise):
                with T.If(self.value(condition)):
                    with T.Then():
                        self.write(then)
                    with T.Else():
                        self.write(otherwise)
            case ("while", turns, body):
                left = local((1,), "int32")
                store(left, turns, 0)
                with T.While(left[0] > 0):
                    store(left, left[0] - 1, 0)
                    self.write(body)
            case (("for" | "unrolled") as kind, first, turns, body):
                loop = T.serial if kind == "for" else T.unroll
                with loop(first, first + self.value(turns)) as turn:
                    self.turns.append(turn)
                    self.write(body)
                    self.turns.pop()

    def value(self, node: Node) -> Any:
        match node:
            case (("int32" | "uint32" | "float32") as kind, value):
                # Bound, or TVM would compute with it, and refuse to wrap around.
                return T.bind(
                    ops.number(value, kind) if kind[0] == "f" else tirx.const(value, kind)
                )
            case ("thread",):
                return self.thread.t
            case ("group",):
                return self.thread.x
            case ("turn", i):
                return self.turns[i] if i < len(self.turns) else self.thread.t
            case ("register", kind, i):
                return self.registers[kind, i][0]
            case ("load", index):
                return self.read[self.value(index)]
            case ("slots", index):
                return self.slots[self.value(index)]
            case ("and", a, mask):
                return apart(self.value(a)) & ops.i32(mask)
            case ("narrow", a, less):
                return (apart(self.value(a)) & ops.i32(1023)) - ops.i32(less)
            case ("cast", kind, a):
                return ops.cast(self.value(a), kind)
            case ("bits", kind, a):
                return ops.bits(self.value(a), kind)
            case ("lane", a, i):
                lane = ops.lane(self.value(a), i)
                return ops.f32(lane) if str(lane.ty) == "float16" else lane
            case ("splat", kind, a):
                return ops.splat(self.value(a), int(kind[-1]))
            case ("vector", _, *parts):
                return ops.vector_of(*map(self.value, parts))
            case ("join", a, b):
                return ops.join(self.value(a), self.value(b))
            case ("halves", a, b, sign):
                pair = ops.vector_of(*(ops.cast(self.value(x), "float16") for x in (a, b)))
                return pair + pair if sign == "+" else pair * pair
            case ("select", condition, a, b):
                a, b = self.value(a), self.value(b)
                chosen = ops.select if ops.lanes_of(a) > 1 else tirx.Select
                return chosen(self.value(condition), a, b)
            case ("grid", a):
                return on_grid(self.value(a))
            case ("small", a):
                return bounded(ops.nearest(self.value(a)), 32.0)
        name, *arguments = node
        return _TIR[name](*(a if isinstance(a, int) else self.value(a) for a in arguments))


def apart(x: Any) -> Any:
    """An integer that the compiler's bounds of indices are not taken through."""
    return ops.bits(ops.bits(x, "uint32"), "int32")


def on_grid(x: Any) -> Any:
    """A float to the next sixteenth, and into bounds."""
    like = ops.dtype_of(x)
    return bounded(ops.nearest(x * ops.number(16.0, like)) * ops.number(1 / 16, like), 4096.0)


def bounded(x: Any, most: float) -> Any:
    like = ops.dtype_of(x)
    return T.max(T.min(x, ops.number(most, like)), ops.number(-most, like))


def zero(kind: str) -> Any:
    if kind == "bool":
        return tirx.const(False, "bool")
    scalar, _, lanes = kind.partition("x")
    nothing = ops.number(0.0, scalar) if scalar.startswith("float") else tirx.const(0, scalar)
    return ops.splat(nothing, int(lanes)) if lanes else nothing


def _constant(operation: Callable[[Any, Any], Any]) -> Callable[[Any, int], Any]:
    return lambda a, b: operation(a, tirx.const(b, ops.dtype_of(a)))


_TIR: Mapping[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": _constant(lambda a, b: a << b),
    ">>": _constant(lambda a, b: a >> b),
    "min": T.min,
    "max": T.max,
    "floordiv": _constant(tirx.floordiv),
    "floormod": _constant(tirx.floormod),
    "div": _constant(tirx.truncdiv),
    "mod": _constant(tirx.truncmod),
    "fma": ops.fma,
    "abs": ops.magnitude,
    "round": ops.nearest,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": tirx.EQ,
    "!=": tirx.NE,
    "all": tirx.And,
    "any": tirx.Or,
    "not": tirx.Not,
}


def launch_of(program: Program) -> Launch:
    """The kernel of a program: it reads `words` and writes `ROW` uint32 a thread."""

    def body(thread: Thread, read: Buffer, out: Buffer) -> None:
        writer = Writer(thread, read)
        writer.write(program.body)
        at = thread.x * THREADS + thread.t
        held = writer.registers
        for (kind, i), register in held.items():
            value = register[0]
            match kind:
                case "int32" | "bool":
                    store(out, ops.u32(value), at, WRITTEN[kind] + i)
                case "uint32":
                    store(out, value, at, WRITTEN[kind] + i)
                case "float32":
                    store(out, ops.bits(value, "uint32"), at, WRITTEN[kind] + i)
                case "float32x4" | "uint32x4":
                    for lane in range(4):
                        word = ops.lane(value, lane)
                        store(
                            out,
                            ops.bits(word, "uint32") if kind[0] == "f" else word,
                            at,
                            WRITTEN[kind] + 4 * i + lane,
                        )
        for i, kind in enumerate(("float32x2", "float16x2")):
            for lane in range(2):
                one = ops.f32(ops.lane(held[kind, 0][0], lane))
                store(out, ops.bits(one, "uint32"), at, 24 + 2 * i + lane)

    arguments = [Arg("read", "int32", (WORDS,)), Arg("out", "uint32", (COUNT, ROW))]
    name = f"drawn_{program.seed}"
    return kernel(name, arguments, body, threads=THREADS, grid=(GROUPS, 1), bounds={})
