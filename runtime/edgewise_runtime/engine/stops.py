"""Stop strings found across pieces of text, without ever letting a part of one out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


class StopStrings:
    """Passes text on until one of some strings has appeared in it.

    The string that is complete first ends the text, the longest where several are; the text ends
    before it. What could still become one is held back. How the text was cut into pieces makes
    no difference. Takes time linear in the text, however long the strings are (Knuth, Morris and
    Pratt, "Fast pattern matching in strings", 1977, once for every string).
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Stop at `stops`, none of them empty."""
        self._stops = tuple(stops)
        self._borders = [_borders(stop) for stop in stops]
        # How much of each string the text ends with: the longest beginning there is.
        self._matched = [0] * len(stops)
        self._held = ""
        self.found: str | None = None
        """The string that ended the text."""

    def push(self, piece: str) -> str:
        """Take the next piece; return the text that is certain not to be part of a stop string."""
        if self.found is not None:
            return ""
        text = self._held + piece
        for end, character in enumerate(piece, len(self._held) + 1):
            if complete := self._advance(character):
                self.found = max(complete, key=len)
                self._held = ""
                return text[: end - len(self.found)]
        keep = max(self._matched, default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """Return what was held back, once no text follows."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> list[str]:
        """Take one more character of the text; return the strings it completes."""
        complete = []
        for i, stop in enumerate(self._stops):
            length = self._matched[i]
            while length and stop[length] != character:
                length = self._borders[i][length - 1]
            if stop[length] == character:
                length += 1
                if length == len(stop):
                    complete.append(stop)
            self._matched[i] = length
        return complete


@lru_cache(maxsize=128)
def _borders(stop: str) -> tuple[int, ...]:
    """For each beginning of `stop`, how much of it is both its beginning and its end, not all."""
    borders = [0]
    for character in stop[1:]:
        length = borders[-1]
        while length and stop[length] != character:
            length = borders[length - 1]
        borders.append(length + (stop[length] == character))
    return tuple(borders)
