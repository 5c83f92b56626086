"""Grammars that people write: GBNF (llama.cpp, xgrammar's EBNF) or Lark (llguidance)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal as OneOf

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.gbnf import read_gbnf
from edgewise_runtime.grammar.lark import read_lark
from edgewise_runtime.grammar.nodes import Grammar

Syntax = OneOf["gbnf", "lark"]

_READERS: Mapping[Syntax, Callable[[str], Grammar]] = {"gbnf": read_gbnf, "lark": read_lark}
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*|//[^\n]*)*")
_BEGINNINGS: Mapping[Syntax, re.Pattern[str]] = {
    "gbnf": re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*[ \t\r\n]*::="),
    "lark": re.compile(r"%|[?!]*[A-Za-z_][A-Za-z0-9_]*[ \t]*(?:[.:{]|\Z)"),
}


def lower_grammar(text: str, syntax: Syntax | None = None) -> Grammar:
    """The grammar that a text is, in the syntax named or the one that its first rule is in.

    Raises:
        InputError: ``input.grammar``, with line and column, and ``input.regex`` for a regular
            expression in it.
        UnsupportedError: ``unsupported.grammar`` and ``unsupported.regex``, for what is refused by
            name.
    """
    return _READERS[syntax or syntax_of(text)](text)


def syntax_of(text: str) -> Syntax:
    """Which syntax a grammar is in: ``name ::=`` begins GBNF, ``name:`` or ``%`` Lark.

    Raises:
        InputError: ``input.grammar`` for something else.
    """
    blank = _BLANK.match(text)
    start = blank.end() if blank else 0
    for syntax, beginning in _BEGINNINGS.items():
        if beginning.match(text, start):
            return syntax
    raise InputError(
        f"A grammar begins with {shorten(text[start : start + 40])}.",
        remedy="Rules are written `root ::= …` (GBNF) or `start: …` (Lark).",
        code="input.grammar",
    )
