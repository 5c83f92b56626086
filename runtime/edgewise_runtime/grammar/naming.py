"""Rules under the names that people chose, made a grammar under names of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.endings import endless_rule, left_recursive_rule
from edgewise_runtime.grammar.nodes import (
    Choice,
    Grammar,
    Node,
    Repeat,
    Rule,
    Sequence,
    simplified,
)

MAX_UNROLLED = 200_000
"""Parts of all rules once every counted repetition is written out."""

_OTHER = re.compile("[^a-z0-9_]")


def named_rules(rules: Mapping[str, Node], root: str) -> Grammar:
    """The rules that `root` comes to, in the order in which it does, under names that grammars
    have: small letters, digits and underscores, a number behind those that would be the same.
    Every rule that one refers to must be there.

    Raises:
        InputError: ``input.grammar`` for rules that are too large, never end or begin with
            themselves.
    """
    if sum(map(_unrolled, rules.values())) > MAX_UNROLLED:
        raise InputError(
            f"A grammar has more than {MAX_UNROLLED:,} parts once its counts are unrolled.",
            code="input.grammar",
        )
    counts: dict[str, int] = {}
    names = {root: _free(root, counts)}
    found = [root]
    for name in found:  # grows meanwhile
        for other in references(rules[name]):
            if other not in names:
                names[other] = _free(other, counts)
                found.append(other)
    kept = {name: rules[name] for name in found}
    for wrong, what in (
        (endless_rule(kept), "has no text that ends"),
        (left_recursive_rule(kept), "may begin with itself: write it as a repetition"),
    ):
        if wrong is not None:
            said = f"The rule {wrong[:80]} of the grammar {what}."
            raise InputError(said, code="input.grammar")
    return Grammar({names[n]: simplified(renamed(rules[n], names)) for n in found}, names[root])


def _unrolled(node: Node) -> int:
    match node:
        case Sequence(items) | Choice(items):
            return sum(map(_unrolled, items)) + 1
        case Repeat(item, least, most):
            return _unrolled(item) * max(1, least, most or 0)
    return 1


def _free(name: str, counts: dict[str, int]) -> str:
    """A name that is not in `counts`, in which it is put."""
    plain = _OTHER.sub("_", name.lower().lstrip("%"))
    plain = plain if plain[:1].isalpha() else f"r{plain}"
    free = plain
    while free in counts:
        counts[plain] += 1
        free = f"{plain}_{counts[plain]}"
    counts[free] = 1
    return free


def references(node: Node) -> Iterator[str]:
    """The rules that a node refers to, in order."""
    match node:
        case Rule(name):
            yield name
        case Sequence(items) | Choice(items):
            for item in items:
                yield from references(item)
        case Repeat(item):
            yield from references(item)


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The same node with the rules it refers to under other names."""
    match node:
        case Rule(name):
            return Rule(names[name])
        case Sequence(items):
            return Sequence(tuple(renamed(item, names) for item in items))
        case Choice(items):
            return Choice(tuple(renamed(item, names) for item in items))
        case Repeat(item, least, most):
            return Repeat(renamed(item, names), least, most)
    return node
