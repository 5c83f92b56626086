"""Lark's grammars, as llguidance and vLLM take them, too: a language over characters.

Rules have small names, the first of them ``start``; terminals have capital ones, and refer to
terminals only: texts in double quotes (``"…"i`` ignores case), regular expressions
(``/…/`` with the flags i, s and u), ranges ``"a".."z"``, groups, ``[…]`` for what may be missing,
``* + ?`` and ``~ m`` or ``~ m..n``, comments after ``//`` or ``#`` (lark, docs/grammar.md). What
shapes a tree or decides between trees means nothing here and is read over: ``!`` and ``?`` before a
name, aliases, priorities. What is ignored may stand before, between and after a rule's terminals,
any number of times. Terminals are no longest matches: a text is taken if there is a way to read it.
"""

from __future__ import annotations

import re

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.escapes import plain
from edgewise_runtime.grammar.expressions import read_choice
from edgewise_runtime.grammar.lark_terminals import COMMON
from edgewise_runtime.grammar.naming import named_rules
from edgewise_runtime.grammar.nodes import Choice, Grammar, Literal, Node, Repeat, Rule, Sequence
from edgewise_runtime.grammar.ranges import characters, ranges_of
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.source import OTHER, Source, Token

START = "start"

_KINDS = {
    "space": r"[ \t\r\n]+|//[^\n]*|#[^\n]*",
    "name": "[?!]{0,2}[A-Za-z_][A-Za-z0-9_]*",
    "text": r'"(?:[^"\\\n]|\\[^\n])*"i?',
    "regex": r"/(?:[^/\\\n]|\\[^\n])+/[a-z]*",
    "directive": "%[a-z]+",
    "number": "[0-9]+",
    "range": r"\.\.",
    "alias": "->",
    "token": r"<[^>\n]*>",
    "sign": r"[:|()\[\]*+?~.,{}-]",
    OTHER: r"[\s\S]",
}
_RULE = re.compile("_?[a-z][_a-z0-9]*")
_TERMINAL = re.compile("_?[A-Z][_A-Z0-9]*")
_SIGNS = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_FLAGS = "isu"
# No names of people's: nothing that is read begins so.
_IGNORED = "%ignored"
_WHOLE = "%whole"


def read_lark(text: str) -> Grammar:
    """The grammar that a text in Lark's syntax is.

    Raises:
        InputError: ``input.grammar``, with line and column; ``input.regex``.
        UnsupportedError: ``unsupported.grammar``, ``unsupported.regex``.
    """
    return _Lark(text).read()


