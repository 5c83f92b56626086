"""The small text files of a checkpoint or bundle, bounded and with useful errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from edgewise_runtime.errors import CheckpointError, StorageError
from edgewise_runtime.files import read_bytes
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import SPARE, memory_of


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Texts by name: what lies in a checkpoint's folder, but of a bundle only what it lists.

    Attributes:
        folder: where they lie, for messages.
        read: the contents of a file of at most so many bytes; None where there is none.
    """

    folder: Path
    read: Callable[[str, int], bytes | None]

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """The files of a folder whose owner is trusted with what is in it."""

        def read(name: str, limit: int) -> bytes | None:
            path = folder / name
            return read_bytes(path, limit) if path.exists() else None

        return cls(folder, read)

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> Self:
        """The files that ``bundle.json`` lists, each compared with its sha256 as it is read."""

        def read(name: str, limit: int) -> bytes | None:
            entry = bundle.manifest.files.get(name)
            if entry is None:
                return None
            if entry.bytes > limit:
                message = f"{bundle.path / name} is larger than {limit} bytes."
                raise StorageError(message, code="storage.size")
            return bundle.read(name)

        return cls(bundle.path, read)

    def text(self, name: str, *, limit: int) -> str | None:
        """Return a UTF-8 file's text, or None where there is no such file.

        Raises StorageError when it is larger than `limit` bytes or unreadable, BundleError when it
        is damaged, CheckpointError when it is not UTF-8.
        """
        data = self.read(name, limit)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError(
                f"{self.folder / name} is not UTF-8 text: {error.reason}."
            ) from error

    def object(self, name: str, *, limit: int = 16 << 20) -> dict[str, Any]:
        """Return the JSON object in a file, or an empty one where there is no such file."""
        text = self.text(name, limit=limit)
        if text is None:
            return {}
        try:
            if memory_of(text.encode()) > SPARE:
                raise ValueError("it has too many lists, objects and commas")
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{self.folder / name} is not valid JSON: {error}.") from error
        if not isinstance(value, dict):
            message = f"{self.folder / name} holds a JSON {type(value).__name__}, not an object."
            raise CheckpointError(message)
        return value
