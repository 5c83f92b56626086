"""Texts of a grammar, at random."""

from __future__ import annotations

from random import Random

from edgewise_runtime.grammar.nodes import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
)


def drawn(grammar: Grammar, node: Node, random: Random, rules: int = 0) -> str:
    """A text of a node; of choices the one with the fewest rules in it, once many were taken."""
    match node:
        case Literal(text):
            return text
        case Chars(ranges):
            return chr(random.randint(*random.choice(ranges)))
        case Sequence(items):
            return "".join(drawn(grammar, item, random, rules) for item in items)
        case Choice(items):
            some = items if rules < 6 else sorted(items, key=_rules_of)[:1]
            return drawn(grammar, random.choice(some), random, rules)
        case Repeat(item, least, most):
            enough = least if rules >= 6 else least + 2
            times = random.randint(least, enough if most is None else min(most, enough))
            return "".join(drawn(grammar, item, random, rules) for _ in range(times))
        case Rule(name):
            return drawn(grammar, grammar.rules[name], random, rules + 1)


def _rules_of(node: Node) -> int:
    match node:
        case Rule():
            return 1
        case Sequence(items) | Choice(items):
            return sum(map(_rules_of, items))
        case Repeat(item, least):
            return _rules_of(item) if least else 0
    return 0
