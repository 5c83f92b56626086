"""Conversations as Anthropic's API has them, and as chat templates read them.

A turn is a list of blocks there. Templates know messages of one text, with the calls of an answer
beside it, and each result of a tool in a message of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic.json_schema import SkipJsonSchema

from edgewise.server.wire_types import JsonObject, Name, Strict, Text
from edgewise.unread import KINDS, unread
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

MAX_MESSAGES = 1 << 14
MAX_BLOCKS = 1 << 12

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]


def _listed(content: Any) -> Any:
    """A text is short for one block of it."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else getattr(block, "type", None)
    return kind if isinstance(kind, str) and kind in _KINDS else "other"


class TextBlock(Strict):
    """What is said. Marks of what to cache are left out: every prefix is kept here."""

    type: Literal["text"]
    text: Text


class ThinkingBlock(Strict):
    """What was thought in an earlier turn. Its signature vouches for nothing here."""

    type: Literal["thinking"]
    thinking: Text


class RedactedBlock(Strict):
    """What another model thought, and only its maker can read."""

    type: Literal["redacted_thinking"]


class CallBlock(Strict):
    """A call of an earlier turn."""

    type: Literal["tool_use"]
    id: Id
    name: Name
    input: JsonObject


class OtherBlock(Strict):
    """A block that is known by its type only, to be refused."""

    type: Name


Part: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")] | Annotated[SkipJsonSchema[OtherBlock], Tag("other")],
    Discriminator(lambda block: "text" if _kind(block) == "text" else "other"),
]
_Listed: TypeAlias = Annotated[list[Part], Field(max_length=MAX_BLOCKS)]
Parts: TypeAlias = Annotated[
    _Listed, BeforeValidator(_listed, json_schema_input_type=Text | _Listed)
]
"""A content that has texts only, or one text."""


class ResultBlock(Strict):
    """What a tool returned."""

    type: Literal["tool_result"]
    tool_use_id: Id
    content: Parts | None = None
    is_error: bool | None = None


