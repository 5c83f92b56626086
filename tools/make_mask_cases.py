"""Writes tests/grammar/masks.json: the masks of both languages' matchers, for both to check.

    python -m tools.make_mask_cases

The file holds one object:

    tokens   the vocabulary: each token's bytes in hexadecimal, null for one that has none
    cases    a line each:
        what     a name
        text     a grammar, in GBNF or Lark
        triggers, after   what it comes after in free text, and what follows it; not in every case
        steps    states along one text, the first of them the start, each with
            bytes    what leads there from the state before, in hexadecimal
            mask     the words of the mask as bytes, little-endian, in hexadecimal
            ends     0: a text may not end here; 1: it may; 2: it has to
            forced   of the bytes that must come the first 24, in hexadecimal
            free     1 where no mask is needed, in cases with triggers

`bytes` are those of a token that the mask before allows, or a part of a text in a case of a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.automaton import After
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.triggered import Triggered
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from tests.runtime.grammar import grammars
from tests.runtime.grammar.spelling import as_gbnf, random_rules
from tests.runtime.grammar.test_matcher import tokens_of
from tools.make_pattern_cases import CASES

PATH = CASES / "masks.json"
TOKENS = 450
STEPS = 12
RANDOM = 100
MOST_FORCED = 24
LETTERS = 'aaabbbc"\\[]{}()\n\t -+^/,.:=019éß日本😀߿ࠀ￿\U0010ffff'
WORDS = (
    "true",
    "false",
    "null",
    '": ',
    '", "',
    '{"',
    '"}',
    "]]",
    "}}",
    ' "',
    "()",
    "    ",
    "\\u00",
)

COUNTED = {
    "a count": 'root ::= [ab]{3,70} ","',
    "a count in a count": 'root ::= ([ab]{2,3} "," ){40,50} "."?',
    "an ambiguous count": 'root ::= ("a" | "aa" | "ab" | "b"){33,40} ("a" | ",")',
    "a count of what may be empty": 'root ::= ("a"? "b"*){50,60} "c"',
    "a count that begins within a character": 'root ::= [é日😀]{5,100} "a"',
    "rules within one another": 'root ::= "(" root? ")" | "[" root* "]" | [é-日]+',
    "one rule with which others end": 'root ::= a | "b"\na ::= "a" root',
    "a schema": """\
