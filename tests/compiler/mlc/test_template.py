"""A conversation template renders what MLC LLM makes of it, written here by hand."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_compiler.mlc.template import chat_template
from edgewise_runtime.errors import CheckpointError, InputError
from edgewise_runtime.text import ChatTemplate
from tests.compiler.mlc.writing import CONVERSATION

Message = dict[str, str]

TALK: list[Message] = [
    {"role": "user", "content": "Hi 'you'\n"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "1 + 1"},
]
TOLD: list[Message] = [{"role": "system", "content": "Be kind."}, *TALK]

LLAMA_2 = {
    **CONVERSATION,
    "system_template": "[INST] <<SYS>>\n{system_message}\n<</SYS>>\n\n",
    "system_message": "",
    "system_prefix_token_ids": [1],
    "add_role_after_system_message": False,
    "roles": {"user": "[INST]", "assistant": "[/INST]"},
    "role_templates": {"user": "{user_message}{function_string}"},
    "seps": [" ", " </s><s>"],
    "role_content_sep": " ",
    "role_empty_sep": "",
}
PLAIN = {
    **CONVERSATION,
    "system_template": "{system_message}",
    "system_message": "",
    "system_prefix_token_ids": None,
    "roles": {"user": "Q", "assistant": "A"},
    "role_templates": {},
    "messages": [["user", "2?"], ["assistant", "two"]],
    "seps": ["\n"],
    "role_content_sep": ": ",
    "role_empty_sep": ":",
}

RENDERED: dict[str, tuple[dict[str, Any], list[Message], str]] = {
    "one separator": (
        CONVERSATION,
        TALK,
        "<t0><|begin|>Be brief.<|end|>\n<|user|>\nHi 'you'\n<|end|>\n<|assistant|>\nYes?<|end|>\n"
        "<|user|>\n1 + 1<|end|>\n<|assistant|>\n",
    ),
    "a system message": (
        CONVERSATION,
        TOLD,
        "<t0><|begin|>Be kind.<|end|>\n<|user|>\nHi 'you'\n<|end|>\n<|assistant|>\nYes?<|end|>\n"
        "<|user|>\n1 + 1<|end|>\n<|assistant|>\n",
    ),
    "no role after the system message": (
        LLAMA_2,
        TOLD,
        "<t1>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi 'you'\n [/INST] Yes? </s><s>"
        "[INST] 1 + 1 [/INST]",
    ),
    "its template without a message": (
        LLAMA_2,
        TALK,
        "<t1>[INST] <<SYS>>\n\n<</SYS>>\n\nHi 'you'\n [/INST] Yes? </s><s>[INST] 1 + 1 [/INST]",
    ),
    "a role where there is no system message at all": (
        {**LLAMA_2, "system_template": "{system_message}"},
        TALK[:1],
        "<t1>[INST] Hi 'you'\n [/INST]",
    ),
    "messages that every conversation begins with": (
        PLAIN,
        TALK[2:],
        "Q: 2?\nA: two\nQ: 1 + 1\nA:",
    ),
    "backslashes and braces": (
        {**PLAIN, "messages": [], "seps": ["\\n{{ x }}\t"]},
        [{"role": "user", "content": "{% raw %}"}],
        "Q: {% raw %}\\n{{ x }}\tA:",
    ),
}


def rendered(conversation: dict[str, Any], messages: list[Message]) -> str:
    source = chat_template(conversation, lambda token: f"<t{token}>")
    return ChatTemplate(source, {}).render(messages)


@pytest.mark.parametrize("case", RENDERED)
def test_conversations_are_rendered_as_mlc_does(case: str) -> None:
    conversation, messages, expected = RENDERED[case]
    assert rendered(conversation, messages) == expected


def test_a_role_without_a_name_is_refused() -> None:
    with pytest.raises(InputError, match="There is no role tool"):
        rendered(PLAIN, [{"role": "tool", "content": "42"}])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seps", []),
        ("seps", ["a", "b", "c"]),
        ("seps", [1]),
        ("roles", {"user": "Q"}),
        ("roles", {"user": 1, "assistant": "A"}),
        ("messages", [["user"]]),
        ("messages", [["nobody", "x"]]),
        ("system_prefix_token_ids", [True]),
        ("system_template", 7),
        ("add_role_after_system_message", "yes"),
    ],
)
def test_what_is_no_template_is_refused(key: str, value: object) -> None:
    with pytest.raises(CheckpointError) as caught:
        chat_template({**PLAIN, key: value}, str)
    assert caught.value.remedy
