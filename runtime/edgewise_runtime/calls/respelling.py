"""JSON's grammars as those of the same values in another notation.

What is respelled is a grammar that a schema was lowered to (`grammar.schema`): its texts are JSON
on one line, with ``", "`` and ``": "``. The nodes are gone through in the order of the text, with
what is known of the place in it: whether it is in a string, and in an escape there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgewise_runtime.calls.refusing import refused
from edgewise_runtime.calls.source import MAX_NAME, NAME
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.grammar.avoiding import texts_without
from edgewise_runtime.grammar.escapes import Escape, json_escape, plain
from edgewise_runtime.grammar.nodes import (
    Chars,
    Choice,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
    simplified,
)
from edgewise_runtime.grammar.ranges import Ranges, characters, common, others, ranges_of

_STRUCTURE = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*"): |(?P<sign>, |: |true|false|null|[{\[}\]"])')
_BODY = re.compile(r'(?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])*')
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{0,3})?")
_DEEPER = {"{": 1, "[": 1, "}": -1, "]": -1}


@dataclass(frozen=True)
class Respelling:
    """How values are written in a notation.

    Attributes:
        quote: what a string stands between.
        escape: characters of a string.
        avoided: what no string may have in it; empty where all may be written.
        words: of JSON's words and separators those that are others.
        bare_keys: names in objects stand without quotes where they can.
        bare_text: a string that is no part of another value stands without quotes, as it is.
    """

    quote: str = '"'
    escape: Escape = json_escape
    avoided: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    bare_keys: bool = False
    bare_text: bool = False


@dataclass(frozen=True)
class _Place:
    """Where in a text a node begins or ends.

    Attributes:
        depth: how many arrays and objects are around it; of a rule that is within some, 1.
        string: of the string that it is in, as much of an escape as has come; None outside.
    """

    depth: int
    string: str | None = None


def respelled(
    node: Node, given: Mapping[str, Node], rules: dict[str, Node], prefix: str, how: Respelling
) -> Node:
    """The node of the same values in another notation.

    Where a notation has a mark that no string may have, a string of any length is any that has
    not; a string whose length is bounded, or that has a pattern, has the first character of the
    mark only where the pattern spells it.

    Args:
        given: the node's rules.
        rules: those that the respelled node needs are added, under names with the prefix.

    Raises:
        UnsupportedError: ``unsupported.tool_choice`` for strings that have the mark.
    """
    work = _Respelled(given, rules, prefix, how)
    found, end = work.node(simplified(node), _Place(0), closes=False)
    work.check(end, _Place(0))
    return found


class _Respelled:
    def __init__(
        self, given: Mapping[str, Node], rules: dict[str, Node], prefix: str, how: Respelling
    ) -> None:
        self._given = given
        self._rules = rules
        self._prefix = prefix
        self._how = how
        self._known: dict[tuple[str, _Place, bool], Rule] = {}
        self._texts: dict[tuple[Ranges, int, bool, bool], Rule] = {}

    def node(self, node: Node, at: _Place, *, closes: bool) -> tuple[Node, _Place]:
        """A node respelled, and where it ends.

        Args:
            closes: a string ends where the node does.
        """
        match node:
            case Literal(text):
                return self._literal(text, at, closes)
            case Chars(ranges):
                return self._characters(ranges, at)
            case Sequence(items):
                return self._sequence(items, at, closes)
            case Choice(items):
                found = [self.node(item, at, closes=closes) for item in items]
                for _, end in found:
                    self.check(end, found[0][1])
                return Choice(tuple(item for item, _ in found)), found[0][1]
            case Repeat(item, least, most):
                return self._repeat(item, least, most, at, closes), at
            case Rule(name):
                return self._rule(name, at, closes)

    def check(self, found: _Place, wanted: _Place) -> None:
        """Refuse a grammar in which places differ."""
        if found != wanted:
            raise refused("A grammar has strings or brackets that begin here and end there.")

    def _rule(self, name: str, at: _Place, closes: bool) -> tuple[Node, _Place]:
        start = replace(at, depth=min(at.depth, 1))
        key = (name, start, closes)
        if key not in self._known:
            made = self._name()
            self._known[key] = Rule(made)
            self._rules[made], end = self.node(simplified(self._given[name]), start, closes=closes)
            self.check(end, start)
        return self._known[key], at

    def _sequence(self, items: tuple[Node, ...], at: _Place, closes: bool) -> tuple[Node, _Place]:
        found: list[Node] = []
        for i, item in enumerate(items):
            behind = items[i + 1] if i + 1 < len(items) else None
            last = behind is None and closes
            quoted = isinstance(behind, Literal) and behind.text.startswith('"')
            made, at = self.node(item, at, closes=last or quoted)
            found.append(made)
        return Sequence(tuple(found)), at

    def _repeat(self, item: Node, least: int, most: int | None, at: _Place, closes: bool) -> Node:
        ranges = _one_character(item) if at.string == "" else None
        if ranges is not None and most is None and least <= 1 and self._how.avoided:
            return self._any_text(ranges, least, closes, self._is_bare(at))
        made, end = self.node(item, at, closes=closes and most == 1)
        self.check(end, at)
        return Repeat(made, least, most)

    def _any_text(self, ranges: Ranges, least: int, closes: bool, bare: bool) -> Node:
        key = (ranges, least, closes, bare)
        if key not in self._texts:
            made = self._name()
            self._texts[key] = Rule(made)
            escape = plain if bare else self._how.escape
            self._rules[made] = texts_without(
                self._how.avoided, ranges, escape, least=least, ends=closes
            )
        return self._texts[key]

    def _name(self) -> str:
        return f"{self._prefix}{len(self._known) + len(self._texts)}"

    def _literal(self, text: str, at: _Place, closes: bool) -> tuple[Node, _Place]:
        found: list[Node] = []
        while text:
            if at.string is None:
                part, text, at = self._outside(text, at)
            else:
                part, text, at = self._inside(text, at, closes)
            found.append(part)
        return simplified(Sequence(tuple(found))), at

    def _outside(self, text: str, at: _Place) -> tuple[Node, str, _Place]:
        """What a text begins with that is no part of a string, what is left, and where that is."""
        found = _STRUCTURE.search(text)
        if found is None:
            return Literal(text), "", at
        if found.start():
            return Literal(text[: found.start()]), text[found.start() :], at
        text = text[found.end() :]
        if key := found["key"]:
            return Literal(self._key(str(json.loads(key)))), text, at
        sign = found["sign"]
        if sign == '"':
            at = replace(at, string="")
            return self._quote(at), text, at
        at = replace(at, depth=at.depth + _DEEPER.get(sign, 0))
        return Literal(self._how.words.get(sign, sign)), text, at

    def _key(self, name: str) -> str:
        colon = self._how.words.get(": ", ": ")
        if self._how.bare_keys and len(name) <= MAX_NAME and NAME.fullmatch(name):
            return name + colon
        self._refuse_marked(name, whole=True)
        return self._how.quote + self._spelled(name, self._how.escape) + self._how.quote + colon

    def _inside(self, text: str, at: _Place, closes: bool) -> tuple[Node, str, _Place]:
        """As `_outside`, of what is part of a string."""
        before = at.string or ""
        body = _BODY.match(before + text)
        spelled = body[0] if body else ""
        left = (before + text)[len(spelled) :]
        whole = left.startswith('"')
        if spelled:
            said = str(json.loads(f'"{spelled}"'))
            self._refuse_marked(said, whole=whole or (closes and not left))
            return Literal(self._spelled(said, self._escape(at))), left, replace(at, string="")
        if whole:
            return self._quote(at), left[1:], replace(at, string=None)
        if not _ESCAPE.fullmatch(left):
            raise refused("A grammar has strings with escapes that are none.")
        return Sequence(()), "", replace(at, string=left)

    def _characters(self, ranges: Ranges, at: _Place) -> tuple[Node, _Place]:
        if at.string is None:
            return Chars(ranges), at
        if at.string:
            codes = [code for first, last in ranges for code in range(first, last + 1)]
            said = (json.loads(f'"{at.string}{chr(code)}"') for code in codes)
            ranges = characters("".join(said))
        kept = ranges
        if self._how.avoided:
            kept = common(ranges, others(characters(self._how.avoided[0])))
        if not kept:
            raise self._marked(self._how.avoided[0])
        return self._escape(at)(kept), replace(at, string="")

    def _is_bare(self, at: _Place) -> bool:
        return self._how.bare_text and at.depth == 0

    def _escape(self, at: _Place) -> Escape:
        return plain if self._is_bare(at) else self._how.escape

    def _quote(self, at: _Place) -> Node:
        return Sequence(()) if self._is_bare(at) else Literal(self._how.quote)

    def _spelled(self, text: str, escape: Escape) -> str:
        nodes = (simplified(escape(characters(c))) for c in text)
        return "".join(node.text for node in nodes if isinstance(node, Literal))

    def _refuse_marked(self, text: str, *, whole: bool) -> None:
        """Refuse a text that has the mark, or that one may begin in which goes on behind it."""
        mark = self._how.avoided
        size = 0 if whole or not mark else len(mark) - 1
        begun = (text.endswith(mark[:n]) for n in range(1, size + 1))
        if mark and (mark in text or any(begun)):
            raise self._marked(text)

    def _marked(self, text: str) -> UnsupportedError:
        return refused(
            f"A string of a tool's schema has {json.dumps(text[:80], ensure_ascii=False)} in it, "
            f"which may begin {self._how.avoided!r}, the mark that ends strings."
        )


def _one_character(node: Node) -> Ranges | None:
    """The set of characters that a node spells one of, inside a JSON string."""
    match node:
        case Literal(text):
            return _said_by(text)
        case Chars(ranges):
            return ranges
        case Choice(items):
            found = [_one_character(item) for item in items]
            some = [ranges for ranges in found if ranges is not None]
            return ranges_of(pair for each in some for pair in each) if some == found else None
        case Sequence((Literal(text), Chars(ranges))) if _ESCAPE.fullmatch(text):
            codes = [code for first, last in ranges for code in range(first, last + 1)]
            one = [_said_by(text + chr(code)) for code in codes]
            return ranges_of(pair for each in one if each for pair in each)
    return None


def _said_by(text: str) -> Ranges | None:
    try:
        said = str(json.loads(f'"{text}"'))
    except json.JSONDecodeError:
        return None
    return characters(said) if len(said) == 1 else None
