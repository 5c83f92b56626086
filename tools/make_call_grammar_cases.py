"""Writes tests/calls/grammars: what tools become in each format, for both languages to check.

    python -m tools.make_call_grammar_cases

Of most grammars only a hash of their JSON is kept, or the code of the error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Literal

from edgewise_runtime.calls import (
    FORMATS,
    Arguments,
    CallBegins,
    CallEnds,
    Delta,
    Reasoning,
    call_grammar,
)
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.grammar.nodes import to_json
from tests.runtime.calls import toolsets
from tests.runtime.calls.cases import Case as Reading
from tests.runtime.calls.cases import parsed
from tests.runtime.calls.hard_tools import hard_tools
from tests.runtime.calls.rounds import TOOLS, rounds
from tests.runtime.grammar.drawing import drawn
from tools.make_pattern_cases import Case, hashed, lines

CASES = Path(__file__).parents[1] / "tests" / "calls" / "grammars"
HARD = 150
NOTATIONS = ("qwen3_coder", "gemma", "gemma4")
"""Formats of all notations of arguments but JSON."""
WHOLE = ("one tool", "no arguments")
CHOICES: tuple[Literal["auto", "required", "named"], ...] = ("auto", "required", "named")
TOOLSETS = {
    **toolsets.TOOLSETS,
    **toolsets.OF_OBJECTS,
    **toolsets.TYPED,
    **{
        f"{what}: {name}": tools
        for what, some in toolsets.MARKED.items()
        for name, tools in some.items()
    },
    **{f"a tool called {name[:20]!r}": {name: toolsets.taking({})} for name in toolsets.NAMES},
}
"""All tools of the cases, by what they are."""


def made(form: str, tools: toolsets.Tools, choice: Any, *, parallel: bool) -> Case:
    """What the tools become: a grammar, triggers and what may follow; or the code of the error."""
    name = next(iter(tools)) if choice == "named" else None
    try:
        found = call_grammar(FORMATS[form], tools, choice=choice, name=name, parallel=parallel)
    except EdgewiseError as error:
        return {"error": error.code}
    rules = {rule: to_json(node) for rule, node in found.grammar.rules.items()}
    return {"json": [found.grammar.root, rules, list(found.triggers), found.after]}


def cases() -> Iterator[Case]:
    for form in FORMATS:
        for name, tools in TOOLSETS.items():
            for choice in CHOICES:
                whole = name in WHOLE and choice == "required"
                parallel = choice != "auto" or name != "one tool"
                case = made(form, tools, choice, parallel=parallel)
                about = {"format": form, "tools": name, "choice": choice, "parallel": parallel}
                yield {**about, **(case if whole else hashed(case))}


def hard_cases() -> Iterator[Case]:
    """Tools at random, and what becomes of them where arguments are not written as JSON."""
    random = Random(51)
    for _ in range(HARD):
        tools = hard_tools(random)
        found = {form: hashed(made(form, tools, "required", parallel=True)) for form in NOTATIONS}
        yield {"tools": tools, "outcomes": found}


def texts() -> Iterator[Case]:
    """A text at random of each grammar that there is, and the calls that it is read as."""
    for number, (form, name) in enumerate(product(FORMATS, TOOLSETS)):
        tools = TOOLSETS[name]
        try:
            found = call_grammar(FORMATS[form], tools, choice="required")
        except EdgewiseError:
            continue
        text = drawn(found.grammar, found.grammar.rules["root"], Random(number))
        deltas = parsed(Reading(form, name, text, (), tools, False), [text])
        kept = [delta for delta in deltas if not isinstance(delta, Reasoning)]
        yield {"format": form, "tools": name, "text": text, "calls": calls_of(kept)}


def calls_of(deltas: Iterable[Delta]) -> list[list[str]]:
    """The names of calls and the texts of their arguments.

    Raises ValueError where there is anything else.
    """
    calls: list[list[str]] = []
    for delta in deltas:
        match delta:
            case CallBegins(name=name):
                calls.append([name])
            case Arguments(text=text):
                calls[-1].append(text)
            case CallEnds():
                pass
            case _:
                raise ValueError(delta)
    return calls


def written() -> dict[str, str]:
    """Every file's name and content."""
    return {
        "cases.json": lines(cases()),
        "texts.json": lines(texts()),
        "hard.json": lines(hard_cases()),
        "tools.json": json.dumps(TOOLSETS, indent=1) + "\n",
        "rounds.json": json.dumps({"tools": TOOLS, "rounds": rounds()}, indent=1) + "\n",
    }


def main() -> None:
    CASES.mkdir(exist_ok=True)
    for name, content in written().items():
        (CASES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main()
