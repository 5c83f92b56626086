"""What a thread of a WGSL kernel does, counted from its text: loads, multiplications, the rest.

    python -m tools.shader_operations KERNEL.wgsl [--per N]

A loop counts as often as it is run, a condition as if it held, an operation once for each lane of
its vectors (of float16 for each two). Divided by N, for instance the weights that a thread takes,
they compare one way of writing a kernel with another. A driver makes other instructions of them:
NVIDIA and AMD have one for an AND and an OR, most have none for a bit cast.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_TOKEN = re.compile(
    r"\s*(vec\d<\w+>|bitcast<[\w<>]+>|[A-Za-z_]\w*|\d[\w.]*(?:(?<=e)[+-]\d+\w?)?"
    r"|>>|<<|<=|>=|==|!=|&&|\|\||.)"
)
_ARRAY = re.compile(r"var(<[\w, ]+>)? (\w+) : array<([\w<>]+?)(?:, \d+)?>;")
_LET = re.compile(r"(?:let|var) (\w+) : ([\w<>]+) = (.*);")
_FOR = re.compile(r"for \(var (\w+) : i32 = (-?\d+)i; \w+ < (-?\d+)i; .*\{")
_STORE = re.compile(r"(\w+)\[.*\] = ")
_KINDS = {"f32": "float", "f16": "half", "u32": "integer", "i32": "index", "bool": "index"}


@dataclass(frozen=True)
class Type:
    """An element type, and how many lanes."""

    scalar: str
    lanes: int = 1

    @property
    def operations(self) -> int:
        """Operations of one on such a value."""
        return -(-self.lanes // 2) if self.scalar == "f16" else self.lanes


def type_of(text: str) -> Type:
    """The type that WGSL writes so."""
    vector = re.fullmatch(r"vec(\d)<(\w+)>", text)
    return Type(vector[2], int(vector[1])) if vector else Type(text)


@dataclass
class Counting:
    """Counts of a text by what is done; ``times`` is how often the statement at hand is run."""

    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, Type] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)
    times: int = 1
    within_index: bool = False
    tokens: list[str] = field(default_factory=list)

    def note(self, what: str, count: int) -> None:
        """``count`` operations; all that finds a place in memory is one kind."""
        self.counts["index" if self.within_index else what] += count * self.times

    def text(self, source: str) -> None:
        """All statements of a kernel."""
        around: list[int] = []  # how often what is around each open brace is run
        for line in source.splitlines():
            words = line.strip()
            if words.startswith("}"):
                self.times = around.pop()
            if array := _ARRAY.search(words):
                space = "memory" if "storage" in (array[1] or "") else (array[1] or "")
                self.names[array[2]], self.spaces[array[2]] = type_of(array[3]), space
            elif words.endswith("{"):
                around.append(self.times)
                if loop := _FOR.match(words):
                    self.names[loop[1]] = Type("i32")
                    self.times *= int(loop[3]) - int(loop[2])
                elif words.startswith("if ("):
                    self.expression(words[3:-1])
            elif let := _LET.match(words):
                self.expression(let[3])
                self.names[let[1]] = type_of(let[2])
            elif store := _STORE.match(words):
                self.store(store[1], words.removesuffix(";"))

    def store(self, name: str, words: str) -> None:
        """An assignment to an element of an array."""
        place, value = words.split("] = ", 1)
        if self.spaces.get(name):
            with self.index():
                self.expression(place.split("[", 1)[1])
            self.note("store", 1)
        self.expression(value)

    def expression(self, text: str) -> None:
        """An expression."""
        self.tokens = _TOKEN.findall(text.strip())[::-1]
        self.binary()

    def binary(self) -> Type:
        """Operands and what is between them; TVM puts parentheses around all that matters."""
        found = self.operand()
        while self.tokens and self.tokens[-1] not in ")],":
            self.tokens.pop()
            other = self.operand()
            found = max(found, other, key=lambda t: t.lanes)
            self.note(_KINDS[found.scalar], found.operations)
        return found

    def operand(self) -> Type:
        """A number, a name, a call or what is in parentheses, and what is taken of it."""
        token = self.tokens.pop()
        if token == "-":
            return self.operand()
        if token == "(":
            found = self.binary()
            self.tokens.pop()
        elif self.tokens and self.tokens[-1] == "(":
            found = self.call(token)
        else:
            number = token[0].isdigit()
            scalar = {"f": "f32", "h": "f16", "u": "u32"}.get(token[-1], "i32")
            found = Type(scalar) if number else self.names.get(token, Type("i32"))
        while self.tokens and self.tokens[-1] in (".", "["):
            if self.tokens.pop() == ".":
                self.tokens.pop()
                continue
            space = self.spaces.get(token)
            if space is None:  # a lane of a vector
                self.binary()
                found = Type(found.scalar)
            else:
                with self.index():
                    self.binary()
                if space:
                    self.note("load" if space == "memory" else "shared load", 1)
            self.tokens.pop()
            token = ""
        return found

    def call(self, name: str) -> Type:
        """A call; what only says which lanes are which takes nothing."""
        self.tokens.pop()
        arguments = [self.binary()]
        while self.tokens.pop() == ",":
            arguments.append(self.binary())
        widest = max(arguments, key=lambda t: t.lanes)
        if name == "unpack2x16float":
            self.note("float", 2)
            return Type("f32", 2)
        if name.startswith(("vec", "bitcast")) or name in ("f32", "f16", "u32", "i32"):
            found = type_of(name.removeprefix("bitcast<").removesuffix(">" * name.startswith("b")))
            integers = {"u32", "i32"}
            converted = arguments[0].scalar != found.scalar
            if not name.startswith("b") and converted and found.scalar not in integers:
                self.note("float", widest.operations)
            return found
        self.note("fma" if name == "fma" else _KINDS[widest.scalar], widest.operations)
        return arguments[0] if name != "dot4I8Packed" else Type("i32")

    @contextmanager
    def index(self) -> Iterator[None]:
        """What is counted inside finds a place in memory."""
        before, self.within_index = self.within_index, True
        yield
        self.within_index = before


def operations(source: str) -> Counter[str]:
    """How often a thread does what: ``load`` and ``shared load`` by statements, ``store``, ``fma``,
    other ``float`` and ``half`` operations, ``integer`` ones, and ``index`` for finding places."""
    counting = Counting()
    counting.text(source)
    return counting.counts


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", type=Path)
    parser.add_argument("--per", type=float, default=1.0, help="divide by this many weights")
    options = parser.parse_args()
    for what, count in sorted(operations(options.kernel.read_text()).items()):
        print(f"{what:>12} {count / options.per:10.3f}")


if __name__ == "__main__":
    main()
