"""What GBNF and Lark share: alternatives of items in a row, each perhaps repeated."""

from __future__ import annotations

from typing import Protocol

from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Sequence
from edgewise_runtime.grammar.source import MAX_DEPTH, Source


class Syntax(Protocol):
    """What of it is written differently."""

    def atom(self, depth: int) -> Node:
        """What comes next, taken."""

    def counts(self) -> tuple[int, int | None] | None:
        """How often what came is repeated, taken, where that is said."""

    def ends(self) -> bool:
        """Whether items in a row end before the next token; what belongs to them is taken."""


def read_choice(source: Source, syntax: Syntax, depth: int = 0) -> Node:
    """Alternatives up to what ends them, groups of which are `depth` within one another.

    Raises:
        InputError: ``input.grammar``.
        UnsupportedError: ``unsupported.grammar``.
    """
    if depth > MAX_DEPTH:
        at = source.peek().at
        raise source.wrong(f"more than {MAX_DEPTH} groups within one another", at)
    items = [_row(source, syntax, depth)]
    while source.takes("|"):
        items.append(_row(source, syntax, depth))
    return items[0] if len(items) == 1 else Choice(tuple(items))


def _row(source: Source, syntax: Syntax, depth: int) -> Node:
    items: list[Node] = []
    while not syntax.ends():
        item = syntax.atom(depth)
        if counts := syntax.counts():
            item = Repeat(item, *counts)
            again = source.peek().at
            if syntax.counts():
                raise source.wrong("a repetition is repeated; put it in parentheses", again)
        items.append(item)
    return items[0] if len(items) == 1 else Sequence(tuple(items))
