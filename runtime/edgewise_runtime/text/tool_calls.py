"""Calls of tools in earlier messages, as chat templates expect them.

APIs hand the arguments of a call over as JSON text, most templates write an object as JSON, and
some join text to text. transformers' server makes objects of all arguments; here a template that is
found to want text gets text, just as it came. APIs also leave out the content of a message that is
only calls, which some templates look into all the same: those find an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.json_text import read_json

MAX_CALLS = 256
"""Calls that one message may have."""
MAX_ARGUMENTS = 1 << 20
"""Characters of a call's arguments."""
_KEY, _VALUE = "edgewise_key", "edgewise_value"
_AS_JSON = f'"{_KEY}": "{_VALUE}"'
_AS_PYTHON = f"'{_KEY}': '{_VALUE}'"
_REMEDY = (
    'A call is such as {"id": "call_1", "type": "function", "function": {"name": "add", '
    '"arguments": {"x": 1}}}.'
)

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class CallForm:
    """How a template wants calls of tools in earlier messages.

    Attributes:
        text: arguments are JSON text, which stays as it is where it is that already; or else they
            are objects.
        content: a message with calls has a content, an empty one where it has none.
    """

    text: bool = False
    content: bool = False


def with_calls(messages: Iterable[Any], form: CallForm) -> list[Any]:
    """Return messages whose calls of tools are all in one form; what is no message stays.

    Raises InputError ``input.tool_calls`` for what is no call, or too many.
    """
    return [_with_calls(message, form) if _has_calls(message) else message for message in messages]


def call_form(render: Callable[[Messages, Messages], str]) -> CallForm:
    """Find out which form a template wants, by rendering a short conversation.

    Args:
        render: returns the prompt of messages and tools. Raises EdgewiseError where the template
            refuses them.
    """

    def prompt(form: CallForm) -> str:
        try:
            return render(with_calls(_CONVERSATION, form), [_TOOL])
        except EdgewiseError:
            return ""

    prompts = {
        form: prompt(form)
        for form in (CallForm(text, content) for content in (False, True) for text in (False, True))
    }
    for good in (_shows, _is_there):
        for form, text in prompts.items():
            if good(form, text):
                return form
    return CallForm()


def has_calls(messages: Iterable[Any]) -> bool:
    """Whether some message has calls of tools."""
    return any(_has_calls(message) for message in messages)


def _has_calls(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("tool_calls") is not None


def _shows(form: CallForm, prompt: str) -> bool:
    """Whether a prompt has the arguments in it, as JSON or as a template spells them itself."""
    if form.text:
        return _AS_JSON in prompt
    return _VALUE in prompt and _AS_PYTHON not in prompt


def _is_there(_: CallForm, prompt: str) -> bool:
    return prompt != ""


_TOOL = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "?",
        "parameters": {"type": "object", "properties": {}},
    },
}


# Mistral's templates take no other ids than such of nine characters.
_CONVERSATION: Messages = (
    {"role": "user", "content": "?"},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "probe0001", "function": {"name": "probe", "arguments": {_KEY: _VALUE}}}
        ],
    },
    {"role": "tool", "tool_call_id": "probe0001", "name": "probe", "content": "?"},
)


def _with_calls(message: Mapping[str, Any], form: CallForm) -> dict[str, Any]:
    calls = message["tool_calls"]
    if not isinstance(calls, list | tuple) or len(calls) > MAX_CALLS:
        raise InputError(
            f"A message's tool_calls are {shorten(calls)}; they must be a list of up to "
            f"{MAX_CALLS} calls.",
            remedy=_REMEDY,
            code="input.tool_calls",
        )
    # Templates take a list for calls, even one without any.
    if not calls:
        return _without(message, ("tool_calls",))
    written = {**message, "tool_calls": [_call(one, form.text) for one in calls]}
    return (
        {**written, "content": ""} if form.content and message.get("content") is None else written
    )


def _call(call: Any, as_text: bool) -> dict[str, Any]:
    """A call as OpenAI's API has it: what it calls is inside `function`."""
    function = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not _is_name(name):
        raise InputError(
            f"{shorten(call)} is no call of a tool.", remedy=_REMEDY, code="input.tool_calls"
        )
    around = call if function is not call else _without(call, ("name", "arguments"))
    called = function if function is not call else {"name": name}
    arguments = _arguments(function.get("arguments"), str(name), as_text)
    return {"type": "function", **around, "function": {**called, "arguments": arguments}}


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name != ""


def _without(table: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in names}


def _arguments(given: Any, name: str, as_text: bool) -> Any:
    """The arguments of a call; of one without any an empty object."""
    if given is None or given == "":
        given = {}
    if isinstance(given, Mapping):
        return _spelled(given, name) if as_text else given
    found = None
    if isinstance(given, str) and len(given) <= MAX_ARGUMENTS:
        try:
            found = read_json(given)
        except ValueError:
            found = None
    if isinstance(found, dict):
        return given if as_text else found
    raise _wrong(given, name)


def _spelled(arguments: Mapping[str, Any], name: str) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _wrong(arguments, name) from error


def _wrong(arguments: Any, name: str) -> InputError:
    return InputError(
        f"The arguments of the call of {shorten(name)} are {shorten(arguments)}; they must be an "
        f"object, or the JSON text of one with up to {MAX_ARGUMENTS:,} characters.",
        remedy=_REMEDY,
        code="input.tool_calls",
    )
