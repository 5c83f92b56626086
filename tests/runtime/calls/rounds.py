"""Calls that a chat template writes, for reading them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.text import ChatTemplate
from edgewise_runtime.text.tool_calls import with_calls
from tests.runtime.calls.toolsets import BOOLEAN, INTEGER, STRING, Tools, taking
from tests.runtime.text import tool_conversations as written
from tests.runtime.text.tool_conversations import call, result

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
AT = {"type": "object", "properties": {"a": STRING, "b": BOOLEAN}}
TOOLS: Tools = {
    "get_weather": taking(
        {
            "city": STRING,
            "at": AT,
            "days": {"type": "array", "items": {"type": "number"}},
            "count": INTEGER,
        }
    ),
    "now": taking({}),
}
ARGUMENTS = {
    "city": 'Zürich "x" <b> 天気',
    "at": {"a": "x y", "b": True},
    "days": [1, 2.5],
    "count": 3,
}
SINGLE = [("get_weather", ARGUMENTS)]
PARALLEL = [("get_weather", {"city": "a\n b"}), ("now", {}), ("get_weather", {"days": []})]


@dataclass(frozen=True)
class Template:
    """A template, what its calls are written in, and what ends a turn."""

    source: str
    form: str
    end: str
    parallel: bool = True


def marked(source: str, marks: Mapping[str, str]) -> str:
    """The template of the tests with the marks of those that are published."""
    for plain, mark in marks.items():
        source = source.replace(plain, mark)
    return source


GEMMA = {"<call>": "<|tool_call>", "</call>": "<tool_call|>", "<escape>": '<|"|>'}
DEEPSEEK = {
    "<call>": "<｜tool▁call▁begin｜>",
    "</call>": "<｜tool▁call▁end｜>",
    "<sep>": "<｜tool▁sep｜>",
}
TEMPLATES = {
    "llama": Template(written.LLAMA, "llama3", "<|eot|>", parallel=False),
    "qwen": Template(written.QWEN, "hermes", "<|im_end|>\n"),
    "coder": Template(written.CODER, "qwen3_coder", "<|im_end|>\n"),
    "mistral": Template(written.MISTRAL, "mistral_list", "</s>"),
    "gemma": Template(marked(written.GEMMA, GEMMA), "gemma4", "<end_of_turn>\n"),
    "deepseek": Template(marked(written.DEEPSEEK, DEEPSEEK), "deepseek", "</s>"),
}


def messages_of(calls: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """A question, an answer that is calls, and their results."""
    made = [call(name, arguments, number) for number, (name, arguments) in enumerate(calls)]
    results = [result(f"result {number}", name, number) for number, (name, _) in enumerate(calls)]
    answer: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": made}
    return [{"role": "user", "content": "?"}, answer, *results]


def rendered(template: Template, messages: list[dict[str, Any]], *, open_turn: bool) -> str:
    compiled = ChatTemplate(template.source, SPECIAL_TOKENS)
    described = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
        for name, schema in TOOLS.items()
    ]
    given = with_calls(messages, compiled.call_form)
    return compiled.render(given, tools=described, add_generation_prompt=open_turn)


def rounds() -> list[dict[str, Any]]:
    """Of each template and calls: what it makes of the whole, what is the prompt in it, and what of
    the rest a model would have written."""
    found: list[dict[str, Any]] = []
    for name, template in TEMPLATES.items():
        for calls in (SINGLE, PARALLEL) if template.parallel else (SINGLE, PARALLEL[1:2]):
            messages = messages_of(calls)
            prompt = rendered(template, messages[:1], open_turn=True)
            whole = rendered(template, messages, open_turn=False)
            said = whole.removeprefix(prompt).partition(template.end)[0]
            found.append(
                {
                    "template": name,
                    "source": template.source,
                    "format": template.form,
                    "messages": messages,
                    "prompt": prompt,
                    "whole": whole,
                    "said": said,
                    "calls": [list(each) for each in calls],
                }
            )
    return found
