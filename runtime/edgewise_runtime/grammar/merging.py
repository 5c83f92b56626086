"""Rules that are alike made one."""

from __future__ import annotations

from collections.abc import Hashable

from edgewise_runtime.grammar.naming import references, renamed
from edgewise_runtime.grammar.nodes import Grammar

_ROUNDS = 64
"""Rules are told apart by what is so many references away, and no more."""


def merged(grammar: Grammar) -> Grammar:
    """The same texts with fewer rules: of those that are written alike, and refer to rules that are
    alike again, only the first stays. Where that takes too long to find out, all stay.

    At first all rules count as alike; they are told apart by what they are made of and by which of
    those told apart they refer to, until no more are (Moore 1956, for automata).
    """
    rules = grammar.rules
    nameless = dict.fromkeys(rules, "")
    shapes: dict[Hashable, int] = {}
    shape = {
        name: shapes.setdefault(renamed(node, nameless), len(shapes))
        for name, node in rules.items()
    }
    others = {name: list(references(node)) for name, node in rules.items()}
    group, count = shape, len(shapes)
    for _ in range(_ROUNDS):
        found: dict[Hashable, int] = {}
        next_group: dict[str, int] = {}
        for name in rules:
            key = (shape[name], *(group[other] for other in others[name]))
            next_group[name] = found.setdefault(key, len(found))
        group = next_group
        if len(found) == count:
            break
        count = len(found)
    else:
        return grammar
    first: dict[int, str] = {}
    for name in rules:
        first.setdefault(group[name], name)
    names = {name: first[group[name]] for name in rules}
    kept = {name: renamed(rules[name], names) for name in first.values()}
    return Grammar(kept, names[grammar.root])
