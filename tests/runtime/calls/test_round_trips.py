"""Calls that a chat template writes into a conversation are read back as the same calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewise_runtime.calls import Arguments, CallBegins, CallEnds, call_grammar, format_named
from tests.runtime.calls.cases import Case, cut, parsed
from tests.runtime.calls.rounds import TOOLS, rounds
from tests.runtime.grammar.recognise import accepts

ROUNDS = rounds()
LOOSE = ("deepseek", "mistral")
"""Templates that leave out the marks around all calls, or write ids that a grammar does not."""


@pytest.mark.parametrize("given", ROUNDS, ids=lambda given: given["template"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_call_that_is_rendered_is_read_back(given: dict[str, Any], size: int) -> None:
    assert given["whole"].startswith(given["prompt"] + given["said"])
    case = Case(given["format"], "", given["said"], (), TOOLS, False)
    deltas = parsed(case, cut(given["said"], [size]))
    assert all(isinstance(delta, CallBegins | Arguments | CallEnds) for delta in deltas)
    names = [delta.name for delta in deltas if isinstance(delta, CallBegins)]
    arguments = [json.loads(delta.text) for delta in deltas if isinstance(delta, Arguments)]
    assert [list(each) for each in zip(names, arguments, strict=True)] == given["calls"]


@pytest.mark.parametrize("given", ROUNDS, ids=lambda given: given["template"])
def test_results_follow_the_calls(given: dict[str, Any]) -> None:
    behind = given["whole"].removeprefix(given["prompt"] + given["said"])
    places = [behind.index(f"result {number}") for number in range(len(given["calls"]))]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "given",
    [given for given in ROUNDS if given["template"] not in LOOSE],
    ids=lambda given: given["template"],
)
def test_a_call_that_is_rendered_is_one_that_may_be_forced(given: dict[str, Any]) -> None:
    made = call_grammar(format_named(given["format"]), TOOLS, choice="required")
    assert accepts(made.grammar, given["said"])