class _Lark:
    def __init__(self, text: str) -> None:
        self._source = Source(text, _KINDS)
        self._rules: dict[str, Node] = {}
        self._used: list[Token] = []
        self._ignored: list[Node] = []
        self._ignores = any(token.text == "%ignore" for token in self._source.tokens)
        self._in_rule = False

    def read(self) -> Grammar:
        source = self._source
        while source.peek().kind != "end":
            if source.peek().kind == "directive":
                self._directive(source.take())
            else:
                self._definition()
            if not self._begins_item():
                raise source.unexpected(source.peek(), "a rule, a terminal or a directive")
        for token in self._used:
            if token.text not in self._rules:
                raise source.wrong(f"there is no rule or terminal {token.text[:80]}", token.at)
        if START not in self._rules:
            raise source.wrong(f"there is no rule {START}", 0)
        if not self._ignored:
            return named_rules(self._rules, START)
        each = tuple(self._once(node) for node in self._ignored)
        self._rules[_IGNORED] = Repeat(Choice(each), 0, None)
        self._rules[_WHOLE] = Sequence((Rule(_IGNORED), Rule(START)))
        return named_rules(self._rules, _WHOLE)

    def _once(self, node: Node) -> Node:
        """What is repeated anyway, by itself where it is a repetition: a text of white space would
        else be read in many ways."""
        inner = self._rules[node.name] if isinstance(node, Rule) else node
        match inner:
            case Repeat(item, 0 | 1, None):
                return item
        return node

    def _definition(self) -> None:
        source = self._source
        token = source.wants("name", "a rule, a terminal or a directive")
        name = token.text.lstrip("?!")
        self._in_rule = _RULE.fullmatch(name) is not None
        if not self._in_rule and (name != token.text or not _TERMINAL.fullmatch(name)):
            raise source.wrong(f"{shorten(token.text)} names neither rule nor terminal", token.at)
        self._refuse_template()
        if source.takes("."):
            source.takes("-")
            source.wants("number", "a priority")
        if not source.takes(":"):
            raise source.unexpected(source.peek(), "a colon")
        self._define(name, read_choice(source, self), token.at)

    def _define(self, name: str, node: Node, at: int) -> None:
        if name in self._rules:
            raise self._source.wrong(f"{name[:80]} is there twice", at)
        self._rules[name] = node

    def _refuse_template(self) -> None:
        if self._source.peek().text == "{":
            raise self._source.refused("a template", self._source.peek().at)

    def _directive(self, token: Token) -> None:
        if token.text == "%ignore":
            self._in_rule = False
            self._ignored.append(read_choice(self._source, self))
        elif token.text == "%import":
            self._import()
        else:
            raise self._source.refused(f"the directive {token.text[:80]}", token.at)

    def _import(self) -> None:
        source = self._source
        module = source.peek()
        if module.text != "common":
            only = "Terminals of `common` can be imported; write others out."
            raise source.refused(f"an import from {shorten(module.text)}", module.at, only)
        source.take()
        if source.takes("("):
            self._imported(source.wants("name", "a terminal"))
            while source.takes(","):
                self._imported(source.wants("name", "a terminal"))
            if not source.takes(")"):
                raise source.unexpected(source.peek(), ")")
            return
        if not source.takes("."):
            raise source.unexpected(source.peek(), "a full stop")
        self._imported(source.wants("name", "a terminal"), aliased=True)

    def _imported(self, token: Token, aliased: bool = False) -> None:
        source = self._source
        pattern = COMMON.get(token.text)
        if pattern is None:
            known = f"There are {', '.join(COMMON)}."
            raise source.refused(f"the import of {token.text[:80]}", token.at, known)
        name = token
        if aliased and source.peek().kind == "alias":
            source.take()
            name = source.wants("name", "a terminal")
            if not _TERMINAL.fullmatch(name.text):
                raise source.wrong(f"{shorten(name.text)} names no terminal", name.at)
        self._define(name.text, lower_regex(pattern, where="part"), name.at)

    def _begins_item(self) -> bool:
        """Whether an item of the grammar begins here, or nothing more comes."""
        token, after = self._source.peek(), self._source.peek(1)
        if token.kind in ("directive", "end"):
            return True
        priority = after.text == "." and self._source.peek(2).kind in ("number", "sign")
        return token.kind == "name" and (after.text in (":", "{") or priority)

    def ends(self) -> bool:
        if self._source.peek().kind == "alias":
            self._source.take()
            self._source.wants("name", "an alias")
        token = self._source.peek()
        return self._begins_item() or (token.kind == "sign" and token.text in "|)]")

    def counts(self) -> tuple[int, int | None] | None:
        source = self._source
        token = source.peek()
        if token.kind != "sign" or token.text not in ("*", "+", "?", "~"):
            return None
        source.take()
        if token.text in _SIGNS:
            return _SIGNS[token.text]
        least = source.wants("number", "a count")
        most = None
        if source.peek().kind == "range":
            source.take()
            most = source.wants("number", "a count").text
        return source.counts(least.text, most, least.at)

    def atom(self, depth: int) -> Node:
        source = self._source
        token = source.take()
        if token.kind == "sign" and token.text in ("(", "["):
            inner = read_choice(source, self, depth + 1)
            if not source.takes(")" if token.text == "(" else "]"):
                raise source.unexpected(source.peek(), "the end of a group")
            return inner if token.text == "(" else Repeat(inner, 0, 1)
        if token.kind == "name":
            self._refuse_template()
            if _RULE.fullmatch(token.text):
                if not self._in_rule:
                    raise source.wrong(f"a terminal has the rule {token.text[:80]} in it", token.at)
                self._used.append(token)
                return Rule(token.text)
        return self._spaced(self._terminal(token))

    def _spaced(self, terminal: Node) -> Node:
        """A terminal, and in a rule what is ignored after it."""
        if self._in_rule and self._ignores:
            return Sequence((terminal, Rule(_IGNORED)))
        return terminal

    def _terminal(self, token: Token) -> Node:
        source = self._source
        if token.kind == "name" and _TERMINAL.fullmatch(token.text):
            self._used.append(token)
            return Rule(token.text)
        if token.kind == "regex":
            return self._regex(token)
        if token.kind == "text" and source.peek().kind == "range":
            source.take()
            return self._range(token, source.wants("text", "a text of one character"))
        if token.kind == "text":
            return self._text(token)
        if token.kind == "token":
            raise source.refused("a token by its name or number", token.at)
        raise source.unexpected(token, "a text, an expression, a name or a group")

    def _regex(self, token: Token) -> Node:
        pattern, _, flags = token.text[1:].rpartition("/")
        for flag in flags:
            if flag not in _FLAGS:
                raise self._source.refused(f"the flag {flag} of an expression", token.at)
        try:
            return lower_regex(
                pattern, where="part", ignore_case="i" in flags, dot_all="s" in flags
            )
        except EdgewiseError as error:
            raise self._source.inside(error, token.at) from error

    def _text(self, token: Token) -> Node:
        written, _, flag = token.text[1:].rpartition('"')
        points = [code for code, _ in self._source.characters(written, token.at + 1)]
        if not points:
            return Sequence(())
        if not flag:
            return Literal("".join(map(chr, points)))
        if max(points) > 0x7F:
            raise self._source.refused(
                "a character beyond ASCII in a text whose case is ignored", token.at
            )
        both = (chr(code).lower() + chr(code).upper() for code in points)
        return Sequence(tuple(plain(characters(pair)) for pair in both))

    def _range(self, first: Token, last: Token) -> Node:
        ends = [
            self._source.characters(token.text[1:-1], token.at + 1)
            for token in (first, last)
            if token.text.endswith('"')
        ]
        if [len(points) for points in ends] != [1, 1] or ends[0][0][0] > ends[1][0][0]:
            raise self._source.wrong("a range is from a character to a later one", first.at)
        ranges = ranges_of([(ends[0][0][0], ends[1][0][0])])
        return plain(ranges)
