"""Writes tests/grammar: what expressions and grammars become, for both languages to check.

    python -m tools.make_pattern_cases

Of what is at random only a hash of the node's JSON is kept, or the code of the error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.escapes import json_escape, plain
from edgewise_runtime.grammar.nodes import to_json
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.written import lower_grammar
from tests.runtime.grammar import grammars, regexes

CASES = Path(__file__).parents[1] / "tests" / "grammar"
ESCAPES = {"plain": plain, "json": json_escape}
RANDOM = 400
RUN = re.compile(r"(.{1,4}?)\1{30,}", re.S)

Case = dict[str, Any]


def compact(value: object) -> str:
    """JSON as ``JSON.stringify`` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def outcome(make: Callable[[], object]) -> Case:
    try:
        return {"json": make()}
    except EdgewiseError as error:
        return {"error": error.code}


def regex_case(pattern: str, **options: Any) -> Case:
    """A case; `options` as `lower_regex` takes them, the escape by its name."""
    given = {**options, "escape": ESCAPES[options.get("escape", "plain")]}
    found = outcome(lambda: to_json(lower_regex(pattern, **given)))
    return {"pattern": pattern, **options, **found}


def regex_cases() -> Iterator[Case]:
    for patterns, options in (
        (regexes.WHOLE, {}),
        (regexes.WITHIN, {"where": "within"}),
        (regexes.ESCAPED, {"where": "within", "escape": "json"}),
        (regexes.FOLDED, {"ignore_case": True}),
        ((".", "^a", "a"), {"where": "part", "dot_all": True}),
        (regexes.UNSUPPORTED.values(), {}),
        (regexes.WRONG.values(), {}),
        (regexes.BOMBS.values(), {}),
        (("é", "[a-é]"), {"ignore_case": True}),
    ):
        yield from (regex_case(pattern, **options) for pattern in patterns)


def grammar_json(text: str) -> Case:
    grammar = lower_grammar(text)
    rules = {name: to_json(node) for name, node in grammar.rules.items()}
    return {"root": grammar.root, "rules": rules}


def grammar_cases() -> Iterator[Case]:
    for texts in (
        *(grammars.GBNF, grammars.LARK, grammars.UNSUPPORTED, grammars.UNSUPPORTED_REGEX),
        *(grammars.WRONG, grammars.WRONG_REGEX, grammars.RECURSIVE),
    ):
        for name, text in texts.items():
            yield {"what": name, "text": text, **outcome(partial(grammar_json, text))}


def bomb_cases() -> Iterator[Case]:
    """Long texts as what they repeat, and how often."""
    for name, text in grammars.BOMBS.items():
        yield {"what": name, "parts": runs_of(text), **outcome(partial(grammar_json, text))}


def runs_of(text: str) -> list[list[Any]]:
    """Pairs of a part and a count, which make the text: shorter where parts of up to four
    characters come many times in a row."""
    runs: list[list[Any]] = []
    at = 0
    while at < len(text):
        match = RUN.match(text, at)
        part, length = (match[1], len(match[0])) if match else (text[at], 1)
        if length == 1 and runs and runs[-1][1] == 1:
            runs[-1][0] += part
        else:
            runs.append([part, length // len(part)])
        at += length
    return runs


def random_grammars() -> Iterator[Case]:
    random = Random(2)
    for _ in range(RANDOM):
        text = grammars.random_grammar(random)
        yield {"text": text, **hashed(outcome(partial(grammar_json, text)))}


def hashed(found: Case) -> Case:
    if "json" not in found:
        return found
    return {"json": sha256(compact(found["json"]).encode()).hexdigest()[:8]}


def random_regexes() -> Iterator[Case]:
    random = Random(1)
    for _ in range(RANDOM):
        case = regex_case(regexes.random_regex(random), where=random.choice(["whole", "within"]))
        yield {**case, **hashed(case)}


def lines(cases: Iterator[Case]) -> str:
    """One case a line."""
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"


def written() -> dict[str, str]:
    """Every file's name and content."""
    return {
        "regexes.json": lines(regex_cases()),
        "random-regexes.json": lines(random_regexes()),
        "grammars.json": lines(grammar_cases()),
        "random-grammars.json": lines(random_grammars()),
        "grammar-bombs.json": lines(bomb_cases()),
    }


def main() -> None:
    CASES.mkdir(exist_ok=True)
    for name, content in written().items():
        (CASES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
