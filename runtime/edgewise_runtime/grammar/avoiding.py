"""Texts that do not have a mark in them."""

from __future__ import annotations

from edgewise_runtime.grammar.escapes import Escape
from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Sequence
from edgewise_runtime.grammar.ranges import Ranges, characters, common, others


def texts_without(
    mark: str, ranges: Ranges, escape: Escape, *, least: int = 0, ends: bool = True
) -> Node:
    """Texts of a set of characters that do not have a mark in them, all of them.

    Such a text is one without the mark's first character, and then parts that begin with it, each
    of which leaves the mark before it is complete. Nothing is repeated within a repetition, so the
    node has as many parts as the mark has characters.

    Args:
        mark: two or more characters, the first of which comes only once.
        least: characters, 0 or 1.
        ranges: the set, not empty, and with more than beginnings of the mark in it.
        ends: the mark cannot go on behind the text. Where it could, texts that end in a beginning
            of the mark are left out.
    """
    first = characters(mark[0])
    rest = common(ranges, others(first))
    run: Node = Repeat(escape(rest), 0, None) if rest else Sequence(())
    if not common(ranges, first):
        return Repeat(escape(ranges), least, None)
    part = _part(mark, 0, ranges, escape, run, ends=True) or Sequence(())
    parts: Node = Repeat(part, 0, None)
    some: Node | None = Sequence((part, parts))
    if not ends:
        left = _part(mark, 0, ranges, escape, run, ends=False)
        some = left and Sequence((parts, left))
        parts = Repeat(some, 0, 1) if some else Sequence(())
    if not least:
        return Sequence((run, parts))
    found: list[Node] = [Sequence((escape(rest), run, parts))] if rest else []
    return _one_of([*found, some] if some else found)


def _part(
    mark: str, at: int, ranges: Ranges, escape: Escape, run: Node, *, ends: bool
) -> Node | None:
    """What begins with the mark from a place on, and leaves it; with `ends` it may just end."""
    this = common(ranges, characters(mark[at]))
    left = common(ranges, others(characters(mark[0] + mark[at])))
    choices: list[Node] = []
    if at and left:
        choices.append(Sequence((escape(left), run)))
    if this and at + 1 < len(mark):
        behind = _part(mark, at + 1, ranges, escape, run, ends=ends)
        if behind:
            choices.append(Sequence((escape(this), behind)))
    if at and ends:
        choices.append(Sequence(()))
    return _one_of(choices) if choices else None


def _one_of(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Choice(tuple(nodes))
