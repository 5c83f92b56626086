"""Random kernels computed by NumPy: all threads side by side, each statement under a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.compiler.targets.vulkan.programs import (
    COUNT,
    REGISTERS,
    ROW,
    SLOTS,
    THREADS,
    WRITTEN,
    Array,
    Node,
    Program,
)


def computed(program: Program, read: Array) -> Array:
    """What a program writes, by NumPy: ``[COUNT, ROW]`` uint32."""
    runner = Runner(read)
    with np.errstate(over="ignore"):
        runner.run(program.body, np.ones(COUNT, bool))
    out = np.zeros((COUNT, ROW), np.uint32)
    for (kind, i), register in runner.registers.items():
        if kind in WRITTEN:
            lanes = register.reshape(COUNT, -1)
            plain = lanes.astype(np.uint32) if kind == "bool" else lanes.view(np.uint32)
            at = WRITTEN[kind] + lanes.shape[1] * i
            out[:, at : at + lanes.shape[1]] = plain
    for i, kind in enumerate(("float32x2", "float16x2")):
        pair = runner.registers[kind, 0].astype(np.float32)
        out[:, 24 + 2 * i : 26 + 2 * i] = pair.view(np.uint32)
    return out


class Runner:
    """Registers and memory of all threads."""

    def __init__(self, read: Array) -> None:
        self.read = read
        self.registers = {key: zeros(key[0]) for key in REGISTERS}
        self.slots = np.zeros((COUNT, SLOTS), np.int32)
        self.threads = np.arange(COUNT, dtype=np.int32) % THREADS
        self.turns: list[Array] = []

    def run(self, body: Sequence[Node], mask: Array) -> None:
        for node in body:
            self.statement(node, mask)

    def statement(self, node: Node, mask: Array) -> None:
        match node:
            case ("set", kind, i, value):
                self.set(kind, i, self.value(value), mask)
            case ("slot", index, value):
                at, what = self.value(index), self.value(value)
                self.slots[mask, at[mask]] = what[mask]
            case ("exchange", value, other):
                shared = self.value(value).reshape(-1, THREADS)
                got = shared[:, np.arange(THREADS) ^ other].reshape(-1)
                self.set("int32", 0, got, mask)
            case ("if", condition, then, otherwise):
                holds = self.value(condition)
                self.run(then, mask & holds)
                self.run(otherwise, mask & ~holds)
            case ("while", turns, body):
                for _ in range(turns):
                    self.run(body, mask)
            case ("for" | "unrolled", first, turns, body):
                most = self.value(turns)
                for turn in range(int(most.max())):
                    self.turns.append(np.full(COUNT, first + turn, np.int32))
                    self.run(body, mask & (turn < most))
                    self.turns.pop()

    def set(self, kind: str, i: int, value: Array, mask: Array) -> None:
        old = self.registers[kind, i]
        where = mask if old.ndim == 1 else mask[:, None]
        self.registers[kind, i] = np.where(where, value, old).astype(old.dtype)

    def value(self, node: Node) -> Array:
        match node:
            case (("int32" | "uint32" | "float32") as kind, value):
                return np.full(COUNT, value, kind)
            case ("thread",):
                return self.threads
            case ("group",):
                return np.arange(COUNT, dtype=np.int32) // THREADS
            case ("turn", i):
                return self.turns[i] if i < len(self.turns) else self.threads
            case ("register", kind, i):
                return self.registers[kind, i]
            case ("load", index):
                return self.read[self.value(index)]
            case ("slots", index):
                return self.slots[np.arange(COUNT), self.value(index)]
            case ("and", a, mask):
                return self.value(a) & np.int32(mask)
            case ("narrow", a, less):
                return (self.value(a) & np.int32(1023)) - np.int32(less)
            case ("cast", kind, a):
                return self.value(a).astype(kind)
            case ("bits", kind, a):
                return self.value(a).view(kind)
            case ("lane", a, i):
                lane = self.value(a)[:, i]
                return lane.astype(np.float32) if lane.dtype == np.float16 else lane
            case ("splat", kind, a):
                return np.repeat(self.value(a)[:, None], int(kind[-1]), 1)
            case ("vector", _, *parts):
                return np.stack([self.value(part) for part in parts], 1)
            case ("join", a, b):
                return np.concatenate([self.value(a), self.value(b)], 1)
            case ("halves", a, b, sign):
                pair = np.stack([self.value(x).astype(np.float16) for x in (a, b)], 1)
                return pair + pair if sign == "+" else pair * pair
            case ("select", condition, a, b):
                a, b = self.value(a), self.value(b)
                holds = self.value(condition)
                return np.where(holds if a.ndim == 1 else holds[:, None], a, b)
            case ("grid", a):
                x = np.rint(self.value(a) * np.float32(16)) * np.float32(1 / 16)
                return bounded(x, np.float32(4096))
            case ("small", a):
                return bounded(np.rint(self.value(a)), np.float32(32))
        name, *arguments = node
        given = [a if isinstance(a, int) else self.value(a) for a in arguments]
        return _NUMPY[name](*given)


def zeros(kind: str) -> Array:
    scalar, _, lanes = kind.partition("x")
    return np.zeros((COUNT, int(lanes)) if lanes else COUNT, scalar)


def bounded(x: Array, most: np.float32) -> Array:
    return np.clip(x, -most, most)


def _divided(a: Array, b: int) -> Array:
    return (np.sign(a) * (np.abs(a) // b)).astype(np.int32)


_NUMPY: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": lambda a, b: np.left_shift(a, a.dtype.type(b)),
    ">>": lambda a, b: np.right_shift(a, a.dtype.type(b)),
    "min": np.minimum,
    "max": np.maximum,
    "floordiv": lambda a, b: a // a.dtype.type(b),
    "floormod": lambda a, b: a % a.dtype.type(b),
    "div": _divided,
    "mod": lambda a, b: a - _divided(a, b) * np.int32(b),
    "fma": lambda a, b, c: a * b + c,
    "abs": np.abs,
    "round": np.rint,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "all": np.logical_and,
    "any": np.logical_or,
    "not": np.logical_not,
}
