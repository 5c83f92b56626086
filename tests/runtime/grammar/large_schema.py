"""A grammar as schemas become, one of its texts, and a vocabulary as models have them."""

from __future__ import annotations

from functools import cache

from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from tests.runtime.grammar.large_vocabulary import large_tokens

_PROPERTIES = (
    "name description age price kind tags active city street zip country email phone score level "
    "items notes status owner updated"
).split()
_KINDS = ("text", "most", "whole", "number", "kind", "texts", "truth")
_RULES = r"""
text ::= "\"" char* "\""
most ::= "\"" char{0,200} "\""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
whole ::= "0" | "-"? [1-9] [0-9]{0,17}
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
kind ::= "\"alpha\"" | "\"beta\"" | "\"gamma\"" | "\"delta\""
texts ::= "[" (text ", "){0,9} text "]" | "[]"
truth ::= "true" | "false" | "null"
"""


@cache
def large_vocabulary() -> Vocabulary:
    return Vocabulary(large_tokens())


def schema_grammar() -> Grammar:
    """An object of 20 properties: texts, bounded ones, numbers, choices, lists."""
    values = (f'"\\"{name}\\": " {_KINDS[i % 7]}' for i, name in enumerate(_PROPERTIES))
    joined = ' ", " '.join(values)
    return lower_grammar(f'root ::= "{{" {joined} "}}"\n{_RULES}', "gbnf")


def schema_text() -> str:
    """One of its texts."""
    values = {
        "text": '"The quick brown fox\\n jumps"',
        "most": '"' + "Some words, and é日本 more of them. " * 5 + '"',
        "whole": "-1234",
        "number": "12.5e-3",
        "kind": '"gamma"',
        "texts": '["one", "two words", "three"]',
        "truth": "false",
    }
    members = (f'"{name}": {values[_KINDS[i % 7]]}' for i, name in enumerate(_PROPERTIES))
    return f"{{{', '.join(members)}}}"
