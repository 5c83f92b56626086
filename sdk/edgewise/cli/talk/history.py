"""What was typed in earlier conversations, kept for this user alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from edgewise_runtime.errors import StorageError
from edgewise_runtime.files import state_folder, storage_errors, write_bytes

MAX_MESSAGES = 1000
MAX_BYTES = 1 << 20
MAX_CHARACTERS = 16_384
"""What is longer is not kept: a text that was pasted, not typed."""


def history_file() -> Path:
    """Where it is kept: ``$XDG_STATE_HOME/edgewise/history.jsonl``."""
    return state_folder() / "history.jsonl"


class KeptHistory(History):
    """The latest messages typed, a line of JSON each, in a file that nobody else may read.

    Where it cannot be written, what was typed lasts as long as the conversation.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The messages, the latest first; lines that are none are left out."""
        with suppress(OSError, StorageError):
            data = self._latest_bytes()
            texts = [text for line in data.splitlines() if (text := _text(line)) is not None]
            if len(texts) > MAX_MESSAGES or self._path.stat().st_size > MAX_BYTES:
                texts = texts[-MAX_MESSAGES:]
                write_bytes(self._path, b"".join(map(_line, texts)), mode=0o600)
            return texts[::-1]
        return []

    def store_string(self, string: str) -> None:
        """Add a message at the end."""
        if len(string) > MAX_CHARACTERS:
            return
        with suppress(OSError, StorageError), storage_errors("write", self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self._path, flags, 0o600), "ab") as file:
                # Also where somebody made the file otherwise.
                self._path.chmod(0o600)
                file.write(_line(string))

    def _latest_bytes(self) -> bytes:
        with self._path.open("rb") as file:
            begins = max(0, file.seek(0, os.SEEK_END) - MAX_BYTES)
            file.seek(begins)
            if begins:
                file.readline(MAX_BYTES)  # a part of one
            return file.read(MAX_BYTES)


def _line(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


def _text(line: bytes) -> str | None:
    try:
        text = json.loads(line)
        text.encode()
    except (AttributeError, ValueError, RecursionError):
        return None  # not JSON, no text, or none that a terminal can show
    return str(text) or None
