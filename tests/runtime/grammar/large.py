"""A vocabulary of the size that models have, and a schema's grammar that answers follow."""

from __future__ import annotations

from functools import cache
from random import Random

from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar

SIZE = 150_000
_CONTROL = 24
_SYLLABLES = (
    "a e i o u an en in on er ar or ing tion ed es al ic th st ch qu re de co pro con per "
    "s t r n l m d p k b g f v w y x z"
).split()
_SIGNS = '"""{}[](),,::;.!?-_=+*/\\<>\'#$%&@ \n\t'
_OTHER = ((0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x400, 0x4FF), (0x600, 0x6FF), (0x1F300, 0x1F64F))
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
def large_vocabulary(size: int = SIZE) -> Vocabulary:
    """All bytes, words with and without a space, signs, digits, runs of one character, characters
    of other scripts of which some are cut; and control tokens, the last ones."""
    random = Random(9)
    tokens = {bytes([byte]) for byte in range(256)}
    tokens |= {str(i).encode() for i in range(1000)}
    tokens |= {sign.encode() * n for sign in " \n\t=-*#." for n in range(2, 129)}
    while len(tokens) < size - _CONTROL:
        tokens.add(_token(random))
    spelled = sorted(tokens)
    random.shuffle(spelled)
    return Vocabulary([*spelled, *[None] * _CONTROL])


def _token(random: Random) -> bytes:
    kind = random.random()
    if kind < 0.7:
        word = "".join(random.choices(_SYLLABLES, k=random.randint(1, 5)))
        word = random.choice([word, word, word.capitalize(), word.upper()])
        return (random.choice(["", " ", " ", " ", "\n", '"', "_", "."]) + word).encode()
    if kind < 0.8:
        return "".join(random.choices(_SIGNS, k=random.randint(1, 5))).encode()
    text = "".join(chr(random.randint(*random.choice(_OTHER))) for _ in range(random.randint(1, 4)))
    data = text.encode()
    return data if kind < 0.97 else data[random.randint(0, 1) : -1]


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
