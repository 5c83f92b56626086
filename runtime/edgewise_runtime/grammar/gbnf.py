"""GBNF, the grammars of llama.cpp, which are also xgrammar's EBNF.

Rules are ``name ::= alternatives``, the first of them ``root``: texts in double quotes, classes in
brackets, ``.`` for any character, names, groups, ``* + ?`` and ``{m}``, ``{m,}``, ``{m,n}``, and
comments after ``#`` (llama.cpp, grammars/README.md). A rule goes on until the next one begins.
"""

from __future__ import annotations

from edgewise_runtime.grammar.escapes import plain
from edgewise_runtime.grammar.expressions import read_choice
from edgewise_runtime.grammar.naming import named_rules
from edgewise_runtime.grammar.nodes import Grammar, Literal, Node, Rule, Sequence
from edgewise_runtime.grammar.ranges import EVERY, Ranges, others, ranges_of
from edgewise_runtime.grammar.source import OTHER, Source, Token

ROOT = "root"

_KINDS = {
    "space": r"[ \t\r\n]+|#[^\n]*",
    "define": "::=",
    "tags": r"TagDispatch[ \t]*\(",
    "name": "[A-Za-z_][A-Za-z0-9_.-]*",
    "text": r'"(?:[^"\\\n]|\\[^\n])*"',
    "class": r"\[(?:[^\]\\\n]|\\[^\n])*\]",
    "count": r"\{[ \t]*[0-9]+[ \t]*(?:,[ \t]*[0-9]*[ \t]*)?\}",
    "ahead": r"\(=",
    "token": r"!?<[^>\n]*>",
    "sign": "[|()*+?.]",
    OTHER: r"[\s\S]",
}
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_REFUSED = {
    "tags": "TagDispatch",
    "ahead": "a look-ahead, (=…),",
    "token": "a token by its name or number",
}


def read_gbnf(text: str) -> Grammar:
    """The grammar that a text in GBNF is.

    Raises:
        InputError: ``input.grammar``, with line and column.
        UnsupportedError: ``unsupported.grammar``.
    """
    return _Gbnf(text).read()


class _Gbnf:
    def __init__(self, text: str) -> None:
        self._source = Source(text, _KINDS)
        self._rules: dict[str, Node] = {}
        self._used: list[Token] = []

    def read(self) -> Grammar:
        source = self._source
        while source.peek().kind != "end":
            name = source.wants("name", "a rule's name")
            source.wants("define", "::=")
            if name.text in self._rules:
                raise source.wrong(f"the rule {name.text[:80]} is there twice", name.at)
            self._rules[name.text] = read_choice(source, self)
            if not self._begins_rule() and source.peek().kind != "end":
                raise source.unexpected(source.peek(), "a rule")
        for token in self._used:
            if token.text not in self._rules:
                raise source.wrong(f"there is no rule {token.text[:80]}", token.at)
        if ROOT not in self._rules:
            raise source.wrong(f"there is no rule {ROOT}", 0)
        return named_rules(self._rules, ROOT)

    def _begins_rule(self) -> bool:
        return self._source.peek().kind == "name" and self._source.peek(1).kind == "define"

    def ends(self) -> bool:
        token = self._source.peek()
        over = token.kind == "end" or (token.kind == "sign" and token.text in "|)")
        return over or self._begins_rule()

    def counts(self) -> tuple[int, int | None] | None:
        token = self._source.peek()
        if token.kind == "sign" and token.text in _SIGNS:
            self._source.take()
            return _SIGNS[token.text]
        if token.kind != "count":
            return None
        self._source.take()
        least, comma, most = token.text[1:-1].partition(",")
        return self._source.counts(least.strip(), most.strip() if comma else None, token.at)

    def atom(self, depth: int) -> Node:
        token = self._source.take()
        if token.kind == "name":
            self._used.append(token)
            return Rule(token.text)
        if token.kind == "text":
            points = self._source.characters(token.text[1:-1], token.at + 1)
            text = "".join(chr(code) for code, _ in points)
            return Literal(text) if text else Sequence(())
        if token.kind == "class":
            return plain(self._class(token))
        if token.text == ".":
            return plain(EVERY)
        if token.text == "(":
            inner = read_choice(self._source, self, depth + 1)
            if not self._source.takes(")"):
                raise self._source.unexpected(self._source.peek(), ")")
            return inner
        if token.kind in _REFUSED:
            raise self._source.refused(_REFUSED[token.kind], token.at)
        raise self._source.unexpected(token, "a text, a class, a name or a group")

    def _class(self, token: Token) -> Ranges:
        negated = token.text.startswith("[^")
        start = 2 if negated else 1
        points = self._source.characters(token.text[start:-1], token.at + start)
        pairs: list[tuple[int, int]] = []
        i = 0
        while i < len(points):
            dash = points[i + 1 : i + 2] == [(0x2D, False)] and i + 2 < len(points)
            pairs.append((points[i][0], points[i + 2 if dash else i][0]))
            i += 3 if dash else 1
        if any(last < first for first, last in pairs):
            raise self._source.wrong("a range whose last is before its first", token.at)
        ranges = others(ranges_of(pairs)) if negated else ranges_of(pairs)
        if not ranges:
            raise self._source.wrong("a class that holds no character", token.at)
        return ranges
