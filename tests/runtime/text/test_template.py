"""Chat templates render as transformers renders them, and what they raise is explained."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from edgewise_runtime.errors import CheckpointError, EdgewiseError, InputError
from edgewise_runtime.text import ChatTemplate
from tests.runtime.text.conversations import (
    CONVERSATIONS,
    NOW,
    SPECIAL_TOKENS,
    TEMPLATES,
    user,
)

GOLDENS = Path(__file__).parent / "goldens"
EXPECTED: dict[str, list[list[str | None]]] = json.loads(
    (GOLDENS / "templates.json").read_text("ascii")
)


def compiled(name: str) -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name], SPECIAL_TOKENS, clock=lambda: NOW)


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("index", range(len(CONVERSATIONS)))
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_conversation_is_rendered_as_transformers_renders_it(
    name: str, index: int, prompt: bool
) -> None:
    chat, expected = CONVERSATIONS[index], EXPECTED[name][index][prompt]

    def render() -> str:
        return compiled(name).render(
            chat.messages, tools=chat.tools, add_generation_prompt=prompt, **chat.variables
        )

    if expected is None:
        with pytest.raises(InputError, match="refuses these messages"):
            render()
    else:
        assert render() == expected


def test_what_a_template_raises_reaches_the_caller() -> None:
    with pytest.raises(InputError, match="Roles must alternate: assistant at 0") as caught:
        compiled("dated").render([{"role": "assistant", "content": "hi"}])
    assert caught.value.code == "input.template"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.__class__ }}{{ ().__class__.__mro__[1].__subclasses__() }}",
        "{{ namespace(_x=1) }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ 'x' * 99999999999 }}",
        "{{ 9999999 * [1] }}",
        "{% for i in range(9999999) %}{% endfor %}",
        "{{ missing.attribute }}",
        "{{ 1 / 0 }}",
        "{{ messages.append(1) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ nothing | tojson }}",
    ],
)
def test_a_hostile_or_wrong_template_raises_an_input_error(source: str) -> None:
    with pytest.raises(InputError, match="refuses these messages"):
        ChatTemplate(source).render([user("x")])


def test_a_template_that_never_stops_writing_is_stopped() -> None:
    source = "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}"
    with pytest.raises(InputError, match="more than"):
        ChatTemplate(source).render([user("x" * 1000)])


@pytest.mark.parametrize("source", ["{% if %}", "{{ 'a }}", "{% frobnicate %}", "{% endfor %}"])
def test_a_template_that_is_not_jinja_names_the_problem(source: str) -> None:
    with pytest.raises(CheckpointError, match="not valid Jinja") as caught:
        ChatTemplate(source)
    assert caught.value.remedy


def test_a_template_larger_than_the_bound_is_refused() -> None:
    with pytest.raises(CheckpointError, match="at most"):
        ChatTemplate("x" * (1 << 20) + "y")


@pytest.mark.parametrize(
    ("messages", "said"), [([], "empty"), (["hello"], "'hello' is not a message")]
)
def test_a_conversation_that_is_none_is_refused(messages: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        compiled("chatml").render(messages)


class Colour(StrEnum):
    RED = "red"


class Rich:
    def __str__(self) -> str:
        raise AssertionError("a template may not call a caller's methods")


def test_a_template_sees_plain_values_only() -> None:
    source = "{% for m in messages %}{{ m.content }} {% endfor %}"
    messages = [
        user(Colour.RED),
        MappingProxyType(user(("a", 1))),
        user(Rich()),
        user([True, 2.5, None]),
    ]
    assert ChatTemplate(source).render(messages) == "red ('a', 1) <Rich> [True, 2.5, None] "


def test_a_file_comes_before_the_config_and_a_tool_template_before_the_default(
    tmp_path: Path,
) -> None:
    named = {"default": "config", "tool_use": "tools"}
    config = {"chat_template": [{"name": n, "template": source} for n, source in named.items()]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert rendered_from(tmp_path) == "config"
    assert rendered_from(tmp_path, tools=[]) == "tools"
    (tmp_path / "chat_template.jinja").write_text("file {{ bos_token }}")
    assert rendered_from(tmp_path) == "file <s>"


def rendered_from(folder: Path, **options: Any) -> str:
    template = ChatTemplate.from_folder(folder, SPECIAL_TOKENS)
    assert template is not None
    return template.render([user("x")], **options)


def test_a_folder_without_template_has_none(tmp_path: Path) -> None:
    assert ChatTemplate.from_folder(tmp_path) is None


@pytest.mark.parametrize("config", [{"chat_template": [{"name": "x"}]}, {"chat_template": ["x"]}])
def test_a_malformed_list_of_templates_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(EdgewiseError, match="without a name"):
        ChatTemplate.from_folder(tmp_path)


def test_templates_without_a_default_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"\['rag'\]"):
        ChatTemplate({"rag": "x"}).render([user("x")])
