"""The text of an answer as its tokens come."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise_runtime.engine.stops import StopStrings
from edgewise_runtime.text.detokenize import Detokenizer


class AnswerText:
    """Turns tokens into the text they make certain, up to a stop string."""

    def __init__(
        self, detokenizer: Detokenizer, stops: Sequence[str], begun: Sequence[int]
    ) -> None:
        """Begin with the text of the tokens `begun`."""
        self._detokenizer = detokenizer
        self._stops = StopStrings(stops) if stops else None
        # A text of many pieces takes as much memory as it is long, in one piece.
        self._said = bytearray()
        self.push(begun)

    def __str__(self) -> str:
        """All that was certain so far."""
        return self._said.decode(errors="surrogatepass")

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended it."""
        return self.stop is not None

    @property
    def stop(self) -> str | None:
        """The stop string that has ended it."""
        return None if self._stops is None else self._stops.found

    def push(self, tokens: Sequence[int]) -> str:
        """Return what becomes certain: no part of a character or of a stop string."""
        text = self._detokenizer.push(tokens)
        if self._stops is not None:
            text = self._stops.push(text)
        self._said += text.encode(errors="surrogatepass")
        return text

    def finish(self) -> str:
        """Return what was held back, once no token follows."""
        text = self._detokenizer.finish()
        if self._stops is not None:
            text = self._stops.push(text) + self._stops.finish()
        self._said += text.encode(errors="surrogatepass")
        return text
