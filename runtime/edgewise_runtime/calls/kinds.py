"""Which kinds of values a grammar of JSON has texts of, told by the characters they begin with."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Rule, Sequence

_KINDS = {
    '"': "string",
    "{": "object",
    "[": "array",
    "t": "boolean",
    "f": "boolean",
    "n": "null",
}


def kinds_of(node: Node, rules: Mapping[str, Node]) -> frozenset[str]:
    """The types of a node's texts; of numbers only that they are numbers."""
    found: set[str] = set()
    seen: set[str] = set()
    _begin(node, rules, found, seen)
    return frozenset(_KINDS.get(character, "number") for character in found)


def _begin(node: Node, rules: Mapping[str, Node], found: set[str], seen: set[str]) -> bool:
    """Add the characters that texts of a node begin with; return whether one may be empty.

    No rule of a value may be empty, so what is known of one that was seen is that it is not."""
    match node:
        case Literal(text):
            found.update(text[:1])
            return not text
        case Chars(ranges):
            found.add(chr(ranges[0][0]))
            return False
        case Sequence(items):
            return all(_begin(item, rules, found, seen) for item in items)
        case Choice(items):
            empty = [_begin(item, rules, found, seen) for item in items]
            return any(empty)
        case Repeat(item, least):
            return _begin(item, rules, found, seen) or least == 0
        case Rule(name):
            if name in seen:
                return False
            seen.add(name)
            return _begin(rules[name], rules, found, seen)
