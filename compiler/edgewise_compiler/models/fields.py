"""Checked access to a parsed config.json, which anyone may have written.

It is somebody else's file: keys may be absent or ``null``, which means unset, and most are of no
interest. `edgewise_runtime.format.reading.Fields` reads our own formats, where every key must be
there and an unknown one is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

_MISSING = object()


class ConfigFields:
    """One JSON object of a config and the name it is known by in messages.

    Every getter raises CheckpointError with the key and the offending value. A key that is absent
    takes ``default``; so does ``null``, because config.json writes unset options that way.
    """

    def __init__(self, values: Mapping[str, Any], where: str = "config.json") -> None:
        self.values = values
        self.where = where

    def integer(self, key: str, low: int, high: int, default: object = _MISSING) -> int:
        """An integer in ``low..high``; a bool or a float is none."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, value, "an integer")
        if not low <= value <= high:
            raise self._wrong(key, value, f"between {low} and {high}")
        return value

    def number(self, key: str, low: float, high: float, default: object = _MISSING) -> float:
        """A finite number in ``low..high``."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, value, "a number")
        if not low <= value <= high or not math.isfinite(value):
            raise self._wrong(key, value, f"between {low:g} and {high:g}")
        return float(value)

    def numbers(self, key: str, low: float, high: float, *, most: int) -> tuple[float, ...]:
        """A list of at most ``most`` finite numbers in ``low..high``."""
        values = self._value(key, _MISSING)
        if not isinstance(values, list) or len(values) > most:
            raise self._wrong(key, values, f"a list of at most {most} numbers")
        items = ConfigFields({str(i): v for i, v in enumerate(values)}, f"{key!r} of {self.where}")
        return tuple(items.number(i, low, high) for i in items.values)

    def flag(self, key: str, default: object = _MISSING) -> bool:
        """``true`` or ``false``."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def text(self, key: str, default: object = _MISSING) -> str:
        """A string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, value, "a string")
        return value

    def mapping(self, key: str) -> dict[str, Any] | None:
        """A JSON object, or None when it is absent or ``null``."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, value, "an object")
        return value

    def token_ids(self, key: str, vocab: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Token ids below ``vocab``: one, a list, or none for ``null``; repetitions dropped."""
        if key not in self.values:
            return default
        value = self.values[key]
        ids = [] if value is None else value if isinstance(value, list) else [value]
        for token in ids:
            if isinstance(token, bool) or not isinstance(token, int):
                raise self._wrong(key, value, "a token id or a list of them")
            if not 0 <= token < vocab:
                raise self._wrong(key, token, f"a token id below the vocabulary's {vocab}")
        return tuple(dict.fromkeys(ids))

    def has(self, key: str) -> bool:
        """Whether ``key`` is there and not ``null``."""
        return self.values.get(key) is not None

    def _value(self, key: str, default: object) -> object:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is _MISSING:
            raise CheckpointError(
                f"{self.where} has no {key!r}.",
                remedy="Use a complete checkpoint folder as Hugging Face transformers saves it.",
                code="checkpoint.config",
            )
        return default

    def _wrong(self, key: str, value: object, expected: str) -> CheckpointError:
        return CheckpointError(
            f"{key!r} in {self.where} is {shorten(value)}, expected {expected}.",
            remedy="Correct the file, or download the checkpoint again.",
            code="checkpoint.config",
        )
