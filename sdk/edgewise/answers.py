"""What an answer is once it is read: what is said, what was thought and what is called."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from edgewise.response_format import ResponseFormat
from edgewise.tool_calls import ToolCall
from edgewise_runtime.calls import Delta
from edgewise_runtime.engine.completion import Completion as Written
from edgewise_runtime.engine.sequence import Piece as WrittenPiece
from edgewise_runtime.errors import InputError


@dataclass(frozen=True, slots=True)
class Piece(WrittenPiece):
    """What a step added to an answer.

    Attributes:
        text: what is said, certain now: no thought, and no call of a tool.
        deltas: what that text is and what else has come, see `edgewise.deltas`.
        written: all that is certain as the model wrote it.
    """

    deltas: tuple[Delta, ...] = ()
    written: str = ""


@dataclass(frozen=True, slots=True)
class Completion(Written):
    """The result of one generation, see there.

    Attributes:
        text: what is said, without thoughts and calls. What began as a call and is none, such as
            one that was cut off, is in it as the model wrote it.
        reasoning: what was thought before.
        tool_calls: in their order; where there are any, and the model ended the answer itself, the
            `finish_reason` is ``tool_calls``.
        written: all of it as the model wrote it, with the marks around thoughts and calls.
        format: what it was asked to be.
    """

    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    written: str = ""
    format: ResponseFormat | None = field(default=None, compare=False, repr=False)

    @property
    def parsed(self) -> Any:
        """The text as what was asked for with `response_format`: an instance of a class, a JSON
        value, or the text itself of an expression or a grammar.

        Raises:
            InputError: ``input.answer`` where it is none, because it was cut off;
                ``input.response_format`` where nothing was asked for.
        """
        if self.format is None:
            raise InputError(
                "The answer was not asked to be anything but text.",
                remedy="Pass response_format.",
                code="input.response_format",
            )
        return self.format.parse(self.text)

    def message(self) -> dict[str, Any]:
        """Return the answer as a message, to go on with the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["content"] = self.text or None
            message["tool_calls"] = [call.to_json() for call in self.tool_calls]
        return message

    def to_json(self) -> dict[str, Any]:
        found = Written.to_json(self)
        if self.reasoning:
            found["reasoning"] = self.reasoning
        if self.tool_calls:
            found["tool_calls"] = [call.to_json() for call in self.tool_calls]
        return found


def values_of(written: Written) -> dict[str, Any]:
    """The fields of a completion as they are, by name."""
    return {one.name: getattr(written, one.name) for one in fields(written)}
