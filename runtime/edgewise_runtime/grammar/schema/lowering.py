"""Schemas that must hold together, lowered to nodes, each set of them once."""

from __future__ import annotations

from collections.abc import Callable, Collection

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.nodes import (
    Choice,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
    simplified,
)
from edgewise_runtime.grammar.schema.admitting import named_values
from edgewise_runtime.grammar.schema.anything import ANYTHING
from edgewise_runtime.grammar.schema.arrays import array_node
from edgewise_runtime.grammar.schema.document import Document
from edgewise_runtime.grammar.schema.exclusive import exclusive
from edgewise_runtime.grammar.schema.keywords import SAYING
from edgewise_runtime.grammar.schema.numbers import integer_node, number_node
from edgewise_runtime.grammar.schema.objects import object_node
from edgewise_runtime.grammar.schema.shape import Atoms, Shape, expanded, whole
from edgewise_runtime.grammar.schema.strings import string_node
from edgewise_runtime.grammar.schema.values import spelled

MAX_PARTS = 50_000
"""Nodes made, and schemas taken together, for one schema."""
MAX_WITHIN = 64
"""Sets of schemas within one another."""
_INLINE = 12
"""Nodes up to which what is the same is written more than once."""


class Lowering:
    """Nodes of one document's schemas, and the rules that they need.

    Attributes:
        rules: what was made, under names that begin with the prefix.
    """

    def __init__(self, document: Document, taken: Collection[str], prefix: str) -> None:
        self.document = document
        self.rules: dict[str, Node] = {}
        self._taken = taken
        self._prefix = prefix
        self._known: dict[Atoms, Node | None] = {}
        self._under_way: dict[Atoms, str | None] = {}
        self._parts = 0
        self._names = 0

    def lower(self, atoms: Atoms) -> Node | None:
        """A node whose texts are values under all of the schemas; None where there are none.

        Raises:
            InputError: ``input.schema`` for what is no schema.
            UnsupportedError: ``unsupported.schema`` for what is refused by name, or too large.
        """
        key = expanded(self.document, atoms)
        self._spend(1 + len(atoms) + len(key or ()))
        if key is None:
            return None
        if key in self._known:
            return self._known[key]
        if key in self._under_way:
            again = self._under_way[key] or self._name()
            self._under_way[key] = again
            return Rule(again)
        if len(self._under_way) >= MAX_WITHIN:
            raise self._too_large(f"more than {MAX_WITHIN} schemas within one another")
        self._under_way[key] = None
        node = self._made(key)
        name = self._under_way.pop(key)
        if name is not None:
            self.rules[name] = Choice(()) if node is None else node
            node = Rule(name)
        elif node is not None:
            node = self.shared(node)
        self._known[key] = node
        return node

    def shared(self, node: Node) -> Node:
        """The node, as a rule's where it is large."""
        node = simplified(node)
        size = _size(node)
        self._spend(size)
        return node if size <= _INLINE else self._rule(self._name(), node)

    def anything(self, kind: str) -> Node:
        """The rule of any value of a kind."""
        name = f"{self._prefix}json_{kind}"
        if name not in self.rules:
            self.rules[name] = Literal("")
            self.rules[name] = self._renamed(ANYTHING[kind])
        return Rule(name)

    def _renamed(self, node: Node) -> Node:
        match node:
            case Rule(name):
                return self.anything(name)
            case Sequence(items):
                return Sequence(tuple(map(self._renamed, items)))
            case Choice(items):
                return Choice(tuple(map(self._renamed, items)))
            case Repeat(item, least, most):
                return Repeat(self._renamed(item), least, most)
        return node

    def _made(self, atoms: Atoms) -> Node | None:
        group = next((atom for atom in atoms if atom.part != "own"), None)
        if group is None:
            return self._of_shape(Shape(self.document, tuple(atom.place for atom in atoms)))
        rest = tuple(atom for atom in atoms if atom != group)
        branches = [
            (*rest, *whole(place)) for place in self.document.places(group.place, group.part)
        ]
        if group.part == "oneOf":
            branches = exclusive(self.document, group, branches)
        return either([self.lower(branch) for branch in branches])

    def _of_shape(self, shape: Shape) -> Node | None:
        values = named_values(shape)
        if values is not None:
            return either([Literal(spelled(value)) for value in values])
        if not shape.has("type", *SAYING):
            return self.anything("value")
        return either([_OF_TYPE[each](self, shape) for each in shape.written_types()])

    def _rule(self, name: str, node: Node) -> Node:
        self.rules[name] = node
        return Rule(name)

    def _name(self) -> str:
        self._names += 1
        while (name := f"{self._prefix}value_{self._names}") in self._taken:
            self._names += 1
        return name

    def _spend(self, parts: int) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise self._too_large(f"more than {MAX_PARTS:,} parts")

    def _too_large(self, what: str) -> EdgewiseError:
        return self.document.refused(0, f"what comes to {what}")


_OF_TYPE: dict[str, Callable[[Lowering, Shape], Node | None]] = {
    "null": lambda _, __: Literal("null"),
    "boolean": lambda _, __: Choice((Literal("true"), Literal("false"))),
    "integer": integer_node,
    "number": number_node,
    "string": string_node,
    "array": array_node,
    "object": object_node,
}


def either(nodes: list[Node | None]) -> Node | None:
    """One of the nodes that there are."""
    some = tuple(dict.fromkeys(node for node in nodes if node is not None))
    return (some[0] if len(some) == 1 else Choice(some)) if some else None


def _size(node: Node) -> int:
    match node:
        case Literal(text):
            return 1 + len(text) // 16
        case Sequence(items) | Choice(items):
            return 1 + sum(map(_size, items))
        case Repeat(item):
            return 1 + _size(item)
    return 1
