"""What ``POST /v1/messages`` and ``POST /v1/messages/count_tokens`` take."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from edgewise.hosting.base import Ask
from edgewise.server.anthropic.conversation import Parts, Turns, messages_of, text_begun
from edgewise.server.wire_types import Count, JsonObject, Name, Number, Seed, Stops, Strict, Text
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

MAX_TOOLS = 512
EFFORTS = {"max": "xhigh"}
"""Efforts that have other names here."""


class Tool(Strict):
    """A tool that the client runs. Those that Anthropic's servers run, or know the schema of, are
    known by their type, to be refused."""

    type: Name | None = None
    name: Name
    description: Text | None = None
    input_schema: JsonObject | None = None
    strict: bool | None = None

    def described(self, where: str) -> dict[str, Any]:
        """The tool in OpenAI's form.

        Raises:
            UnsupportedError: ``unsupported.tool`` for one of a type of its own.
            InputError: ``input.tools`` for one without a schema.
        """
        if self.type not in (None, "custom"):
            raise UnsupportedError(
                f"{where} is of type {shorten(self.type)}, which is not supported.",
                remedy="Offer a tool of your own, with an input_schema.",
                code="unsupported.tool",
            )
        if self.input_schema is None:
            raise InputError(f"{where} has no input_schema.", code="input.tools")
        function: dict[str, Any] = {"name": self.name, "parameters": self.input_schema}
        for name in ("description", "strict"):
            if (value := getattr(self, name)) is not None:
                function[name] = value
        return {"type": "function", "function": function}


class FreeChoice(Strict):
    """The model calls what it likes (auto), something (any) or nothing (none)."""

    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool | None = None


class NamedChoice(Strict):
    """The model calls this tool."""

    type: Literal["tool"]
    name: Name
    disable_parallel_tool_use: bool | None = None


ToolChoice: TypeAlias = Annotated[FreeChoice | NamedChoice, Field(discriminator="type")]
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class Thinking(Strict):
    """Whether the model thinks, and how much of it is told."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Count | None = None
    display: Literal["summarized", "omitted"] | None = None


class Format(Strict):
    """What the answer has to be."""

    type: Literal["json_schema"]
    json_schema: Annotated[JsonObject, Field(alias="schema")]


class OutputConfig(Strict):
    """How hard the model tries, and what comes of it."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: Format | None = None


class CountRequest(Strict):
    """A conversation. Its prompt is what the fields here come to."""

    model: Name
    messages: Turns
    system: Parts | None = None
    tools: Annotated[list[Tool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    @property
    def one_call(self) -> bool:
        """Whether no more than one tool may be called."""
        return bool(self.tool_choice and self.tool_choice.disable_parallel_tool_use)

    @property
    def shows_thoughts(self) -> bool:
        """Whether thoughts are told, not only that there are some."""
        return self.thinking is None or self.thinking.display != "omitted"

    @property
    def begins(self) -> str:
        """What the answer goes on from: the text of a last message that is the assistant's."""
        return text_begun(self.messages)

    def ask(self) -> Ask:
        """What the model is asked, but for what its answer begins with.

        Raises:
            InputError: ``input.messages``, ``input.tools`` and ``input.body`` for what contradicts
                itself.
            UnsupportedError: ``unsupported.content``, ``unsupported.tool``.
        """
        if self.begins and self.thinking and self.thinking.type != "disabled":
            raise InputError(
                "The last message is the assistant's, from which no answer goes on that begins "
                "with a thought.",
                remedy="End with a message of the user, or leave thinking out.",
                code="input.messages",
            )
        tools = [tool.described(f"tools.{at}") for at, tool in enumerate(self.tools or ())]
        return Ask(
            messages=messages_of(self.system, self.messages),
            tools=tools or None,
            options={
                "tool_choice": self._choice(),
                "reasoning": self._reasoning(),
                "response_format": self._format(),
                **self._sampling(),
            },
        )

    def _sampling(self) -> dict[str, Any]:
        return {}

    def _choice(self) -> str | dict[str, Any] | None:
        choice = self.tool_choice
        if choice is None:
            return None
        if isinstance(choice, NamedChoice):
            return {"type": "function", "function": {"name": choice.name}}
        # Without tools there is nothing to choose; that one has to be called the engine refuses.
        return _CHOICES[choice.type] if self.tools or choice.type == "any" else None

    def _reasoning(self) -> dict[str, Any] | None:
        asked: dict[str, Any] = {}
        thinking = self.thinking
        if thinking and thinking.type == "enabled":
            if thinking.budget_tokens is None:
                raise InputError("thinking is enabled without budget_tokens.", code="input.body")
            asked |= {"enabled": True, "budget": thinking.budget_tokens}
        if thinking and thinking.type == "disabled":
            asked["enabled"] = False
        effort = self.output_config and self.output_config.effort
        if effort and asked.get("enabled") is not False:
            asked["effort"] = EFFORTS.get(effort, effort)
        return asked or None

    def _format(self) -> dict[str, Any] | None:
        if self.output_config is None or self.output_config.format is None:
            return None
        schema = self.output_config.format.json_schema
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


class MessagesRequest(CountRequest):
    """A conversation whose next turn is asked for. Only `seed` is none of Anthropic's fields."""

    max_tokens: Count
    stream: bool | None = None
    stop_sequences: Stops | None = None
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Count | None = None
    seed: Seed | None = None

    def _sampling(self) -> dict[str, Any]:
        return {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": self.seed,
            "stop": self.stop_sequences or None,
        }
