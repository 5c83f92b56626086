"""Conversations in files: JSON with the messages, as other programs know them, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from edgewise.cli.talk.conversation import Turn
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.files import read_bytes, write_json
from edgewise_runtime.format.reading import Fields, parse_json

MAX_BYTES = 64 << 20
MAX_MESSAGES = 100_000
VERSION = 1
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Saved:
    """A conversation without its model."""

    system: str | None
    turns: tuple[Turn, ...]


def save(path: Path, model: str, system: str | None, turns: Sequence[Turn]) -> None:
    """Write a conversation, which only this user may read, perhaps in the place of an earlier one.

    Raises:
        InputError: ``input.file`` where something else stands there.
        StorageError: where it cannot be written.
    """
    if path.exists():
        _check_ours(path)
    messages = [{"role": "system", "content": system}] if system else []
    for turn in turns:
        messages.append({"role": "user", "content": turn.question})
        messages.append({"role": "assistant", "content": turn.answer})
    table = {"format": "conversation", "version": VERSION, "model": model, "messages": messages}
    write_json(path, table, indent=1, mode=0o600)


def load(path: Path) -> Saved:
    """Read what `save` wrote.

    Raises:
        InputError: ``input.conversation``, or what else is wrong in the file.
        StorageError: where it cannot be read.
    """
    value = parse_json(read_bytes(path, MAX_BYTES), str(path), InputError, what="conversation")
    fields = Fields(value, str(path), InputError)
    fields.choice("format", ("conversation",))
    fields.integer("version", VERSION, VERSION)
    fields.text("model", most=1000)
    said = [_message(item, path) for item in fields.items("messages", most=MAX_MESSAGES)]
    fields.done()
    system = said.pop(0)[1] if said[:1] and said[0][0] == "system" else None
    for (role, _), wanted in zip(said, cycle(("user", "assistant"))):
        if role != wanted:
            raise fields.fail("conversation", f"{role!r} speaks where it is the turn of {wanted!r}")
    if len(said) % 2:
        raise fields.fail("conversation", "the last question has no answer")
    texts = [text for _, text in said]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return Saved(system, tuple(Turn(question, answer) for question, answer in pairs))


def _message(value: Any, path: Path) -> tuple[str, str]:
    fields = Fields(value, f"{path}, a message", InputError)
    found = fields.choice("role", _ROLES), fields.text("content", most=MAX_BYTES)
    fields.done()
    return found


def _check_ours(path: Path) -> None:
    try:
        load(path)
    except EdgewiseError as error:
        raise InputError(
            f"{path} is there already, and is no conversation: it stays as it is.",
            remedy="Choose another name.",
            code="input.file",
        ) from error
