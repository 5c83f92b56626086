"""Text for a terminal as it comes: words stay whole, and nothing in it moves the cursor."""

from __future__ import annotations

from rich.cells import cell_len

from edgewise_runtime.shown import PLAIN

_FENCES = ("```", "~~~")
_PLAIN = {**PLAIN, ord("\r"): None}  # a carriage return before a line's end is no loss


class WordWrap:
    """Breaks lines between words; the last word is held back until it is whole.

    What is within a fence of ``` or ~~~ is code and stays as it is, as does a word that no line
    holds: the terminal breaks them where it must, and what is copied from there has no other lines.

    Attributes:
        width: cells of a line, 2 or more; may change at any time.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._column = 0
        self._gap = ""
        self._word = ""
        self._within = False  # the word goes on from what was printed of it
        self._line = ""
        self._fence = ""

    def push(self, text: str) -> str:
        """Take the next piece; return what can be printed now, line breaks included."""
        return "".join(map(self._take, text.translate(_PLAIN)))

    def finish(self) -> str:
        """Return the last word, once nothing follows."""
        return self._flush()

    def _take(self, character: str) -> str:
        if character == "\n":
            return self._end_line()
        self._line += character
        if self._fence:
            return character
        if character.isspace():
            found = self._flush()
            self._within = False
            self._gap += "    " if character == "\t" else character
            return found
        if cell_len(character) > 1:  # where characters take two cells a line may break anywhere
            found = self._flush()
            self._within = False
            self._word = character
            return found + self._flush()
        self._word += character
        if cell_len(self._word) < self.width - 1:
            return ""
        found = self._flush()
        self._within = True
        return found

    def _end_line(self) -> str:
        found = self._flush() + "\n"
        line = self._line.lstrip()
        mark = line[:3]
        if self._fence:
            self._fence = "" if mark == self._fence else self._fence
        elif mark in _FENCES and mark not in line[3:]:
            self._fence = mark
        self._line = self._gap = ""
        self._column, self._within = 0, False
        return found

    def _flush(self) -> str:
        """The word that is held: after the gap before it, or on a new line where it does not fit.

        The last column stays free: some terminals go on to the next line once it is filled.
        """
        if not self._word:
            return ""
        gap, word, self._gap, self._word = self._gap, self._word, "", ""
        cells = cell_len(word)
        fits = self._column + len(gap) + cells < self.width
        if fits or not self._column or self._within:
            self._column = self._after(self._column + len(gap) + cells)
            return gap + word
        self._column = self._after(cells)
        return f"\n{word}"

    def _after(self, cells: int) -> int:
        """The column after so many cells, which a terminal breaks where a line is full; a line that
        is just full is not at its beginning again."""
        return (cells - 1) % self.width + 1
