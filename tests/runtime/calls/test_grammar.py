"""What a grammar of calls allows is read as calls of its tools, with arguments that are valid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from edgewise_runtime.calls import (
    FORMATS,
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    Reasoning,
    format_named,
)
from edgewise_runtime.calls.grammar import CallGrammar, call_grammar
from edgewise_runtime.errors import InputError, UnsupportedError
from tests.runtime.calls import toolsets
from tests.runtime.calls.cases import Case, cases, cut, parsed
from tests.runtime.calls.hard_tools import hard_tools
from tests.runtime.calls.toolsets import TOOLSETS, Tools, taking
from tests.runtime.grammar.drawing import drawn
from tests.runtime.grammar.recognise import accepts

BY_NAME = ("gemma", "qwen3_coder")
"""Formats that write arguments one by one."""
NOT_JSON = (*BY_NAME, "gemma4", "function_gemma")
"""Formats that write values in a notation of their own."""
any_format = st.sampled_from(sorted(FORMATS))
any_tools = st.sampled_from(sorted(TOOLSETS))
any_sizes = st.lists(st.integers(1, 9), min_size=1, max_size=6)
any_choice = st.sampled_from(["auto", "required", "named"])


def grammar_of(
    form: str,
    tools: Tools,
    choice: Literal["auto", "required", "named"] = "required",
    *,
    parallel: bool = True,
) -> CallGrammar:
    name = next(iter(tools)) if choice == "named" else None
    return call_grammar(format_named(form), tools, choice=choice, name=name, parallel=parallel)


def text_of(made: CallGrammar, random: Random) -> str:
    """A text at random, after one of the triggers."""
    text = drawn(made.grammar, made.grammar.rules[made.grammar.root], random)
    return random.choice(made.triggers or ("",)) + text


def calls_of(deltas: list[Delta]) -> list[tuple[str, Any]]:
    """Names and arguments; a test fails where there is anything else."""
    found: list[tuple[str, Any]] = []
    for delta in deltas:
        match delta:
            case CallBegins(name=name):
                found.append((name, ""))
            case Arguments(text=text):
                found[-1] = (found[-1][0], json.loads(text))
            case _:
                assert isinstance(delta, CallEnds)
    return found


def without_thought(deltas: list[Delta]) -> list[Delta]:
    return deltas[1:] if deltas and isinstance(deltas[0], Reasoning) else deltas


@given(form=any_format, name=any_tools, choice=any_choice, sizes=any_sizes, seed=st.integers(0))
def test_every_text_is_read_as_calls_that_are_valid(
    form: str, name: str, choice: Any, sizes: list[int], seed: int
) -> None:
    tools, random = TOOLSETS[name], Random(seed)
    made = grammar_of(form, tools, choice, parallel=random.random() < 0.7)
    for _ in range(5):
        text = text_of(made, random)
        deltas = parsed(Case(form, "", text, (), tools, False), cut(text, sizes))
        calls = calls_of(without_thought(deltas) if form == "harmony" else deltas)
        assert calls, text
        for called, arguments in calls:
            Draft202012Validator(tools[called]).validate(arguments)


@given(form=st.sampled_from(NOT_JSON), seed=st.integers(0), sizes=any_sizes)
def test_arguments_that_are_hard_to_write_are_refused_or_right(
    form: str, seed: int, sizes: list[int]
) -> None:
    random = Random(seed)
    tools = hard_tools(random)
    try:
        made = grammar_of(form, tools, parallel=False)
    except UnsupportedError:
        return
    for _ in range(5):
        text = text_of(made, random)
        deltas = parsed(Case(form, "", text, (), tools, False), cut(text, sizes))
        [(called, arguments)] = calls_of(deltas)
        Draft202012Validator(tools[called]).validate(arguments)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("choice", "parallel"), [("required", False), ("named", True)])
def test_there_is_one_call_where_there_may_be_no_more(
    form: str, choice: Any, parallel: bool
) -> None:
    tools = TOOLSETS["names that begin alike"]
    made = grammar_of(form, tools, choice, parallel=parallel)
    for seed in range(40):
        text = text_of(made, Random(seed))
        deltas = parsed(Case(form, "", text, (), tools, False), [text])
        [(name, _)] = calls_of(without_thought(deltas))
        assert choice == "required" or name == "f"


@pytest.mark.parametrize("form", FORMATS)
def test_several_calls_of_several_tools_may_come(form: str) -> None:
    tools = TOOLSETS["names that begin alike"]
    made = grammar_of(form, tools)
    found = set()
    for seed in range(60):
        text = text_of(made, Random(seed))
        deltas = parsed(Case(form, "", text, (), tools, False), [text])
        found.add(tuple(name for name, _ in calls_of(without_thought(deltas))))
    assert {len(names) for names in found} >= {1, 2}
    assert {name for names in found for name in names} == set(tools)


RECORDED = {
    "deepseek": ("a call", "a thought and two calls"),
    "deepseek_v31": ("a thought that the prompt has begun", "two calls"),
    "function_gemma": ("a call", "two calls"),
    "gemma": ("a block of code",),
    "gemma4": ("a thought and a call",),
    "harmony": ("a call",),
    "hermes": ("a call", "a thought and a call", "words before and after a call"),
    "json": ("a call", "a thought and a call", "calls in lines"),
    "llama3": ("a call", "two calls"),
    "mistral": ("a call", "a call with an id", "a thought", "words and two calls"),
    "qwen3_coder": ("a call", "code with line ends and marks in it"),
}
"""Texts of tests/calls that are written as a grammar writes them."""
CASES = {(case.form, case.what): case for case in cases()}


def recorded_tools(case: Case) -> Tools:
    """Tools that take what they are called with in a case."""
    types = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}
    calls = [delta for delta in case.deltas if not isinstance(delta, Content | Reasoning)]
    return {
        name: taking({key: {"type": types[type(value)]} for key, value in arguments.items()})
        for name, arguments in calls_of(calls)
    }


@pytest.mark.parametrize(
    ("form", "what"), [(form, what) for form, whats in RECORDED.items() for what in whats]
)
def test_what_models_write_is_allowed(form: str, what: str) -> None:
    case = CASES[form, what]
    spelling = format_named(form).spelling
    said = case.deltas[-1].text if isinstance(case.deltas[-1], Content) else ""
    text = case.text.removesuffix(said).strip()
    begins = spelling.thought[0] if spelling.thought else spelling.first + spelling.begin
    made = grammar_of(form, recorded_tools(case))
    assert accepts(made.grammar, text[text.index(begins) :])


@pytest.mark.parametrize("form", sorted(FORMATS.keys() - {"json", "llama3"}))
def test_what_follows_a_trigger_is_what_follows_it_in_a_required_call(form: str) -> None:
    tools = TOOLSETS["one tool"]
    required = grammar_of(form, tools, parallel=False)
    made = grammar_of(form, tools, "auto", parallel=False)
    assert len(made.triggers) == 1
    assert made.after == "end"
    for seed in range(20):
        assert accepts(required.grammar, text_of(made, Random(seed)))


def test_where_text_may_follow_a_call_each_has_its_own_trigger() -> None:
    found = {form: grammar_of(form, TOOLSETS["one tool"], "auto").after for form in FORMATS}
    assert {form for form, after in found.items() if after == "free"} == {
        *("gemma", "hermes", "qwen3_coder"),
    }
    made = grammar_of("hermes", TOOLSETS["no arguments"], "auto")
    call = '\n{"name": "now", "arguments": {}}\n</tool_call>'
    assert accepts(made.grammar, call)
    assert not accepts(made.grammar, f"{call}\n<tool_call>{call}")


def test_without_a_mark_nothing_triggers() -> None:
    assert grammar_of("json", TOOLSETS["one tool"], "auto").triggers == ()
    assert grammar_of("llama3", TOOLSETS["one tool"], "auto").triggers == ("<|python_tag|>",)


@pytest.mark.parametrize(
    ("form", "spelled"),
    [
        ("hermes", '{"city": "a\\nb\\"", "days": 3}'),
        ("gemma4", 'call:get_weather{city:<|"|>a\nb"<|"|>,days:3}'),
        ("function_gemma", 'call:get_weather{city:<escape>a\nb"<escape>,days:3}'),
        ("gemma", 'get_weather(city="a\\nb\\"", days=3)'),
        (
            "qwen3_coder",
            '<parameter=city>\na\nb"\n</parameter>\n<parameter=days>\n3\n</parameter>\n',
        ),
    ],
)
def test_arguments_are_written_in_the_notation_of_the_format(form: str, spelled: str) -> None:
    spelling = format_named(form).spelling
    begin = f"{spelling.begin}get_weather{spelling.named}"
    text = spelled if spelled.startswith(("call:", "get_")) else begin + spelled
    before = spelling.first + spelling.begin.removesuffix("call:") if text is spelled else ""
    made = grammar_of(form, TOOLSETS["one tool"], parallel=False)
    assert accepts(made.grammar, before + text + spelling.end + spelling.last)


@pytest.mark.parametrize(
    ("form", "mark"),
    [("qwen3_coder", "</parameter>"), ("gemma4", '<|"|>'), ("function_gemma", "<escape>")],
)
def test_strings_have_no_mark_in_them_and_else_everything(form: str, mark: str) -> None:
    tools: Tools = {"f": taking({"a": toolsets.STRING}, "a")}
    made = grammar_of(form, tools, parallel=False)
    whole = text_of(made, Random(1))
    value = calls_of(parsed(Case(form, "", whole, (), tools, False), [whole]))[0][1]["a"]
    before, _, behind = whole.partition(value) if value else (whole, "", "")
    assert before.endswith(("\n", mark))
    parts = [mark[:-1], mark[1:], f"{mark[:-1]}<x", "<<", "<", f"<{mark[1:-1]}", "日\0"]
    for part in parts:
        assert accepts(made.grammar, f"{before}{part}{behind}"), part
    for part in (mark, f"x{mark}x", f"<{mark}", f"{mark[:3]}{mark}{mark}"):
        assert not accepts(made.grammar, f"{before}{part}{behind}"), part


def refusals() -> list[tuple[str, Tools]]:
    return [
        *((form, tools) for form in BY_NAME for tools in toolsets.OF_OBJECTS.values()),
        *(("qwen3_coder", tools) for tools in toolsets.TYPED.values()),
        *((form, tools) for form, some in toolsets.MARKED.items() for tools in some.values()),
        *((form, {name: taking({})}) for form in FORMATS for name in toolsets.NAMES),
        ("gemma", {"print": taking({})}),
        *((form, {"f": {"type": "string"}}) for form in FORMATS),
        *((form, {"f": taking({}, required="a")}) for form in BY_NAME),
        *((form, {"f": {"type": "object", "properties": []}}) for form in BY_NAME),
    ]


@pytest.mark.parametrize(("form", "tools"), refusals())
def test_what_a_format_cannot_write_is_refused(form: str, tools: Tools) -> None:
    with pytest.raises(UnsupportedError) as refused:
        grammar_of(form, tools)
    assert refused.value.code == "unsupported.tool_choice"
    assert refused.value.remedy


@pytest.mark.parametrize("tools", [*toolsets.OF_OBJECTS.values(), *toolsets.TYPED.values()])
def test_what_one_notation_cannot_write_others_can(tools: Tools) -> None:
    for form in FORMATS.keys() - {*BY_NAME}:
        made = grammar_of(form, tools)
        text = text_of(made, Random(3))
        deltas = parsed(Case(form, "", text, (), tools, False), [text])
        for called, arguments in calls_of(without_thought(deltas)):
            Draft202012Validator(tools[called]).validate(arguments)


@pytest.mark.parametrize("tools", [{}, TOOLSETS["one tool"]])
def test_there_has_to_be_a_tool(tools: Mapping[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        call_grammar(FORMATS["hermes"], tools, choice="named", name="f")
    assert refused.value.code == "input.tool_choice"
    with pytest.raises(InputError):
        call_grammar(FORMATS["hermes"], {}, choice="required")


def test_a_schema_that_no_grammar_is_made_of_is_refused_by_name() -> None:
    tools: Tools = {"f": taking({"a": {"not": {}}})}
    for form in FORMATS:
        with pytest.raises(UnsupportedError, match="not") as refused:
            grammar_of(form, tools)
        assert refused.value.code == "unsupported.schema"
