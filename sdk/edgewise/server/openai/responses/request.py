"""What ``POST /v1/responses`` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from edgewise.hosting.base import Ask, Facts
from edgewise.server.openai.chat_request import MAX_MESSAGES, MAX_PARTS, MAX_TOOLS, to_the_end
from edgewise.server.openai.refusing import Refused
from edgewise.server.openai.sampling import Sampling
from edgewise.server.wire_types import Count, JsonObject, Name, Note, Strict, Text
from edgewise.unread import unread
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

LOGPROBS = "message.output_text.logprobs"
"""The one thing to `include` that there is."""
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


class ItemPart(Strict):
    """A part of an item's content."""

    type: Name
    text: Text | None = None
    refusal: Text | None = None


Parts: TypeAlias = Annotated[list[ItemPart], Field(max_length=MAX_PARTS)]


class Item(Strict):
    """Something said, thought, called or returned, by its type.

    A field belongs to one type or two: see `ITEMS`.
    """

    type: Name = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: Text | Parts | None = None
    summary: Parts | None = None
    call_id: Note | None = None
    name: Name | None = None
    arguments: Text | None = None
    output: Text | Parts | None = None


class TextFormat(Strict):
    """What the answer has to be."""

    format: JsonObject | None = None


class Thinking(Strict):
    """How hard the model thinks."""

    effort: Name | None = None


