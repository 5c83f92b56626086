"""What an answer is to be: which tools it may call, and how its thoughts and calls are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.reasoning import Reasoning, reasoning_of
from edgewise.tool_choice import ToolChoice, tool_choice_of
from edgewise.tools import Tool, ToolLike, tools_of
from edgewise_runtime.calls import Format, format_named
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

OPTIONS = ("tool_choice", "tool_format", "reasoning")
"""The options that are read here."""
NONE = ToolChoice("none")


@dataclass(frozen=True)
class Wanted:
    """What is asked of an answer, checked.

    Attributes:
        tools: those that templates show; None where nobody gave any.
        choice: which of them may or must be called.
        form: how the model writes calls; None to tell by its chat template.
        reasoning: what is asked of its thoughts; None where nothing was said.
    """

    tools: tuple[Tool, ...] | None = None
    choice: ToolChoice = NONE
    form: Format | None = None
    reasoning: Reasoning | None = None

    @property
    def asks(self) -> bool:
        """Whether anything is asked."""
        return bool(self.tools or self.form or self.reasoning)

    @property
    def callable(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return () if self.choice.mode == "none" else self.tools or ()


def wanted_of(options: Mapping[str, Any], tools: Iterable[ToolLike] | None) -> Wanted:
    """Read and check what is asked of an answer; None is as good as not given.

    Args:
        options: of a request, of which only `OPTIONS` are read.

    Raises:
        InputError: ``input.tools``, ``input.tool_choice``, ``input.tool_format``,
            ``input.reasoning``.
        UnsupportedError: ``unsupported.tool``, ``unsupported.type_hint``, ``unsupported.calls``.
    """
    known = tools_of(tools)
    choice = tool_choice_of(options.get("tool_choice"), known)
    if choice.mode in ("required", "named"):
        raise UnsupportedError(
            f"tool_choice is {shorten(options['tool_choice'])}; calls cannot be forced yet.",
            remedy="Pass 'auto', and ask for the call in words.",
            code="unsupported.tool_choice",
        )
    reasoning = options.get("reasoning")
    asked = None if reasoning is None else reasoning_of(reasoning)
    if asked is not None and asked.budget is not None:
        raise UnsupportedError(
            f"reasoning.budget is {asked.budget}; thoughts cannot be cut short yet.",
            remedy="Pass True, False or an effort.",
            code="unsupported.reasoning",
        )
    return Wanted(known, choice, _form(options.get("tool_format")), asked)


def _form(name: Any) -> Format | None:
    if name is None or isinstance(name, str):
        return None if name is None else format_named(name)
    raise InputError(
        f"tool_format is {shorten(name)}; it must be a name.",
        remedy='Such as "hermes"; leave it out to go by the chat template.',
        code="input.tool_format",
    )
