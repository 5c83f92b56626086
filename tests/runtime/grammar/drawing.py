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

MANY = 6
"""Rules within one another from which on a text is brought to its end."""


def drawn(grammar: Grammar, node: Node, random: Random) -> str:
    """A text of a node; of choices the one with the fewest rules within one another, once many
    were taken."""
    return _Drawing(grammar, random).text(node, 0)


class _Drawing:
    def __init__(self, grammar: Grammar, random: Random) -> None:
        self._rules = grammar.rules
        self._random = random
        self._heights = dict.fromkeys(grammar.rules, len(grammar.rules) + 1)
        for _ in grammar.rules:
            found = {name: 1 + self._height(rule) for name, rule in grammar.rules.items()}
            if found == self._heights:
                break
            self._heights = found

    def text(self, node: Node, rules: int) -> str:
        random = self._random
        match node:
            case Literal(text):
                return text
            case Chars(ranges):
                return chr(random.randint(*random.choice(ranges)))
            case Sequence(items):
                return "".join(self.text(item, rules) for item in items)
            case Choice(items):
                some = items if rules < MANY else sorted(items, key=self._height)[:1]
                return self.text(random.choice(some), rules)
            case Repeat(item, least, most):
                enough = least if rules >= MANY else least + 2
                times = random.randint(least, enough if most is None else min(most, enough))
                return "".join(self.text(item, rules) for _ in range(times))
            case Rule(name):
                return self.text(self._rules[name], rules + 1)

    def _height(self, node: Node) -> int:
        """How many rules are within one another at least, as far as that is known."""
        match node:
            case Rule(name):
                return self._heights[name]
            case Sequence(items):
                return max(map(self._height, items), default=0)
            case Choice(items):
                return min(map(self._height, items))
            case Repeat(item, least):
                return self._height(item) if least else 0
        return 0
