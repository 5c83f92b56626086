"""Plain JSON of what a caller passes: checked and bounded before anything reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

MAX_DEPTH = 48
"""Lists and objects within one another; a chat template reads a few more around them."""
MAX_VALUES = 1 << 16
MAX_CHARACTERS = 1 << 20
MAX_INTEGER_BITS = 256


def plain_json(value: Any, name: str, *, code: str) -> Any:
    """Return a copy made of JSON's own types: what is no JSON, or too much of it, is refused.

    Args:
        name: what it is, for errors.
        code: of those errors, which are InputErrors.
    """
    return _Copy(name, code).of(value, 0)


@dataclass
class _Copy:
    """One copy under way: how many values and characters it has so far."""

    name: str
    code: str
    values: int = 0
    characters: int = 0

    def of(self, value: Any, depth: int) -> Any:
        self.values += 1
        if self.values > MAX_VALUES or depth > MAX_DEPTH:
            self._refuse(
                f"{self.name} has more than {MAX_VALUES:,} values, or some more than {MAX_DEPTH} "
                "deep within one another."
            )
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and abs(value).bit_length() <= MAX_INTEGER_BITS:
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.of(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item, depth + 1) for item in value]
        return self._refuse(f"{self.name} has {shorten(value)} in it, which is no JSON.")

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            return self._text(key)
        return self._refuse(f"{self.name} has {shorten(key)} for a key; JSON's keys are text.")

    def _text(self, text: str) -> str:
        self.characters += len(text)
        if self.characters > MAX_CHARACTERS:
            self._refuse(f"{self.name} has more than {MAX_CHARACTERS:,} characters of text.")
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._refuse(f"{self.name} has {shorten(text)} in it, half a character.")
        return str.__str__(text)

    def _refuse(self, message: str) -> NoReturn:
        raise InputError(
            message, remedy="Pass plain lists, dicts, text and numbers.", code=self.code
        )
