"""Regular expressions and grammars, which come with requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import to_json
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.written import lower_grammar
from tests.fuzz.case import Files, Format
from tests.fuzz.mutate import texts
from tests.runtime.grammar import grammars, regexes

FILE = "constraint.txt"

_REGEX = (
    *("(", ")", "[", "]", "[^", "(?:", "(?<a>", "|", "*", "+", "?", "{2,3}", "{99999}", "{,", "\\"),
    *("\\S", "[^\\W\\d]", "\\u{1F600}", "\\ud83d", "^", "$", ".", "(((((((((", "a{999}" * 99),
)
_GRAMMAR = (
    *("::=", ":", "\n", '"', '"a"', "[", "]", "[^", "(", ")", "|", "*", "?", "{9}", "~ 9..99", "/"),
    *("/a+/i", "%ignore ", "%import common.", "<", "//", "#", "\\", "..", "->", "?", "_A", "root "),
    *("start: ", "\na: a a", "\nroot ::= root", "(" * 70, "{99999}" * 9, "WS", ".", "\\U0010ffff"),
)


def _seeds(sources: Iterable[str]) -> Sequence[Files]:
    return [{FILE: text.encode()} for text in sources if len(text) > 3]


def _mutate(words: Sequence[str], rng: Random, files: Files) -> Files:
    text = texts.damaged(rng, files[FILE].decode(), words)
    return {FILE: text.encode("utf-8", "surrogatepass")}


def _use(lower: Callable[[str], None], folder: Path, files: Files) -> None:
    lower((folder / FILE).read_bytes().decode("utf-8", "surrogatepass"))


def _regex(text: str) -> None:
    to_json(lower_regex(text, where="within", escape=json_escape))
    with suppress(UnsupportedError):
        lower_regex(text, where="part", ignore_case=True)


def _grammar(text: str) -> None:
    for node in lower_grammar(text).rules.values():
        to_json(node)


REGEX = Format(
    partial(_seeds, (*regexes.WHOLE, *regexes.WITHIN, *regexes.ESCAPED)),
    partial(_mutate, _REGEX),
    partial(_use, _regex),
)
GRAMMAR = Format(
    partial(_seeds, (*grammars.GBNF.values(), *grammars.LARK.values())),
    partial(_mutate, _GRAMMAR),
    partial(_use, _grammar),
)
