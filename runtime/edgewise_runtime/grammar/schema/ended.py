"""Rules without what no text ever ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgewise_runtime.grammar.endings import ending_rules
from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Rule, Sequence, simplified


def ended(root: Node, rules: Mapping[str, Node]) -> tuple[Node, dict[str, Node]] | None:
    """The node and the rules that it needs, without alternatives and repetitions that never end;
    None where nothing is left."""
    ending = ending_rules(rules)
    node = _without(root, ending)
    if node is None:
        return None
    found: dict[str, Node] = {}
    waiting = list(_references(node))
    for name in waiting:  # grows meanwhile
        if name not in found and (inner := _without(rules[name], ending)) is not None:
            found[name] = inner
            waiting += _references(inner)
    return node, found


def _without(node: Node, ending: set[str]) -> Node | None:
    """A node without rules that do not end; None where it does not end itself."""
    made = _pruned(node, ending)
    return None if made is None else simplified(made)


def _pruned(node: Node, ending: set[str]) -> Node | None:
    match node:
        case Rule(name):
            return node if name in ending else None
        case Sequence(items):
            some = [_pruned(item, ending) for item in items]
            kept = tuple(item for item in some if item is not None)
            return Sequence(kept) if len(kept) == len(some) else None
        case Choice(items):
            some = [_pruned(item, ending) for item in items]
            kept = tuple(item for item in some if item is not None)
            return Choice(kept) if kept else None
        case Repeat(item, least, most):
            inner = _pruned(item, ending)
            if inner is None:
                return None if least else Sequence(())
            return Repeat(inner, least, most)
    return node


def _references(node: Node) -> Iterator[str]:
    match node:
        case Rule(name):
            yield name
        case Sequence(items) | Choice(items):
            for item in items:
                yield from _references(item)
        case Repeat(item):
            yield from _references(item)
