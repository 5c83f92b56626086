"""Stop strings found across pieces of text, without ever letting a part of one out."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Passes text on until one of some strings has appeared in it.

    The string that is complete first ends the text, the longest where several are; the text ends
    before it. What could still become one is held back. How the text was cut into pieces makes
    no difference.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None
        """The string that ended the text."""

    def push(self, piece: str) -> str:
        """Take the next piece; return the text that is certain not to be part of a stop string."""
        if self.found is not None:
            return ""
        text = self._held + piece
        matches = [(start + len(s), start, s) for s in self._stops if (start := text.find(s)) >= 0]
        if matches:
            _, start, self.found = min(matches)
            self._held = ""
            return text[:start]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """Return what was held back, once no text follows."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` that begins, but is not, `stop`."""
    longest = min(len(stop) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
