"""What an answer is to be: which tools it may call, and how its thoughts and calls are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.reasoning import Reasoning, reasoning_of
from edgewise.response_format import ResponseFormat, response_format_of
from edgewise.tool_choice import ToolChoice, tool_choice_of
from edgewise.tools import Tool, ToolLike, tools_of
from edgewise_runtime.calls import Format, format_named
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

OPTIONS = ("response_format", "tool_choice", "tool_format", "reasoning")
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
        format: what the answer has to be; None for any text.
    """

    tools: tuple[Tool, ...] | None = None
    choice: ToolChoice = NONE
    form: Format | None = None
    reasoning: Reasoning | None = None
    format: ResponseFormat | None = None

    @property
    def asks(self) -> bool:
        """Whether anything is asked."""
        return bool(self.tools or self.form or self.reasoning or self.format)

    @property
    def forces(self) -> bool:
        """Whether the answer may be held to something."""
        return self.format is not None or bool(self.callable)

    @property
    def budget(self) -> int | None:
        """Tokens of a thought at most."""
        return None if self.reasoning is None else self.reasoning.budget

    @property
    def may_think(self) -> bool:
        """Whether a model that thinks may do so."""
        return self.reasoning is None or self.reasoning.enabled is not False

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
            ``input.reasoning``, ``input.response_format``.
        UnsupportedError: ``unsupported.tool``, ``unsupported.type_hint``, ``unsupported.calls``,
            ``unsupported.response_format``.
    """
    known = tools_of(tools)
    choice = tool_choice_of(options.get("tool_choice"), known)
    reasoning = options.get("reasoning")
    wanted = Wanted(
        known,
        choice,
        _form(options.get("tool_format")),
        None if reasoning is None else reasoning_of(reasoning),
        response_format_of(options.get("response_format")),
    )
    if wanted.format is not None and wanted.callable:
        raise InputError(
            "response_format says what an answer has to be, and tools may be called in it.",
            remedy="Pass tool_choice='none', or leave out response_format.",
            code="input.response_format",
        )
    return wanted


def _form(name: Any) -> Format | None:
    if name is None or isinstance(name, str):
        return None if name is None else format_named(name)
    raise InputError(
        f"tool_format is {shorten(name)}; it must be a name.",
        remedy='Such as "hermes"; leave it out to go by the chat template.',
        code="input.tool_format",
    )


def check_prompted(wanted: Wanted) -> None:
    """Refuse what only a chat template can ask of a model, with InputError ``input.reasoning``."""
    asked = wanted.reasoning
    if asked is not None and (asked.enabled is not None or asked.effort is not None):
        raise InputError(
            "Whether and how hard a model thinks is said by its chat template; this is a prompt.",
            remedy="Use chat, or say it in the prompt; a budget in tokens may be given.",
            code="input.reasoning",
        )
