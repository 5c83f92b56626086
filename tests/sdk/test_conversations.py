"""A chat template becomes texts for MLC LLM where it can, and is refused where it cannot."""

from __future__ import annotations

from datetime import datetime

import pytest

from edgewise.conversations import conversation_of
from edgewise_compiler.mlc.template import chat_template
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.text import ChatTemplate
from tests.parity.make_checkpoints import TEMPLATE
from tests.runtime.text.conversations import TEMPLATES

CHATML = """\
{%- if messages[0]['role'] != 'system' %}
{{- '<|im_start|>system\\nBe of help.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' }}
{%- endif %}
"""
TALK = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "{three} \\ 'four'"},
]


def test_texts_are_read_off_a_template() -> None:
    template = ChatTemplate(CHATML, {})
    found = conversation_of([template], [7])
    assert found["system_template"] == "<|im_start|>system\n{system_message}<|im_end|>\n"
    assert found["system_message"] == "Be of help."
    assert found["roles"]["user"] == "<|im_start|>user\n"
    assert found["roles"]["assistant"] == "<|im_start|>assistant\n"
    assert found["role_empty_sep"] == "<think>\n"
    assert found["seps"] == ["<|im_end|>\n", "<|im_end|>\n"]
    assert found["stop_token_ids"] == [7]
    made = ChatTemplate(chat_template(found, str), {})
    assert made.render(TALK) == template.render(TALK)


def test_a_template_without_a_system_message_of_its_own_has_an_empty_one() -> None:
    found = conversation_of([ChatTemplate(TEMPLATE, {})], [])
    assert found["system_message"] == ""
    assert found["system_template"] == "<|begin|><|system|>{system_message}<|end|>"


def test_a_model_without_a_template_has_texts_that_are_empty() -> None:
    made = ChatTemplate(chat_template(conversation_of([], []), str), {})
    assert made.render(TALK[:1]) == "one"


def test_a_template_with_the_date_is_refused() -> None:
    source = "{{ strftime_now('%Y') }}" + TEMPLATE
    templates = [
        ChatTemplate(source, {}, clock=lambda year=year: datetime(year, 1, 1))
        for year in (2001, 2034)
    ]
    with pytest.raises(UnsupportedError, match="renders some conversations") as caught:
        conversation_of(templates, [])
    assert "--conversation FILE" in caught.value.remedy


REFUSED = {
    "no system message": TEMPLATE.replace(
        "{% for m in messages %}", "{% for m in messages if m.role != 'system' %}"
    ),
    "contents without spaces": TEMPLATE.replace("m.content", "(m.content | trim | upper)"),
    "the first message only": TEMPLATE.replace("in messages", "in messages[:1]"),
    "numbers of turns": TEMPLATE.replace("m.role", "(loop.index ~ m.role)"),
    "other words for long texts": TEMPLATE.replace(
        "m.content", "(m.content if m.content | length < 10 else 'too long')"
    ),
    "an error": "{{ raise_exception('no') }}",
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_template_that_texts_cannot_say_is_refused(case: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        conversation_of([ChatTemplate(REFUSED[case], {})], [])
    assert caught.value.code == "unsupported.template"


@pytest.mark.parametrize("name", ["chatml", "dated", "thinking"])
def test_what_is_made_of_other_templates_renders_the_same(name: str) -> None:
    template = ChatTemplate(TEMPLATES[name], {"bos_token": "<s>", "eos_token": "</s>"})
    told = [{"role": "system", "content": "short"}, *TALK]
    made = ChatTemplate(chat_template(conversation_of([template], []), str), {})
    assert made.render(told) == template.render(told)
