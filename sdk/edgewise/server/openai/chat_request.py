"""What ``POST /v1/chat/completions`` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from edgewise.hosting.base import Ask, Facts
from edgewise.server.openai.refusing import Refused
from edgewise.server.openai.sampling import Sampling
from edgewise.server.wire_types import Count, JsonObject, Name, Note, Strict, Text
from edgewise.unread import unread
from edgewise_runtime.errors import InputError

MAX_MESSAGES = 1 << 14
MAX_PARTS = 1 << 12
MAX_TOOLS = 512


class Part(Strict):
    """A part of a content. Only text is read; others are known by their type to be refused."""

    type: Name
    text: Text | None = None
    refusal: Text | None = None


Content: TypeAlias = Text | Annotated[list[Part], Field(max_length=MAX_PARTS)]


class CalledFunction(Strict):
    """What an earlier answer called."""

    name: Name
    arguments: Text


class EarlierCall(Strict):
    """A call of an earlier answer."""

    id: Note
    type: Literal["function"] = "function"
    function: CalledFunction


class SystemMessage(Strict):
    """Instructions; `developer` is the newer name of `system`, which templates do not know."""

    role: Literal["system", "developer"]
    content: Content
    name: Note | None = None


class UserMessage(Strict):
    """What a person says."""

    role: Literal["user"]
    content: Content
    name: Note | None = None


class AssistantMessage(Strict):
    """An earlier answer."""

    role: Literal["assistant"]
    content: Content | None = None
    name: Note | None = None
    refusal: Text | None = None
    reasoning_content: Text | None = None
    tool_calls: Annotated[list[EarlierCall], Field(max_length=MAX_PARTS)] | None = None


class ToolMessage(Strict):
    """What a tool returned."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Note
    name: Note | None = None


Message: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class ChatRequest(Sampling):
    """A conversation whose next turn is asked for."""

    REFUSED: ClassVar[Mapping[str, Refused]] = {
        "audio": Refused("Answers are text."),
        "function_call": Refused("Use tool_choice."),
        "functions": Refused("Use tools.", ([],)),
        "modalities": Refused("Answers are text.", (["text"],)),
        "moderation": Refused("Nothing is moderated here."),
        "store": Refused("Nothing is stored: keep the answer yourself.", (False,)),
        "verbosity": Refused("Ask for it in a message.", ("medium",)),
        "web_search_options": Refused("Offer a tool that searches."),
    }

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Count | None = None
    response_format: JsonObject | None = None
    tools: Annotated[list[JsonObject], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Name | JsonObject | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Name | None = None
    chat_template_kwargs: JsonObject | None = None

    def ask(self, facts: Facts) -> Ask:
        """What the model is asked.

        Raises:
            InputError: ``input.body`` for what contradicts itself.
            UnsupportedError: ``unsupported.content`` for what is no text.
        """
        most = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return Ask(
            messages=[
                _plain(message, f"messages.{at}") for at, message in enumerate(self.messages)
            ],
            tools=self.tools or None,
            variables=self.chat_template_kwargs,
            options={
                **self.options(),
                "max_tokens": to_the_end(facts) if most is None else most,
                "logprobs": self.logprobs,
                "top_logprobs": self._top_logprobs(),
                "response_format": self.response_format,
                "tool_choice": self.tool_choice if self.tools else self._no_tool_choice(),
                "reasoning": self.reasoning_effort,
            },
        )

    def _top_logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise InputError(
                f"top_logprobs is {self.top_logprobs} without logprobs.",
                remedy="Set logprobs to true, or leave it out.",
                code="input.body",
            )
        return self.top_logprobs

    def _no_tool_choice(self) -> str | dict[str, Any] | None:
        return None if self.tool_choice in ("auto", "none") else self.tool_choice


def to_the_end(facts: Facts) -> int | None:
    """The most tokens where nobody says so: the model's own, or to the end of its context."""
    own = any(name in facts.defaults for name in ("max_tokens", "max_length"))
    return None if own else facts.context


def text_of(content: str | list[Part] | None, where: str) -> str | None:
    """The text of a content.

    Raises:
        InputError: ``input.body`` for a part of text without one.
        UnsupportedError: ``unsupported.content`` for another kind of part.
    """
    if content is None or isinstance(content, str):
        return content
    return "".join(_text(part, f"{where}.content.{at}") for at, part in enumerate(content))


def _text(part: Part, where: str) -> str:
    if part.type not in ("text", "refusal"):
        raise unread(f"{where} is of type", part.type)
    text = part.text if part.type == "text" else part.refusal
    if text is None:
        raise InputError(f"{where} has no {part.type}.", code="input.body")
    return text


def _plain(message: Message, where: str) -> dict[str, Any]:
    """A message as chat templates read it."""
    given = message.model_dump(exclude_none=True, exclude={"content", "refusal"})
    content = text_of(message.content, where)
    if isinstance(message, AssistantMessage) and content is None:
        content = message.refusal
    role = "system" if message.role == "developer" else message.role
    return {**given, "role": role, "content": content}
