"""Alternatives as a tree of what they begin with, so that what several begin with is there once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Rule, Sequence

Atom: TypeAlias = "int | Node"
"""A byte, or a node other than a text or a row."""


@dataclass(eq=False, slots=True)
class Branch:
    """A place in the tree.

    Attributes:
        next: what may come, by what tells atoms apart, and where it leads.
        ends: whether an alternative ends here.
    """

    next: dict[int, tuple[Atom, Branch]] = field(default_factory=dict)
    ends: bool = False


class Identities:
    """Tells nodes apart by what they are: equal ones have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[int, Node]] = {}

    def of(self, node: Node) -> int:
        """The number of a node, found once for each object."""
        known = self._known.get(id(node))
        if known is not None:
            return known[0]
        number = self._numbers.setdefault(self._key(node), len(self._numbers))
        self._known[id(node)] = (number, node)  # which keeps its id from becoming another's
        return number

    def _key(self, node: Node) -> Hashable:
        match node:
            case Literal(text):
                return ("literal", text)
            case Chars(ranges):
                return ("chars", ranges)
            case Sequence(items):
                return ("sequence", *[self.of(item) for item in items])
            case Choice(items):
                return ("choice", *[self.of(item) for item in items])
            case Repeat(item, least, most):
                return ("repeat", self.of(item), least, most)
            case Rule(name):
                return ("rule", name)


def branches_of(items: Iterable[Node], identities: Identities) -> list[Branch]:
    """The tree of alternatives: all its places, each before those below it."""
    root = Branch()
    branches = [root]
    for item in _alternatives(items):
        at = root
        for atom in _atoms(item):
            key = atom if isinstance(atom, int) else 256 + identities.of(atom)
            found = at.next.get(key)
            if found is None:
                found = at.next[key] = (atom, Branch())
                branches.append(found[1])
            at = found[1]
        at.ends = True
    return branches


def _alternatives(items: Iterable[Node]) -> Iterator[Node]:
    for item in items:
        if isinstance(item, Choice):
            yield from _alternatives(item.items)
        else:
            yield item


def _atoms(node: Node) -> Iterator[Atom]:
    match node:
        case Literal(text):
            yield from text.encode()
        case Sequence(items):
            for item in items:
                yield from _atoms(item)
        case _:
            yield node
