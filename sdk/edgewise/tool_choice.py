"""Whether a model may, must or may not call a tool, and which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from edgewise.tools import Tool
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

MODES = ("auto", "none", "required")
_CODE = "input.tool_choice"


@dataclass(frozen=True)
class ToolChoice:
    """Which tools an answer may call.

    Attributes:
        mode: ``auto`` lets the model decide, ``none`` lets it call none, ``required`` makes it call
            one or several, ``named`` makes it call one.
        name: of the tool that it has to call; only with ``named``.
    """

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None

    def to_json(self) -> Any:
        """As OpenAI's API has it."""
        if self.mode != "named":
            return self.mode
        return {"type": "function", "function": {"name": self.name}}


def tool_choice_of(value: Any, tools: Sequence[Tool] | None) -> ToolChoice:
    """Read and check the option `tool_choice`.

    Args:
        value: ``"auto"``, ``"none"``, ``"required"``, the function or class that is the tool, or
            ``{"type": "function", "function": {"name": ...}}``; None for ``"auto"`` where there are
            tools, and else for ``"none"``.
        tools: those there are.

    Raises:
        InputError: ``input.tool_choice``.
    """
    known = [tool.name for tool in tools or ()]
    if value is None:
        return ToolChoice("auto" if known else "none")
    if isinstance(value, str) and value in MODES:
        if value == "required" and not known:
            raise _wrong("A call is required, but there are no tools to call.", "Pass tools.")
        return ToolChoice(value)  # type: ignore[arg-type]  # it is in MODES
    name = _named(value)
    if name not in known:
        listed = ", ".join(known[:20]) or "none"
        raise _wrong(
            f"tool_choice names the tool {shorten(name)}, which is not there.",
            f"There are: {listed}.",
        )
    return ToolChoice("named", name)


def _named(value: Any) -> str:
    """The name of the tool that has to be called."""
    if isinstance(value, Tool):
        return value.name
    if callable(value):
        return str(getattr(value, "__name__", value))
    if isinstance(value, Mapping) and value.get("type") == "function":
        function = value.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            return str(function["name"])
    raise _wrong(
        f"tool_choice is {shorten(value)}; it must be one of {', '.join(MODES)}, or name a tool.",
        'A tool is named by {"type": "function", "function": {"name": "..."}}.',
    )


def _wrong(message: str, remedy: str) -> InputError:
    return InputError(message, remedy=remedy, code=_CODE)
