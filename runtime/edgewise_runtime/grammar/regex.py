"""Regular expressions lowered to a grammar's nodes."""

from __future__ import annotations

from typing import Literal as OneOf

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.escapes import Escape, plain
from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Sequence, simplified
from edgewise_runtime.grammar.ranges import EVERY, common
from edgewise_runtime.grammar.regex_reader import (
    Edge,
    Either,
    Joined,
    Part,
    Repeated,
    Set,
    read_regex,
)

Where = OneOf["whole", "within", "part"]
"""What an expression has to match: the whole text; something within it, as ECMAScript's `test` and
JSON Schema's `pattern` have it; or a part of a text, whose ends are not the text's."""

_EMPTY = Joined(())
_ANYTHING = Repeated(Set(EVERY), 0, None)


def lower_regex(
    pattern: str,
    *,
    where: Where = "whole",
    escape: Escape = plain,
    ignore_case: bool = False,
    dot_all: bool = False,
) -> Node:
    """A node that takes the texts in which an expression matches, each character spelled by
    `escape`.

    The expression is of what Python's `re` and ECMAScript share (`regex_reader`). ``^`` may stand
    where a text starts, ``$`` where it ends (of lines, neither is); lazy repetitions are what
    greedy ones are, since all that counts is whether there is a match.

    Raises:
        InputError: ``input.regex`` for what is no expression, or is too large.
        UnsupportedError: ``unsupported.regex`` for what is refused by name, and for an anchor
            elsewhere.
    """
    part = read_regex(pattern, ignore_case=ignore_case, dot_all=dot_all)
    if where != "part":
        beside = _ANYTHING if where == "within" else _EMPTY
        part = _at_edge(_at_edge(part, Edge(False), beside), Edge(True), beside)
    if _has(part, Edge(False)) or _has(part, Edge(True)):
        raise UnsupportedError(
            f"The regular expression {shorten(pattern)} has an anchor (^ or $) where the text "
            "neither starts nor ends.",
            remedy="Leave the anchor out, or write the alternatives that have it by themselves.",
            code="unsupported.regex",
        )
    return simplified(_lowered(part, escape))


def _at_edge(part: Part, edge: Edge, beside: Part) -> Part:
    """The part without the anchors at one edge of it, and with `beside` where there is none."""
    if part == edge:
        return _EMPTY
    if isinstance(part, Either):
        return Either(tuple(_at_edge(each, edge, beside) for each in part.parts))
    if not isinstance(part, Joined):
        return _joined([part, beside] if edge.end else [beside, part])
    inwards = list(reversed(part.parts) if edge.end else part.parts)
    anchors = next((i for i, each in enumerate(inwards) if each != edge), len(inwards))
    if anchors:
        inwards = inwards[anchors:]
    elif inwards and _has(inwards[0], edge):
        inwards[0] = _at_edge(inwards[0], edge, beside)
    else:
        inwards.insert(0, beside)
    return _joined(inwards[::-1] if edge.end else inwards)


def _has(part: Part, edge: Edge) -> bool:
    match part:
        case Edge():
            return part == edge
        case Joined(parts) | Either(parts):
            return any(_has(each, edge) for each in parts)
        case Repeated(inner):
            return _has(inner, edge)
    return False


def _joined(parts: list[Part]) -> Part:
    """The parts in a row; of two endless repetitions side by side of which one takes all that the
    other does, only that one: there are many ways to tell them apart, and no use in it."""
    kept: list[Part] = []
    for part in parts:
        if kept and _swallows(kept[-1], part):
            continue
        while kept and _swallows(part, kept[-1]):
            kept.pop()
        kept.append(part)
    return Joined(tuple(kept))


def _swallows(one: Part, other: Part) -> bool:
    match one, other:
        case Repeated(Set(all_of), 0, None), Repeated(Set(some), 0, None):
            return common(all_of, some) == some
    return False


def _lowered(part: Part, escape: Escape) -> Node:
    match part:
        case Set(ranges):
            return escape(ranges)
        case Joined(parts):
            return Sequence(tuple(_lowered(each, escape) for each in parts))
        case Either(parts):
            return Choice(tuple(_lowered(each, escape) for each in parts))
        case Repeated(inner, least, most):
            return Repeat(_lowered(inner, escape), least, most)
    return Sequence(())
