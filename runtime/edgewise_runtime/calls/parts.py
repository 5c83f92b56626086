"""How much the grammar of a call may come to."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise_runtime.calls.refusing import refused
from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Sequence

MAX_PARTS = 50_000
"""Nodes of all tools."""


class Parts:
    """Counts what is made, and refuses what is too much of it."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def add(self, nodes: Iterable[Node]) -> None:
        """Count nodes with all that is in them.

        Raises:
            UnsupportedError: ``unsupported.tool_choice``.
        """
        self._left -= sum(map(_size, nodes))
        if self._left < 0:
            raise refused(f"The tools come to more than {MAX_PARTS:,} parts of a grammar.")


def _size(node: Node) -> int:
    match node:
        case Sequence(items) | Choice(items):
            return 1 + sum(map(_size, items))
        case Repeat(item):
            return 1 + _size(item)
    return 1
