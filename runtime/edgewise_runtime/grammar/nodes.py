"""The one grammar that every constraint is lowered to: plain data over Unicode code points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """One or more code points, one after the other."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One code point out of sorted, disjoint, inclusive ranges."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items one after the other; none is the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of at least one item."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """An item from `least` to `most` times; None is without end."""

    item: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """What the rule of that name is."""

    name: str


Node: TypeAlias = Literal | Chars | Sequence | Choice | Repeat | Rule


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by their names, and the one that texts are."""

    rules: Mapping[str, Node]
    root: str


def to_json(node: Node) -> Any:
    match node:
        case Literal(text):
            return ["literal", text]
        case Chars(ranges):
            return ["chars", [list(pair) for pair in ranges]]
        case Sequence(items):
            return ["sequence", [to_json(item) for item in items]]
        case Choice(items):
            return ["choice", [to_json(item) for item in items]]
        case Repeat(item, least, most):
            return ["repeat", to_json(item), least, most]
        case Rule(name):
            return ["rule", name]


def simplified(node: Node) -> Node:
    match node:
        case Sequence(items):
            flat: list[Node] = []
            for item in map(simplified, items):
                for each in item.items if isinstance(item, Sequence) else (item,):
                    if flat and isinstance(each, Literal) and isinstance(flat[-1], Literal):
                        flat[-1] = Literal(flat[-1].text + each.text)
                    else:
                        flat.append(each)
            return flat[0] if len(flat) == 1 else Sequence(tuple(flat))
        case Choice(items):
            return (
                simplified(items[0]) if len(items) == 1 else Choice(tuple(map(simplified, items)))
            )
        case Repeat(item, least, most):
            return Repeat(simplified(item), least, most)
    return node
