"""The entry point of a module as it is written: instructions in blocks, each value computed once.

A pure instruction is not repeated where its result is at hand: in the block, or in one that
dominates it. What nothing uses is left out in the end. So kernels may bind and write out what they
like, and the texts that drivers compile stay short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from edgewise_compiler.targets.vulkan import opcodes as spv
from edgewise_compiler.targets.vulkan.module import Kind, Module, Value
from edgewise_compiler.targets.vulkan.opcodes import EXTENDED, OPCODES

_EXACT = frozenset(OPCODES[name] for name in ("FAdd", "FSub", "FMul", "FDiv"))
"""What a driver might fuse or reorder; fma is one of the extended instructions."""


class Instruction(NamedTuple):
    """An instruction; ``result`` is 0 where it is there for its effect. The words of a phi at the
    head of a loop are complete when the loop is."""

    opcode: int
    result: int
    words: Sequence[int]


class Function:
    """Blocks of instructions, of which the last is being written."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.start = self.block = module.new()
        self.variables: list[int] = []
        self.parts: dict[int, tuple[int, ...]] = {}
        self._instructions: list[Instruction] = []
        self._known: list[dict[tuple[object, ...], int]] = [{}]

    def pure(self, name: str, kind: Kind, *operands: int) -> Value:
        """The result of an instruction without effects."""
        key = (name, kind, *operands)
        for known in reversed(self._known):
            found = known.get(key)
            if found is not None:
                return Value(found, kind)
        made = self.once(name, kind, *operands)
        self._known[-1][key] = made.id
        return made

    def once(self, name: str, kind: Kind, *operands: int) -> Value:
        """The result of an instruction that may give another one next time."""
        result = self.module.new()
        words = (self.module.kind(kind), result, *operands)
        self._instructions.append(Instruction(OPCODES[name], result, words))
        return Value(result, kind)

    def effect(self, name: str, *operands: int) -> None:
        """An instruction that stays."""
        self._instructions.append(Instruction(OPCODES[name], 0, operands))

    def needed(self, name: str, kind: Kind, *operands: int) -> Value:
        """The result of an instruction that stays, used or not."""
        result = self.module.new()
        words = (self.module.kind(kind), result, *operands)
        self._instructions.append(Instruction(OPCODES[name], 0, words))
        return Value(result, kind)

    def pointer(self, storage: int, kind: Kind, base: int, *indices: int) -> int:
        """Where an element of a variable is."""
        type_ = self.module.type("TypePointer", storage, self.module.kind(kind))
        key = ("AccessChain", type_, base, *indices)
        for known in reversed(self._known):
            if key in known:
                return known[key]
        made = self._known[-1][key] = self.module.new()
        words = (type_, made, base, *indices)
        self._instructions.append(Instruction(OPCODES["AccessChain"], made, words))
        return made

    def extended(self, name: str, kind: Kind, *operands: int) -> Value:
        """The result of an instruction of GLSL.std.450."""
        return self.pure("ExtInst", kind, self.module.extended, EXTENDED[name], *operands)

    def construct(self, kind: Kind, parts: tuple[int, ...]) -> Value:
        """A vector of these lanes."""
        if all(map(self.module.is_constant, parts)):
            made = Value(self.module.composite(kind, parts), kind)
        else:
            made = self.pure("CompositeConstruct", kind, *parts)
        self.parts[made.id] = parts
        return made

    def variable(self, type_: int) -> int:
        """A variable of each thread."""
        made = self.module.new()
        pointer = self.module.type("TypePointer", spv.FUNCTION, type_)
        self.variables += (4 << 16 | OPCODES["Variable"], pointer, made, spv.FUNCTION)
        return made

    def label(self, name: int) -> None:
        """Begin a block."""
        self.effect("Label", name)
        self.block = name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is computed inside is not at hand behind it."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def phi(self, kind: Kind, *pairs: int) -> Value:
        """What came from one block or from another: a value and its block, and again."""
        return self.once("Phi", kind, *pairs)

    def open_phi(self, kind: Kind, first: int, block: int) -> tuple[Value, list[int]]:
        """A value at the head of a loop, and the words to which the other pair is to be added."""
        result = self.module.new()
        words = [self.module.kind(kind), result, first, block]
        self._instructions.append(Instruction(OPCODES["Phi"], result, words))
        return Value(result, kind), words

    def assemble(
        self, entry: str, interface: Sequence[int], threads: tuple[int, int, int]
    ) -> bytes:
        """The module with this function."""
        live = self._live()
        body: list[int] = []
        for opcode, result, words in self._instructions:
            if result and result not in live:
                continue
            body.append(len(words) + 1 << 16 | opcode)
            body += words
            if opcode in _EXACT or (opcode == OPCODES["ExtInst"] and words[3] == EXTENDED["Fma"]):
                self.module.decorate(result, spv.NO_CONTRACTION)
        return self.module.assemble(entry, interface, threads, self.variables, body, self.start)

    def _live(self) -> set[int]:
        """Results that something with an effect follows from."""
        made = {one.result: one.words for one in self._instructions if one.result}
        left = [word for one in self._instructions if not one.result for word in one.words]
        live: set[int] = set()
        while left:
            word = left.pop()
            if word in made and word not in live:
                live.add(word)
                # A literal may look like an id: then too much is kept.
                left += made[word]
        return live
