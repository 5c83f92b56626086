"""What MLC LLM and WebLLM want instead of a chat template: texts around a conversation's messages.

A template is a program, and theirs are texts, so not all of it can be said in theirs. What stands
around messages is read off conversations of markers that the template renders. Then the texts have
to render other conversations as the template does; where they do not, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.text import ChatTemplate

Messages = list[dict[str, str]]

_MARKS = tuple(f"~{letter}{letter}{letter}~" for letter in "SUAVBW")
"""A system message, and what user and assistant say in turns."""

_REMEDY = (
    "Write the conv_template of mlc-chat-config.json by hand, and name its file: "
    "--conversation FILE."
)

PLAIN: dict[str, Any] = {
    "name": "plain",
    "system_template": "{system_message}",
    "system_message": "",
    "system_prefix_token_ids": None,
    "add_role_after_system_message": True,
    "roles": {"user": "", "assistant": ""},
    "role_templates": {"user": "{user_message}", "assistant": "{assistant_message}"},
    "messages": [],
    "seps": [""],
    "role_content_sep": "",
    "role_empty_sep": "",
    "stop_str": [],
    "stop_token_ids": [],
    "function_string": "",
    "use_function_calling": False,
}
"""Of a model without a chat template."""


def conversation_of(templates: Sequence[ChatTemplate], stops: Sequence[int]) -> dict[str, Any]:
    """The ``conv_template`` that renders conversations as a chat template does.

    Where a template puts no system message of its own, an empty one stands where MLC has nothing
    else to put: so it is with MLC's own.

    Args:
        templates: the same one at several times, some of them put the date; none of a model without
            one.
        stops: tokens that end an answer.

    Raises:
        UnsupportedError: it renders conversations that no such texts do.
    """
    if not templates:
        return {**PLAIN, "stop_token_ids": [*stops]}
    try:
        found = _read_off(templates[0])
    except (InputError, ValueError) as error:
        why = error.message if isinstance(error, InputError) else str(error)
        raise UnsupportedError(
            f"The chat template is none that MLC LLM can be told of: {why}",
            remedy=_REMEDY,
            code="unsupported.template",
        ) from error
    conversation = {**PLAIN, "name": "edgewise", **found, "stop_token_ids": [*stops]}
    for template in templates:
        _check(template, conversation)
    return conversation


def _read_off(template: ChatTemplate) -> dict[str, Any]:
    """The texts around markers; ValueError where markers are not in their places."""
    system, *turns = _MARKS
    talk = _messages(turns)
    told: Messages = [{"role": "system", "content": system}, *talk]
    before, after_system, answered, asked, again, _, opened = _around(template.render(told), _MARKS)
    if answered != again:
        raise ValueError("not all turns are rendered alike.")
    *_, user_end = _around(template.render(told, add_generation_prompt=False), _MARKS)
    half = [system, *turns[:2]]
    *_, answer_end = _around(template.render(told[:3], add_generation_prompt=False), half)
    user = _rest(asked, answer_end)
    assistant, opening = _rest(answered, user_end), _rest(opened, user_end)
    if not after_system.endswith(user):
        raise ValueError("what stands before a user's message is not the same after a system's.")
    tail = after_system[: len(after_system) - len(user)]
    first, *_ = _around(template.render(talk), turns)
    own = first[: len(first) - len(user)] if first.endswith(user) else ""
    message = ""
    if own.startswith(before) and own.endswith(tail) and len(own) >= len(before) + len(tail):
        message = own[len(before) : len(own) - len(tail)]
    return {
        "system_template": f"{before}{{system_message}}{tail}",
        "system_message": message,
        # What an answer begins with beyond the assistant's name is put where it is asked for.
        "roles": {"user": user, "assistant": assistant, "tool": user},
        "role_empty_sep": _rest(opening, assistant),
        "seps": [user_end, answer_end],
    }


def _messages(contents: Sequence[str]) -> Messages:
    """A user's and an assistant's messages in turns."""
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def _around(text: str, marks: Sequence[str]) -> list[str]:
    """What stands before, between and after markers."""
    places = [text.find(mark) for mark in marks]
    if -1 in places or any(a >= b for a, b in pairwise(places)):
        raise ValueError("messages are left out, or put in another order.")
    ends = [place + len(mark) for place, mark in zip(places, marks, strict=True)]
    starts = [0, *ends]
    return [text[a:b] for a, b in zip(starts, [*places, len(text)], strict=True)]


def _rest(text: str, begins: str) -> str:
    if not text.startswith(begins):
        raise ValueError("what ends a message depends on what follows it.")
    return text[len(begins) :]


_PROBES: tuple[Messages, ...] = (
    _messages(["Hello."]),
    _messages(["What is 3 + 4?", "Seven.", "Sure?\n\n'Yes' {or} no"]),
    _messages(["a", "b", "c", "d", "e"]),
)


def _check(template: ChatTemplate, conversation: dict[str, Any]) -> None:
    """Refuse texts that render a conversation otherwise than the template."""
    from edgewise_compiler.mlc.template import chat_template

    made = ChatTemplate(chat_template(conversation, str), {})
    for talk in _PROBES:
        told: Messages = [{"role": "system", "content": "Be brief."}, *talk]
        if made.render(told) != template.render(told):
            raise UnsupportedError(
                "The chat template renders some conversations as no conv_template does.",
                remedy=_REMEDY,
                code="unsupported.template",
            )
