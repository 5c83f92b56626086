"""Writes tests/grammar: what regular expressions become, for both languages to check.

    python -m tools.make_pattern_cases

Of expressions at random only a hash of the node's JSON is kept, or the code of the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.escapes import json_escape, plain
from edgewise_runtime.grammar.nodes import to_json
from edgewise_runtime.grammar.regex import lower_regex
from tests.runtime.grammar import regexes

CASES = Path(__file__).parents[1] / "tests" / "grammar"
ESCAPES = {"plain": plain, "json": json_escape}
RANDOM = 400

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


def random_cases() -> Iterator[Case]:
    random = Random(1)
    for _ in range(RANDOM):
        case = regex_case(regexes.random_regex(random), where=random.choice(["whole", "within"]))
        if "json" in case:
            case["json"] = sha256(compact(case["json"]).encode()).hexdigest()[:8]
        yield case


def lines(cases: Iterator[Case]) -> str:
    """One case a line."""
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"


def written() -> dict[str, str]:
    """Every file's name and content."""
    return {
        "regexes.json": lines(regex_cases()),
        "random-regexes.json": lines(random_cases()),
    }


def main() -> None:
    CASES.mkdir(exist_ok=True)
    for name, content in written().items():
        (CASES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
