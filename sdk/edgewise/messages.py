"""What is accepted as a conversation: messages of text or parts of text, or a list of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgewise.unread import KINDS, unread
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.template import Message

_EXAMPLE = '{"role": "user", "content": "Hello"}'


def conversation(messages: Any) -> list[Message]:
    """Return the only conversation, its contents as text.

    Raises InputError ``input.messages`` for what is none, ``input.content`` for parts that are no
    text, ``input.stream`` where there are several, UnsupportedError ``unsupported.content`` for an
    image or the like.
    """
    found, alone = each_conversation(messages)
    if alone:
        return found[0]
    raise InputError(
        f"This takes one conversation, not a list of {len(found)}.",
        remedy="Call it once for each; chat(...) without stream takes a list.",
        code="input.stream",
    )


def each_conversation(messages: Any) -> tuple[list[list[Message]], bool]:
    """Return each conversation, its contents as text, and whether there was just one.

    Raises InputError ``input.messages`` and ``input.content``, UnsupportedError
    ``unsupported.content``.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise InputError(
            f"{shorten(messages)} is no conversation.",
            remedy=f"Pass a list of messages, such as [{_EXAMPLE}].",
            code="input.messages",
        )
    if messages and all(isinstance(one, list | tuple) for one in messages):
        return [_with_text(one) for one in messages], False
    return [_with_text(messages)], True


def _with_text(messages: Iterable[Any]) -> list[Message]:
    """The messages with contents in parts joined; what is no message the template refuses."""
    return [
        {**message, "content": _joined(message["content"])}
        if isinstance(message, Mapping) and isinstance(message.get("content"), list | tuple)
        else message
        for message in messages
    ]


def _joined(parts: Sequence[Any]) -> str:
    """The text of a content's parts, without anything between them.

    That is what templates that read parts themselves write; most templates read only text.
    """
    return "".join(map(_text, parts))


def _text(part: Any) -> str:
    if isinstance(part, Mapping) and part.get("type") == "text":
        text = part.get("text")
        if isinstance(text, str):
            return text
    kind = part.get("type") if isinstance(part, Mapping) else part
    if isinstance(kind, str) and kind in KINDS:
        raise unread("A message's content has a part of", kind)
    raise InputError(
        f"A message's content has a part of {shorten(kind)}; only parts of text are read.",
        remedy='A part is a dict such as {"type": "text", "text": "Hello"}.',
        code="input.content",
    )
