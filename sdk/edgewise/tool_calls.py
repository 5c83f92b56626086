"""Calls of tools in an answer: what is called with what, and what it gave."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.tools import Tool
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.json_text import read_json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model has written to its end.

    Attributes:
        id: by which a result says which call it is of.
        name: of the tool; there may be no such tool.
        text: the arguments as the model wrote them, or as JSON where it wrote no JSON.
        tool: the one that is called, None where there is none of that name.
    """

    id: str
    name: str
    text: str
    tool: Tool | None = field(default=None, compare=False, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as JSON values, by name; nobody has looked whether the tool takes them."""
        return dict(read_json(self.text))

    def read(self) -> Any:
        """Return the arguments as the tool takes them: by name of a function, an instance of a
        class, an object of a schema.

        Raises:
            InputError: ``input.tool_call`` where there is no such tool, ``input.arguments`` for
                arguments that it does not take.
        """
        return self._known.arguments(self.text)

    def call(self) -> Any:
        """Call the function with these arguments; return what it returns, a coroutine of an
        ``async`` one. Raises what `read` and the function do.

        Raises:
            InputError: ``input.tool_call`` where the tool is no Python function.
        """
        function = self._known.function
        if function is None:
            raise InputError(
                f"The tool {self.name!r} is no Python function.",
                remedy="Read the call's arguments, and do what it asks for.",
                code="input.tool_call",
            )
        return function(**self.read())

    def result(self, value: Any) -> dict[str, Any]:
        """Return the message that tells the model what the call gave: text as it is, and anything
        else as JSON.

        Raises InputError ``input.tool_result`` for what JSON cannot hold.
        """
        return tool_result(value, id=self.id, name=self.name)

    def to_json(self) -> dict[str, Any]:
        """The call as messages have it, and as OpenAI's API does."""
        function = {"name": self.name, "arguments": self.text}
        return {"id": self.id, "type": "function", "function": function}

    @property
    def _known(self) -> Tool:
        if self.tool is None:
            raise InputError(
                f"The model calls the tool {shorten(self.name)}, which is not there.",
                remedy="Tell the model so in the result of the call.",
                code="input.tool_call",
            )
        return self.tool


def tool_result(value: Any, *, id: str, name: str) -> dict[str, Any]:  # noqa: A002 (as in messages)
    """Return the message that tells a model what the call of a tool gave, see `ToolCall.result`."""
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"The tool {name!r} gave {shorten(value)}, which is neither text nor JSON.",
                remedy="Let it return text, or plain dicts, lists, numbers and texts.",
                code="input.tool_result",
            ) from error
    return {"role": "tool", "tool_call_id": id, "name": name, "content": value}


def by_name(tools: tuple[Tool, ...]) -> Mapping[str, Tool]:
    """The same tools by their names."""
    return {tool.name: tool for tool in tools}
