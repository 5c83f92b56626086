"""Expressions whose texts have to be of some length."""

from __future__ import annotations

from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Sequence
from edgewise_runtime.grammar.schema.values import quoted


def shortest(node: Node) -> int:
    """The length of the shortest text of a node without rules."""
    match node:
        case Literal(text):
            return len(text)
        case Sequence(items):
            return sum(map(shortest, items))
        case Choice(items):
            return min(map(shortest, items))
        case Repeat(item, least):
            return shortest(item) * least
    return 1


def longest(node: Node) -> int | None:
    """The length of the longest text of a node without rules; None where there is none such."""
    return _longest(node) if _endless(node) == 0 else None


def limited(node: Node, most: int) -> Node | None:
    """The node with no text longer than `most`: each repetition without an end has an equal share
    of what the others leave at their longest. None where they leave nothing, or where such
    repetitions are within one another."""
    room = most - _longest(node)
    count = _endless(node)
    if count is None or room < 0:
        return None
    return _shared(node, room // count) if count else node


def in_json(node: Node) -> Node:
    """What characters a node has, as they are spelled in a JSON string."""
    match node:
        case Literal(text):
            return Literal(quoted(text)[1:-1])
        case Chars(ranges):
            return json_escape(ranges)
        case Sequence(items):
            return Sequence(tuple(map(in_json, items)))
        case Choice(items):
            return Choice(tuple(map(in_json, items)))
        case Repeat(item, least, most):
            return Repeat(in_json(item), least, most)
    return node


def lengthened(node: Node, least: int) -> Node | None:
    """The node with no text shorter than `least`: what is missing is added to how often the first
    repetition that there is room in comes at least. None where there is none."""
    missing = least - shortest(node)
    if missing <= 0:
        return node
    items = node.items if isinstance(node, Sequence) else (node,)
    for i, item in enumerate(items):
        if isinstance(item, Repeat) and shortest(item.item):
            often = item.least - -missing // shortest(item.item)
            if item.most is None or often <= item.most:
                longer = Repeat(item.item, often, item.most)
                return Sequence((*items[:i], longer, *items[i + 1 :]))
    return None


def _endless(node: Node) -> int | None:
    """How many repetitions without an end a text may hold; None where any number."""
    match node:
        case Sequence(items):
            counts = [_endless(item) for item in items]
            known = [count for count in counts if count is not None]
            return sum(known) if len(known) == len(counts) else None
        case Choice(items):
            counts = [_endless(item) for item in items]
            known = [count for count in counts if count is not None]
            return max(known) if len(known) == len(counts) else None
        case Repeat(item, _, most):
            inner = _endless(item)
            if most is None:
                return None if inner != 0 else 1
            return None if inner is None else inner * most
    return 0


def _longest(node: Node) -> int:
    """The length of the longest text, of repetitions without an end at their least."""
    match node:
        case Literal(text):
            return len(text)
        case Sequence(items):
            return sum(map(_longest, items))
        case Choice(items):
            return max(map(_longest, items))
        case Repeat(item, least, most):
            return _longest(item) * (least if most is None else most)
    return 1


def _shared(node: Node, share: int) -> Node:
    """The node with so many characters more for each repetition without an end."""
    match node:
        case Sequence(items):
            return Sequence(tuple(_shared(item, share) for item in items))
        case Choice(items):
            return Choice(tuple(_shared(item, share) for item in items))
        case Repeat(item, least, None):
            return Repeat(item, least, least + share // max(1, _longest(item)))
        case Repeat(item, least, most):
            return Repeat(_shared(item, share), least, most)
    return node