root ::= "{\\"name\\": " text ", \\"age\\": " age (", \\"tags\\": [" tags "]")? "}"
text ::= "\\"" char{0,40} "\\""
char ::= [^"\\\\\\x00-\\x1F] | "\\\\" (["\\\\/bfnrt] | "u" [0-9a-f]{4})
age  ::= "0" | "-"? [1-9] [0-9]{0,2}
tags ::= (text (", " text){0,3})?
""",
}
LONG = {
    "far into rules": (COUNTED["rules within one another"], "(" * 200 + "[" * 60 + "()"),
    "far into a count": ('root ::= [a-c日]{0,60000} "."', "ab日" * 4000),
    "close to the end of a count": (COUNTED["a count"], "ab" * 33),
    "nested values": (grammars.GBNF["json"], '{"a": [' * 50 + "1" + "]}" * 20),
}
"""Grammars, and texts that are followed before tokens at random are."""

Triggers = tuple[tuple[str, ...], After]
TRIGGERED: dict[str, tuple[str, Triggers, str]] = {
    "one text after a trigger": ('root ::= "ab" [a-c]{1,40} "}"', (('{"',), "end"), '日a{"aba'),
    "texts after triggers": (
        'root ::= ("a" | "b" root)? "]"',
        (("()", "]]", "(]"), "free"),
        "x()ba]](]b",
    ),
    "texts that go on": ('root ::= "b" ("aa" root)?', (("a",), "free"), "\n ß b abaa"),
    "what is not UTF-8": ('root ::= "日" | "本"', (("日本", "😀"), "free"), "日日本日😀"),
    "an object in a text": (grammars.GBNF["json"], (('":', "[]"), "free"), 'It is []{"x'),
}
"""Grammars, triggers, and texts that are followed before tokens at random are."""

Case = dict[str, Any]


def vocabulary() -> Vocabulary:
    """All bytes, words, and letters at random of which the first and last may be cut; some tokens
    are there twice, some have no bytes."""
    random = Random(3)
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    tokens += [None, b"", *(word.encode() for word in WORDS), b"a" * 64, "日".encode() * 9, None]
    while len(tokens) < TOKENS:
        data = "".join(random.choices(LETTERS, k=random.randint(2, 5))).encode()
        first, last = random.choice([0, 0, 0, 1, 2]), random.choice([0, 0, 0, 1, 2])
        tokens.append(data[first : max(first + 1, len(data) - last)])
    return Vocabulary(tokens)


def step(matcher: Matcher, state: int, data: bytes) -> Case:
    mask = matcher.mask(state)
    free = {"free": int(matcher.free(state))} if isinstance(matcher, Triggered) else {}
    return {
        "bytes": data.hex(),
        "mask": mask.astype("<u4").tobytes().hex(),
        "ends": matcher.may_end(state) + matcher.must_end(state),
        "forced": matcher.forced(state, MOST_FORCED).hex(),
        **free,
    }


def steps(matcher: Matcher, tokens: Vocabulary, before: str, random: Random) -> Iterator[Case]:
    state, data = matcher.start, b""
    for part in (before.encode(),) if before else ():
        yield step(matcher, state, data)
        state, data = followed(matcher, state, part), part
    for _ in range(STEPS):
        found = step(matcher, state, data)
        yield found
        allowed = tokens_of(matcher.mask(state))
        if not allowed:
            return
        data = tokens.bytes_of(picked(tokens, allowed, random)) or b""
        state = followed(matcher, state, data)


def picked(tokens: Vocabulary, allowed: list[int], random: Random) -> int:
    """A token at random; one time out of two of the longer ones."""
    longer = [token for token in allowed if len(tokens.bytes_of(token) or b"") > 1]
    return random.choice(longer if longer and random.random() < 0.5 else allowed)


def followed(matcher: Matcher, state: int, data: bytes) -> int:
    after = matcher.advance_bytes(state, data)
    if after is None:
        raise ValueError(f"{data!r} may not come")
    return after


def texts() -> Iterator[tuple[str, str, str]]:
    """Names, grammars, and texts to begin with."""
    for name, text in {**grammars.GBNF, **grammars.LARK, **COUNTED}.items():
        yield name, text, ""
    for name, (text, before) in LONG.items():
        yield name, text, before
    random = Random(4)
    for i in range(RANDOM):
        yield f"at random {i}", as_gbnf(random_rules(random)), ""


def cases(tokens: Vocabulary) -> Iterator[Case]:
    random = Random(5)
    for name, text, before in texts():
        try:
            matcher = Matcher(lower_grammar(text), tokens)
            yield {"what": name, "text": text, "steps": [*steps(matcher, tokens, before, random)]}
        except EdgewiseError as error:
            raise ValueError(f"{name}: {error}") from error
    for name, (text, (triggers, after), before) in TRIGGERED.items():
        matcher = Matcher(lower_grammar(text), tokens)
        matcher = Triggered(matcher, [trigger.encode() for trigger in triggers], after, tokens)
        found = [*steps(matcher, tokens, before, random)]
        yield {"what": name, "text": text, "triggers": triggers, "after": after, "steps": found}


def written() -> str:
    """The file's content."""
    tokens = vocabulary()
    each = [tokens.bytes_of(token) for token in range(tokens.size)]
    spelled = json.dumps([data.hex() if data is not None else None for data in each])
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases(tokens))
    return f'{{"tokens": {spelled},\n"cases": [\n{lines}\n]}}\n'


def main() -> None:
    PATH.write_text(written(), "utf-8")


if __name__ == "__main__":
    main()
