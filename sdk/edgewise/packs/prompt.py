"""What a file says of a prompt, and the tokens of it that every continuation shares."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.texts import Texts
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import read_bytes
from edgewise_runtime.format.reading import parse_json, shorten
from edgewise_runtime.kv.prefix import common_length
from edgewise_runtime.text.template import Message

MAX_BYTES = 16 << 20

CONTINUATIONS = ("a", "The", "7.", "...", "\n\n", "  -", "<", "é", "你")
"""Texts that differ in how they begin: what a prompt shares with all of them it shares with any."""


@dataclass(frozen=True)
class PackPrompt:
    """A prompt's beginning.

    Attributes:
        text: of a prompt that is no conversation; None for a conversation.
        messages: of a conversation.
        tools: that it is told of.
    """

    text: str | None = None
    messages: Sequence[Message] = ()
    tools: Sequence[Mapping[str, Any]] | None = None

    def shared(self, texts: Texts) -> tuple[int, ...]:
        """The token ids that all continuations begin with.

        Raises what the tokenizer and the chat template do.
        """
        found = self._continued(texts)
        shortest = min(found, key=len)
        return shortest[: min(common_length(shortest, one) for one in found)]

    def _continued(self, texts: Texts) -> list[tuple[int, ...]]:
        if self.text is not None:
            whole = [self.text + more for more in CONTINUATIONS]
            return [tuple(texts.tokenizer.encode(text)) for text in whole]
        return [
            texts.ids_of_chat(messages, self.tools, None, {}) for messages in self._conversations()
        ]

    def _conversations(self) -> list[list[Message]]:
        """The conversation as it is answered, and as it goes on."""
        said = list(self.messages)
        asks = [{"role": "user", "content": more} for more in CONTINUATIONS]
        if not said or said[-1].get("role") not in ("user", "tool"):
            return [[*said, ask] for ask in asks]
        answers = [{"role": "assistant", "content": more} for more in CONTINUATIONS]
        return [
            said,
            *([*said, answer, ask] for answer, ask in zip(answers, asks, strict=True)),
        ]


def read_prompt(file: Path, *, plain: bool) -> PackPrompt:
    """Read a file: ``.json`` with ``messages`` and perhaps ``tools``, or a text.

    Args:
        plain: whether a text is a prompt as it is; else it is a conversation's system prompt. Line
            breaks at its end are not part of it.

    Raises:
        InputError: ``input.prefix`` for what is neither, ``input.json``.
        StorageError: it cannot be read, or is larger than 16 MiB.
    """
    data = read_bytes(file, MAX_BYTES)
    if file.suffix == ".json":
        return _of_json(parse_json(data, str(file), InputError), file)
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as cause:
        raise _refused(f"{file} is no text in UTF-8: {cause.reason}.") from cause
    if not text:
        raise _refused(f"{file} is empty.")
    return PackPrompt(text) if plain else PackPrompt(messages=[{"role": "system", "content": text}])


def _of_json(value: Any, file: Path) -> PackPrompt:
    found = {"messages": value} if isinstance(value, list) else value
    if not isinstance(found, dict) or not isinstance(found.get("messages"), list):
        raise _refused(f"{file} has no list of messages.")
    if unknown := sorted(found.keys() - {"messages", "tools"}):
        raise _refused(f"{file} has {shorten(unknown[0])} besides messages and tools.")
    messages, tools = found["messages"], found.get("tools")
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise _refused(f"{file} has {shorten(messages)} for messages.")
    if tools is not None and not isinstance(tools, list):
        raise _refused(f"{file} has {shorten(tools)} for a list of tools.")
    return PackPrompt(messages=messages, tools=tools)


def _refused(message: str) -> InputError:
    return InputError(
        message,
        remedy='A text, or JSON such as {"messages": [{"role": "system", "content": "…"}]}.',
        code="input.prefix",
    )
