"""Whether bytes begin a text of a grammar: slow, plain, and nothing that is shipped."""

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

Rest = tuple[Node, ...]
"""What is to follow, one after the other."""

MOST = 5_000
"""Ways to go on that are looked at: some grammars have more of them with every character."""


class TooManyError(Exception):
    """A grammar has more ways to go on than are looked at."""


class Beginning:
    """What may follow some characters, and the bytes of one that is not whole yet."""

    def __init__(self, grammar: Grammar, rests: frozenset[Rest] | None = None, part: bytes = b""):
        self._grammar = grammar
        self._rests = self._opened({(grammar.rules[grammar.root],)}) if rests is None else rests
        self._part = part

    @property
    def possible(self) -> bool:
        """Whether a text begins so."""
        if not self._part:
            return bool(self._rests)
        sets = [pair for rest in self._rests for pair in _sets(rest)]
        return any(self._holds(first, last) for first, last in sets)

    @property
    def whole(self) -> bool:
        """Whether a text may end here."""
        return not self._part and () in self._rests

    def after(self, data: bytes) -> Beginning:
        rests, part = self._rests, self._part
        for byte in data:
            part += bytes([byte])
            try:
                character = part.decode()
            except UnicodeDecodeError as error:
                if error.reason != "unexpected end of data":
                    return Beginning(self._grammar, frozenset())
                continue
            rests = self._opened({follow for rest in rests for follow in _taken(rest, character)})
            part = b""
        return Beginning(self._grammar, rests, part)

    def _holds(self, first: int, last: int) -> bool:
        """Whether a set has a character that begins with the bytes that are there."""
        shifts = 6 * (_length(self._part[0]) - len(self._part))
        lead = self._part[0] & (0x7F >> _length(self._part[0]))
        for byte in self._part[1:]:
            lead = lead << 6 | byte & 0x3F
        low = max(lead << shifts, _LEAST[_length(self._part[0])])
        high = ((lead + 1) << shifts) - 1
        return any(
            max(first, low, a) <= min(last, high, b) for a, b in [(0, 0xD7FF), (0xE000, 0x10FFFF)]
        )

    def _opened(self, rests: set[Rest]) -> frozenset[Rest]:
        """The same, each of which begins with characters, or is empty."""
        left, seen, found = list(rests), set(rests), set()
        while left:
            rest = left.pop()
            if not rest or isinstance(rest[0], Chars) or _is_text(rest[0]):
                found.add(rest)
                continue
            for other in self._unfolded(rest[0], rest[1:]):
                if other not in seen:
                    seen.add(other)
                    left.append(other)
            if len(seen) > MOST:
                raise TooManyError
        return frozenset(found)

    def _unfolded(self, node: Node, rest: Rest) -> list[Rest]:
        match node:
            case Sequence(items):
                return [(*items, *rest)]
            case Choice(items):
                return [(item, *rest) for item in items]
            case Rule(name):
                return [(self._grammar.rules[name], *rest)]
            case Repeat(item, least, most):
                again = Repeat(item, max(0, least - 1), None if most is None else most - 1)
                more = [] if most == 0 else [(item, again, *rest)]
                return more if least else [rest, *more]
        return [rest]  # the empty text


_LEAST = {2: 0x80, 3: 0x800, 4: 0x10000}


def _length(lead: int) -> int:
    return 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2


def _is_text(node: Node) -> bool:
    return isinstance(node, Literal) and node.text != ""


def _sets(rest: Rest) -> list[tuple[int, int]]:
    match rest:
        case (Chars(ranges), *_):
            return list(ranges)
        case (Literal(text), *_):
            return [(ord(text[0]), ord(text[0]))]
    return []


def _taken(rest: Rest, character: str) -> list[Rest]:
    if not any(first <= ord(character) <= last for first, last in _sets(rest)):
        return []
    if isinstance(rest[0], Literal) and len(rest[0].text) > 1:
        return [(Literal(rest[0].text[1:]), *rest[1:])]
    return [rest[1:]]
