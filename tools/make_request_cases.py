"""Writes tests/request: what Python makes of tools, formats and calls, for both languages to check.

    python -m tools.make_request_cases

A case is what is given and what comes of it: a value, or the code of the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, ParamSpec

from edgewise.reasoning import Reasoning, reasoning_of, variables_of
from edgewise.response_format import ResponseFormat, response_format_of
from edgewise.tool_choice import tool_choice_of
from edgewise.tools import Tool, tools_of
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.text import ChatTemplate
from edgewise_runtime.text.tool_calls import CallForm, with_calls
from tests.runtime.text.conversations import SPECIAL_TOKENS, WEATHER, assistant, user
from tests.runtime.text.tool_conversations import ADD, CONVERSATIONS, TEMPLATES, call, spelled

P = ParamSpec("P")

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "request"

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOLS: tuple[Any, ...] = (
    None,
    [],
    [WEATHER, ADD],
    [{"name": "f"}],
    [{"function": {"name": "f", "strict": True, "parameters": {"type": "object", "title": "T"}}}],
    [{"type": "function", "function": {"name": "a.b/c-d_1", "description": None}}],
    [{"name": "f", "parameters": None}],
    [{"name": "f", "parameters": {"properties": {"__proto__": {"type": "null"}}}}],
    "weather",
    {"name": "f"},
    [7],
    [None],
    [[]],
    [{}],
    [{"name": "a b"}],
    [{"name": "é"}],
    [{"name": ""}],
    [{"name": "-a"}],
    [{"name": "a" * 128}],
    [{"name": "a" * 129}],
    [{"name": 7}],
    [{"name": "f\n"}],
    [{"type": "function"}],
    [{"type": "function", "name": "f"}],
    [{"type": None, "function": {"name": "f"}}],
    [{"type": "code_interpreter"}],
    [{"type": "function", "function": []}],
    [{"name": "f", "description": 7}],
    [{"name": "f", "parameters": []}],
    [{"name": "f", "parameters": {"type": "array"}}],
    [{"name": "f", "parameters": {"type": None}}],
    [{"name": "f"}, {"name": "f"}],
)
NAMES = ["f", "g"]
NAMED = {"type": "function", "function": {"name": "f"}}
SOME: tuple[Any, ...] = (None, "auto", "none", "required", NAMED)
NONE: tuple[Any, ...] = (
    "any",
    "f",
    7,
    [],
    {},
    {"type": "function"},
    {"type": "function", "function": {"name": 7}},
    {"type": "function", "function": {"name": "other"}},
    {"type": "tool", "function": {"name": "f"}},
)
CHOICES: tuple[tuple[Any, list[str]], ...] = (
    *((value, names) for value in SOME for names in (NAMES, [])),
    *((value, NAMES) for value in NONE),
)


def wrapped(**changes: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, **changes}}


FORMATS: tuple[Any, ...] = (
    None,
    "text",
    {"type": "text"},
    "json",
    {"type": "json_object"},
    wrapped(),
    wrapped(name=None, strict=False, description="x"),
    {"type": "regex", "pattern": "[é]+"},
    {"type": "grammar", "grammar": 'root ::= "a"'},
    {"type": "grammar", "grammar": "x", "syntax": "lark"},
    {"type": "grammar", "grammar": "x", "syntax": None},
    {},
    "xml",
    {"type": "structural_tag"},
    {"type": "__proto__"},
    {"type": 7},
    {"type": "text", "pattern": "x"},
    {"type": "json_object", "schema": {}},
    {"type": "json_schema"},
    {"type": "json_schema", "json_schema": {}},
    wrapped(schema=True),
    wrapped(schema=[]),
    wrapped(name=7),
    wrapped(strict="yes"),
    wrapped(other=1),
    {"type": "regex"},
    {"type": "regex", "pattern": ""},
    {"type": "grammar", "grammar": 7},
    {"type": "grammar", "grammar": "x", "syntax": "peg"},
)
REASONING: tuple[Any, ...] = (
    *(None, True, False, "on", "off", "none", "low", "xhigh", 0, 512, 2**31 - 1),
    {},
    {"enabled": True, "budget": 9},
    {"effort": "low", "budget": None},
    *("yes", "", -1, 2**31, 1.5, []),
    {"enabled": 1},
    {"effort": "huge"},
    {"budget": True},
    {"budget": "9"},
    {"tokens": 9},
    {"enabled": False, "budget": 9},
    {"enabled": False, "effort": "low"},
)
SWITCHED = "{{ messages[0].content }}{% if enable_thinking is false %}</think>{% endif %}"
OTHERWISE = "{% if thinking %}<think>{% else %}</think>{% endif %}"
WITH_EFFORT = "Reasoning: {{ reasoning_effort | default('medium') }}"
REFUSING = "{{ raise_exception('No.') }}"
ASKED: tuple[tuple[str, Any], ...] = tuple(
    (source, asked)
    for source in (SWITCHED, OTHERWISE, WITH_EFFORT, REFUSING)
    for asked in (None, True, False, "high", {"enabled": True, "effort": "low"})
)
NO_ARGUMENTS: tuple[Any, ...] = ("{", "[]", "7", "null", '{"a": NaN}', '{"a": 1} x', 7, [])
CALLS: tuple[Any, ...] = (
    None,
    [],
    [call("f", {"city": "Zürich", "n": [1, 2.5, None, True, {"a": 'x "y"'}]})],
    [call("f", '{"a":  1}'), call("g", "", 2)],
    [call("f", None)],
    [{"function": {"name": "f"}}],
    [{"id": "1", "name": "f", "arguments": '{"x": 1}'}],
    [{**call("f", {}), "index": 3}],
    "x",
    7,
    {"a": 1},
    [7],
    [{}],
    [{"function": None}],
    [{"function": {"name": ""}}],
    *([call("f", wrong)] for wrong in NO_ARGUMENTS),
)


def outcome(make: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
    try:
        return {"value": make(*args, **kwargs)}
    except EdgewiseError as error:
        return {"error": error.code}


def tools(value: Any) -> Any:
    found = tools_of(value)
    return found and [
        {"name": one.name, "described": one.described, "parameters": one.parameters}
        for one in found
    ]


def choice(value: Any, names: list[str]) -> Any:
    known = [Tool(name, {}, {}, lambda given: given) for name in names]
    return asdict(tool_choice_of(value, known))


def response_format(value: Any) -> Any:
    found: ResponseFormat | None = response_format_of(value)
    if found is None:
        return None
    kept = {
        "json_object": (),
        "json_schema": ("schema", "name"),
        "regex": ("text",),
        "grammar": ("text", "syntax"),
    }
    return {"kind": found.kind, **{name: getattr(found, name) for name in kept[found.kind]}}


def variables(source: str, asked: Any) -> Any:
    template = ChatTemplate(source)
    reasoning: Reasoning = reasoning_of(asked)
    return variables_of(reasoning, lambda messages, given: template.render(messages, **given))


def rendered(source: str) -> dict[str, Any]:
    """The form of calls that a template wants, and the prompts of conversations with tools."""
    template = ChatTemplate(source, SPECIAL_TOKENS)

    def prompt(messages: Any, given: Any) -> str:
        return template.render(with_calls(messages, template.call_form), tools=given)

    return {
        "form": asdict(template.call_form),
        "prompts": [outcome(prompt, spelled(chat).messages, chat.tools) for chat in CONVERSATIONS],
    }


def called(calls: Any, form: CallForm) -> Any:
    return with_calls([user("?"), assistant(None, tool_calls=calls)], form)


def reasoning(value: Any) -> Any:
    return asdict(reasoning_of(value))


def cases() -> dict[str, Any]:
    return {
        "tools": [[one, outcome(tools, one)] for one in TOOLS],
        "choices": [[one, names, outcome(choice, one, names)] for one, names in CHOICES],
        "formats": [[one, outcome(response_format, one)] for one in FORMATS],
        "reasoning": [[one, outcome(reasoning, one)] for one in REASONING],
        "variables": [[source, one, outcome(variables, source, one)] for source, one in ASKED],
        "calls": [
            [one, text, outcome(called, one, CallForm(text, text))]
            for one in CALLS
            for text in (False, True)
        ],
        "special_tokens": SPECIAL_TOKENS,
        "conversations": [
            {"messages": spelled(chat).messages, "tools": chat.tools} for chat in CONVERSATIONS
        ],
        "templates": TEMPLATES,
        "rendered": {name: rendered(source) for name, source in TEMPLATES.items()},
    }


def main() -> None:
    CASES.mkdir(exist_ok=True)
    text = json.dumps(cases(), ensure_ascii=True, separators=(",", ":"))
    (CASES / "cases.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