class ResponseRequest(Sampling):
    """Items whose next ones are asked for."""

    REFUSED: ClassVar[Mapping[str, Refused]] = {
        "background": Refused("Ask with stream, and read it as it comes.", (False,)),
        "conversation": Refused("Use previous_response_id."),
        "max_tokens": Refused("Use max_output_tokens."),
        "max_tool_calls": Refused("Only functions are called, by the client itself."),
        "n": Refused("A response is one answer.", (1,)),
        "prompt": Refused("Send the text itself as input."),
    }

    input: Text | Annotated[list[Item], Field(min_length=1, max_length=MAX_MESSAGES)]
    instructions: Text | None = None
    previous_response_id: Note | None = None
    store: bool | None = None
    max_output_tokens: Count | None = None
    tools: Annotated[list[JsonObject], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Name | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    text: TextFormat | None = None
    reasoning: Thinking | None = None
    top_logprobs: Count | None = None
    include: Annotated[list[Name], Field(max_length=32)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Annotated[dict[str, Note], Field(max_length=16)] | None = None
    chat_template_kwargs: JsonObject | None = None

    @property
    def logprobs(self) -> bool:
        """Whether tokens come with how likely they are."""
        return LOGPROBS in (self.include or ()) or bool(self.top_logprobs)

    def messages(self) -> list[dict[str, Any]]:
        """The input as messages, without the instructions.

        Raises:
            InputError: ``input.body`` for an item that lacks something.
            UnsupportedError: ``unsupported.item``, ``unsupported.content``.
        """
        if isinstance(self.input, str):
            return [{"role": "user", "content": self.input}]
        messages: list[dict[str, Any]] = []
        for at, item in enumerate(self.input):
            where = f"input.{at}"
            if item.type not in ITEMS:
                raise UnsupportedError(
                    f"{where} is of type {shorten(item.type)}.",
                    remedy=f"There are {', '.join(ITEMS)}.",
                    code="unsupported.item",
                )
            ITEMS[item.type](item, where, messages)
        return messages

    def ask(self, facts: Facts, messages: list[dict[str, Any]]) -> Ask:
        """What the model is asked.

        Args:
            messages: all of the conversation, without the instructions.

        Raises InputError and UnsupportedError for tools and formats that are none.
        """
        said = {"role": "system", "content": self.instructions}
        tools = [_nested(tool, "tools") for tool in self.tools or ()]
        return Ask(
            messages=[said, *messages] if self.instructions is not None else messages,
            tools=tools or None,
            variables=self.chat_template_kwargs,
            options={
                **self.options(),
                "max_tokens": to_the_end(facts)
                if self.max_output_tokens is None
                else self.max_output_tokens,
                "logprobs": self.logprobs or None,
                "top_logprobs": self.top_logprobs,
                "response_format": self._format(),
                "tool_choice": self._tool_choice(bool(tools)),
                "reasoning": self.reasoning.effort if self.reasoning else None,
                "context_policy": "drop" if self.truncation == "auto" else None,
            },
        )

    def _format(self) -> dict[str, Any] | None:
        given = self.text.format if self.text else None
        if given is None or given.get("type") != "json_schema":
            return given
        schema = {name: value for name, value in given.items() if name != "type"}
        return {"type": "json_schema", "json_schema": schema}

    def _tool_choice(self, tools: bool) -> str | dict[str, Any] | None:
        choice = self.tool_choice
        if isinstance(choice, dict):
            return _nested(choice, "tool_choice")
        return None if not tools and choice in ("auto", "none") else choice


def _nested(tool: dict[str, Any], where: str) -> dict[str, Any]:
    """A function as chat completions have it, whose name and schema are one level down."""
    if tool.get("type") != "function":
        raise UnsupportedError(
            f"{where} has the type {shorten(tool.get('type'))}; only functions are known.",
            remedy='Pass {"type": "function", "name": ..., "parameters": ...}.',
            code="unsupported.tool",
        )
    inside = {name: value for name, value in tool.items() if name != "type" and value is not None}
    return {"type": "function", "function": inside}


def _add_message(item: Item, where: str, messages: list[dict[str, Any]]) -> None:
    role = _needed(item.role, f"{where}.role")
    content = _joined(_needed(item.content, f"{where}.content"), f"{where}.content")
    if role == "assistant":
        turn = _turn(messages)
        turn["content"] = (turn["content"] or "") + content
    else:
        messages.append({"role": "system" if role == "developer" else role, "content": content})


def _add_call(item: Item, where: str, messages: list[dict[str, Any]]) -> None:
    name, arguments = item.name, item.arguments
    function = {
        "name": _needed(name, f"{where}.name"),
        "arguments": _needed(arguments, f"{where}.arguments"),
    }
    call = {"type": "function", "id": _needed(item.call_id, f"{where}.call_id")}
    _turn(messages).setdefault("tool_calls", []).append({**call, "function": function})


def _add_output(item: Item, where: str, messages: list[dict[str, Any]]) -> None:
    content = _joined(_needed(item.output, f"{where}.output"), f"{where}.output")
    call_id = _needed(item.call_id, f"{where}.call_id")
    messages.append({"role": "tool", "tool_call_id": call_id, "content": content})


def _add_thought(item: Item, where: str, messages: list[dict[str, Any]]) -> None:
    text = _joined(item.content or item.summary or "", where)
    if text:
        turn = _turn(messages)
        turn["reasoning_content"] = turn.get("reasoning_content", "") + text


ITEMS: dict[str, Callable[[Item, str, list[dict[str, Any]]], None]] = {
    "message": _add_message,
    "function_call": _add_call,
    "function_call_output": _add_output,
    "reasoning": _add_thought,
}
"""Types of items, and how each goes on with a conversation."""


def _turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer that the items of an answer in a row make up."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _needed(value: Any, where: str) -> Any:
    if value is None:
        raise InputError(f"{where} is missing.", code="input.body")
    return value


def _joined(content: str | list[ItemPart], where: str) -> str:
    if isinstance(content, str):
        return content
    return "".join(_text(part, f"{where}.{at}") for at, part in enumerate(content))


def _text(part: ItemPart, where: str) -> str:
    if part.type not in (*_TEXTS, "refusal"):
        raise unread(f"{where} is of type", part.type, '{"type": "input_text", "text": "Hello"}')
    return str(_needed(part.refusal if part.type == "refusal" else part.text, where))
