"""Responses that are kept for who goes on with them: the latest, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from edgewise.server.writing import written
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

MAX_RESPONSES = 1024
MAX_BYTES = 64 << 20
"""Of all that is kept, as JSON."""


@dataclass(frozen=True)
class Kept:
    """A response.

    Attributes:
        response: as it was answered.
        messages: the conversation with it, without instructions: those are of one response.
        size: bytes of both as JSON.
    """

    response: dict[str, Any]
    messages: list[dict[str, Any]]
    size: int


class Store:
    """Responses by their ids, which nobody guesses. Gone with the process."""

    def __init__(self, most: int = MAX_RESPONSES, most_bytes: int = MAX_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Of all that is kept."""
        return self._bytes

    def keep(self, response: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        """Keep a response; the oldest go where there is no room for it."""
        kept = Kept(response, messages, len(written(response)) + len(written(messages)))
        self._kept[response["id"]] = kept
        self._bytes += kept.size
        while self._kept and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            self._bytes -= self._kept.popitem(last=False)[1].size

    def get(self, name: str) -> Kept:
        """A response. Raises InputError ``input.response``."""
        if name not in self._kept:
            raise _missing(name)
        return self._kept[name]

    def drop(self, name: str) -> None:
        """Keep it no longer. Raises InputError ``input.response``."""
        if name not in self._kept:
            raise _missing(name)
        self._bytes -= self._kept.pop(name).size


def _missing(name: str) -> InputError:
    return InputError(
        f"There is no response {shorten(name)}.",
        remedy="The latest are kept until the server ends, except those with store false; send "
        "the whole conversation as input.",
        code="input.response",
    )
