"""Regular expressions and grammars, which come with requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.nodes import to_json
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.triggered import Triggered
from edgewise_runtime.grammar.vocabulary import Vocabulary
from edgewise_runtime.grammar.written import lower_grammar
from tests.fuzz.case import Files, Format, WrongAnswerError
from tests.fuzz.mutate import texts
from tests.runtime.grammar import grammars, regexes
from tools.make_mask_cases import COUNTED

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

_ITEM = re.compile(r'"(?:[^"\\\n]|\\.)+"|\[(?:[^\]\\\n]|\\.)+\]')
_AROUND = (
    *("@*", "@{0,999}", "@{400}", "(@ | @ @){9,99}", "(@? @?){0,99}", "((@*)* @*){3,40}"),
    *(
        '([ab]* "a" [ab]{400} @)',
        '(@ root "x" | @ root "y")?',
        "(@ root)*",
        "@ root? @",
        "[^a]{5,}",
    ),
    *(
        '(@{1,40} "b"?){0,40}',
        "(@ [^x])+",
        "(@ | .)*",
        "(@{0,30}){0,30}",
        '("a" | "aa" | @){40,50}',
    ),
)
"""What an item of GBNF may become, where it is an @: still a grammar, but for rules that begin with
themselves."""
_STEPS = 6
_EACH = 32
_PIECES = ("true", "null", '": ', '", "', '{"', "}]", "()", "    ", "ab" * 20, "日本", "😀")
_TOKENS = (
    *(bytes([byte]) for byte in range(256)),
    *(piece.encode()[cut:] for cut in (0, 1) for piece in _PIECES),
    None,
)


def _seeds(sources: Iterable[str]) -> Sequence[Files]:
    return [{FILE: text.encode()} for text in sources if len(text) > 3]


def _mutate(words: Sequence[str], rng: Random, files: Files) -> Files:
    text = texts.damaged(rng, files[FILE].decode(), words)
    return {FILE: text.encode("utf-8", "surrogatepass")}


def _mutate_items(rng: Random, files: Files) -> Files:
    """A grammar of which some items have become other ones, or with any damage."""
    text = files[FILE].decode()
    if rng.random() < 0.2:
        return _mutate(_GRAMMAR, rng, files)
    for _ in range(rng.choice((1, 1, 2, 4))):
        items = list(_ITEM.finditer(text))
        if not items:
            return _mutate(_GRAMMAR, rng, files)
        item = rng.choice(items)
        changed = rng.choice(_AROUND).replace("@", item[0])
        text = text[: item.start()] + changed + text[item.end() :]
    return {FILE: text.encode()}


def _use(lower: Callable[[str], None], folder: Path, files: Files) -> None:
    lower((folder / FILE).read_bytes().decode("utf-8", "surrogatepass"))


def _regex(text: str) -> None:
    to_json(lower_regex(text, where="within", escape=json_escape))
    with suppress(UnsupportedError):
        lower_regex(text, where="part", ignore_case=True)


def _grammar(text: str) -> None:
    for node in lower_grammar(text).rules.values():
        to_json(node)


def _masks(text: str) -> None:
    vocabulary = Vocabulary(_TOKENS)
    matcher = Matcher(lower_grammar(text), vocabulary)
    _follow(matcher, vocabulary, text, matcher.start)
    triggered = Triggered(matcher, (b"<a>", b"<<"), "free", vocabulary)
    called = triggered.advance_bytes(triggered.start, b"b<<")
    if called is None:
        raise WrongAnswerError("a trigger may not come")
    _follow(triggered, vocabulary, text, called)


def _follow(matcher: Matcher, vocabulary: Vocabulary, text: str, state: int) -> None:
    """Follow tokens, and look whether masks say what may come."""
    for step in range(_STEPS):
        bits = np.unpackbits(matcher.mask(state).view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits).tolist()
        # Any of them may take as long as one of an answer: few are tried.
        for token in range(step, vocabulary.size, _EACH):
            if (token in allowed) is (matcher.advance(state, token) is None):
                raise WrongAnswerError(f"a mask is wrong about the token {token}")
        forced = matcher.forced(state, 1)
        if forced and forced[0] not in allowed:
            raise WrongAnswerError(f"{forced!r} has to come, and may not")
        if matcher.must_end(state) is bool(allowed):
            raise WrongAnswerError("there is no end and no token, or there are both")
        if not allowed:
            return
        token = allowed[(step * 7919 + len(text)) % len(allowed)]
        following = matcher.advance(state, token)
        if following is None:
            raise WrongAnswerError(f"the token {token} may come, and leads nowhere")
        state = following


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
MATCHER = Format(
    partial(_seeds, (*grammars.GBNF.values(), *COUNTED.values())),
    _mutate_items,
    partial(_use, _masks),
)