Block: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedBlock, Tag("redacted_thinking")]
    | Annotated[CallBlock, Tag("tool_use")]
    | Annotated[ResultBlock, Tag("tool_result")]
    | Annotated[SkipJsonSchema[OtherBlock], Tag("other")],
    Discriminator(_kind),
]
_KINDS = frozenset({"text", "thinking", "redacted_thinking", "tool_use", "tool_result"})
_OF_ROLE = {
    "user": frozenset({"text", "tool_result"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
    "system": frozenset({"text"}),
}


_Blocks: TypeAlias = Annotated[list[Block], Field(max_length=MAX_BLOCKS)]
Blocks: TypeAlias = Annotated[
    _Blocks, BeforeValidator(_listed, json_schema_input_type=Text | _Blocks)
]
"""A content of any blocks, or one text."""


class Turn(Strict):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Blocks


Turns: TypeAlias = Annotated[list[Turn], Field(min_length=1, max_length=MAX_MESSAGES)]


def messages_of(system: Sequence[Part] | None, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The messages that a chat template reads.

    Turns of one role that follow one another are one turn, as the API has it. A last one that is
    the model's own is left out, see `text_begun`.

    Raises:
        InputError: ``input.messages`` for blocks that a role does not have, for results of calls
            that were not made, and for a last turn of the model's own that is more than text.
        UnsupportedError: ``unsupported.content`` for a block that is not read, by its type.
    """
    found = []
    if system:
        found.append({"role": "system", "content": _text(_texts(system, "system"))})
    told = _Told()
    for role, run in groupby(enumerate(turns), key=lambda numbered: numbered[1].role):
        placed = [
            (f"messages.{at}.content.{number}", block)
            for at, turn in run
            for number, block in enumerate(turn.content)
        ]
        for where, block in placed:
            _check(role, block, where)
        found += told.of(role, placed)
    if turns[-1].role != "assistant":
        return found
    for block in _own(turns):
        if not isinstance(block, TextBlock):
            raise InputError(
                f"The last message is the assistant's and has {block.type}; an answer goes on from "
                "text only.",
                remedy="End with a message of the user.",
                code="input.messages",
            )
    if len(found) == 1:
        raise InputError(
            "All messages are the assistant's.",
            remedy="Begin with a message of the user.",
            code="input.messages",
        )
    return found[:-1]


def text_begun(turns: Sequence[Turn]) -> str:
    """The text that the next turn goes on from; nothing where the last turn is not the model's."""
    return "".join(block.text for block in _own(turns) if isinstance(block, TextBlock))


def _own(turns: Sequence[Turn]) -> list[Block]:
    """The blocks of the model's own turns that end a conversation."""
    last = takewhile(lambda turn: turn.role == "assistant", reversed(turns))
    return [block for turn in reversed(list(last)) for block in turn.content]


Placed: TypeAlias = tuple[str, Block]
"""A block and where it stands."""


@dataclass
class _Told:
    """Turns as messages, one after the other.

    Attributes:
        names: of the tools that the turn before called, by the ids of the calls.
    """

    names: dict[str, str] = field(default_factory=dict)

    def of(self, role: str, placed: Sequence[Placed]) -> Iterator[dict[str, Any]]:
        if role == "assistant":
            yield self._answer(placed)
            return
        said: list[str] = []
        for where, block in placed:
            if isinstance(block, ResultBlock):
                if said:
                    raise InputError(
                        f"{where} is a tool_result, and comes after text.",
                        remedy="Put the results of tools first.",
                        code="input.messages",
                    )
                yield self._result(block, where)
            elif isinstance(block, TextBlock):
                said.append(block.text)
        if said or not placed:
            yield {"role": role, "content": _text(said)}

    def _answer(self, placed: Sequence[Placed]) -> dict[str, Any]:
        blocks = [block for _, block in placed]
        calls = [block for block in blocks if isinstance(block, CallBlock)]
        self.names = {call.id: call.name for call in calls}
        # As it was said: a text that a call interrupts is two blocks.
        text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
        thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thought := _text(one for one in thoughts if one):
            message["reasoning_content"] = thought
        if calls:
            message["content"] = text or None
            message["tool_calls"] = [_called(call) for call in calls]
        return message

    def _result(self, block: ResultBlock, where: str) -> dict[str, Any]:
        name = self.names.get(block.tool_use_id)
        if name is None:
            raise InputError(
                f"{where} is the result of {shorten(block.tool_use_id)}, which the message before "
                "did not call.",
                remedy="Keep calls and their results together.",
                code="input.messages",
            )
        text = _text(_texts(block.content or (), f"{where}.content"))
        # Templates have no place for it beside the text.
        if block.is_error and not text.lower().startswith("error"):
            text = f"Error: {text}" if text else "Error"
        return {
            "role": "tool",
            "tool_call_id": block.tool_use_id,
            "name": name,
            "content": text,
        }


def _called(call: CallBlock) -> dict[str, Any]:
    arguments = json.dumps(call.input, ensure_ascii=False, allow_nan=False)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _text(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _texts(parts: Sequence[Part], where: str) -> Iterator[str]:
    for at, part in enumerate(parts):
        if not isinstance(part, TextBlock):
            raise _not_read(part.type, f"{where}.{at}")
        yield part.text


def _check(role: str, block: Block, where: str) -> None:
    if isinstance(block, OtherBlock):
        raise _not_read(block.type, where)
    if block.type not in _OF_ROLE[role]:
        raise InputError(
            f"{where} is of type {block.type!r}, which messages of the {role} do not have.",
            remedy=f"They have {', '.join(sorted(_OF_ROLE[role]))}.",
            code="input.messages",
        )


def _not_read(kind: str, where: str) -> UnsupportedError:
    if kind in KINDS:
        return unread(f"{where} is of type", kind)
    return UnsupportedError(
        f"{where} is of type {shorten(kind)}, which is not supported.",
        remedy='Send text, such as {"type": "text", "text": "Hello"}.',
        code="unsupported.content",
    )
