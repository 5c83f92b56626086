"""Whether a grammar takes a text: slow, plain, and nothing that is shipped."""

from __future__ import annotations

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


def accepts(grammar: Grammar | Node, text: str) -> bool:
    """Whether the whole text is one of the grammar's; rules must not begin with themselves."""
    if not isinstance(grammar, Grammar):
        grammar = Grammar({"root": grammar}, "root")
    return len(text) in _Recogniser(grammar, text).ends(grammar.rules[grammar.root], 0)


class _Recogniser:
    def __init__(self, grammar: Grammar, text: str) -> None:
        self._rules = grammar.rules
        self._text = text
        self._known: dict[tuple[str, int], frozenset[int]] = {}

    def ends(self, node: Node, start: int) -> frozenset[int]:
        """Where a node may end that begins at a position."""
        match node:
            case Literal(text):
                return frozenset({start + len(text)} if self._text.startswith(text, start) else ())
            case Chars(ranges):
                code = ord(self._text[start]) if start < len(self._text) else -1
                found = any(first <= code <= last for first, last in ranges)
                return frozenset({start + 1} if found else ())
            case Sequence(items):
                at = frozenset({start})
                for item in items:
                    at = self._after(item, at)
                return at
            case Choice(items):
                return frozenset().union(*(self.ends(item, start) for item in items))
            case Repeat(item, least, most):
                return self._repeated(item, least, most, start)
            case Rule(name):
                if (name, start) not in self._known:
                    self._known[name, start] = self.ends(self._rules[name], start)
                return self._known[name, start]

    def _after(self, node: Node, starts: frozenset[int]) -> frozenset[int]:
        return frozenset().union(*(self.ends(node, start) for start in starts))

    def _repeated(self, item: Node, least: int, most: int | None, start: int) -> frozenset[int]:
        at = frozenset({start})
        seen: set[frozenset[int]] = set()
        for _ in range(least):
            if at in seen:
                break  # positions come again: so they will after the rest
            seen.add(at)
            at = self._after(item, at)
        found, count = at, least
        while at and count != most:
            at = self._after(item, at) - found
            found |= at
            count += 1
        return found
