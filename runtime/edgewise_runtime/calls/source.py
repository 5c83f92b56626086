"""A model's text while it comes, read by generators that wait where more of it is needed.

A reader (one of each format) is a generator that yields, nothing, whenever it needs text that has
not come. It decides by characters and never by where pieces end, so the same text gives the same
deltas however it is cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from edgewise_runtime.calls.deltas import (
    CUT,
    MALFORMED,
    TOO_LONG,
    Arguments,
    CallBegins,
    CallEnds,
    Content,
    Delta,
    NoCall,
    Reasoning,
)
from edgewise_runtime.calls.json_scanner import JsonScanner

MAX_CALL = 1 << 20
"""Characters of one call with its marks, which are kept in case it turns out to be none."""
MAX_NAME = 128
"""Characters of a tool's name, and of other words."""
MAX_SPACE = 256
"""Characters of white space that are held back because a call may follow."""
SPACE = " \t\n\r"

NAME = re.compile(r"[0-9A-Za-z_./\u00a1-\uff5b\uff5d-\U0010ffff-]+")
"""Names of tools: no white space, and none of the characters that formats are made of."""

T = TypeVar("T")
Reading = Generator[None, None, T]
"""A reader at work; it returns once it has read its part."""
Sink = Callable[[str], None]
Tools = Mapping[str, Mapping[str, Any]]
"""JSON schemas of the arguments of tools, by name."""


class NotACallError(Exception):
    """What began as a call is none; caught where the call began, and never seen outside."""

    def __init__(self, why: str = MALFORMED) -> None:
        super().__init__(why)
        self.why = why


class Source:
    """The text that is read, and the deltas that it turns into.

    Args:
        tools: what may be called, where it is known.
        new_id: returns the id of a call that has none.
    """

    def __init__(self, tools: Tools | None, new_id: Callable[[], str]) -> None:
        self.tools = tools
        self.deltas: list[Delta] = []
        self.ended = False
        self._new_id = new_id
        self._text, self._at = "", 0
        self._space = ""  # white space of the answer that may stand before a call
        self._edge = False  # nothing but white space since a call
        self._raw: list[str] | None = None  # what was read since a call began
        self._raw_size = 0
        self._index = -1
        self._calling = False

    def push(self, text: str) -> None:
        """Add the next piece of text."""
        self._text, self._at = self._text[self._at :] + text, 0

    # Reading: each of these may wait for more text.

    def peek(self) -> Reading[str]:
        """The next character; empty at the end."""
        while self._at == len(self._text) and not self.ended:
            yield
        return self._text[self._at : self._at + 1]

    def literal(self, text: str) -> Reading[bool]:
        """Read a text if it is what comes next, else nothing."""
        while not self._text.startswith(text, self._at):
            if self.ended or not self._begins(text):
                return False
            yield
        self._take(len(text))
        return True

    def expect(self, *texts: str) -> Reading[str]:
        """Read the one of some texts that comes next; without one of them this is no call."""
        for text in texts:
            if (yield from self.literal(text)):
                return text
        cut = self.ended and any(self._begins(text) for text in texts)
        raise NotACallError(CUT if cut else MALFORMED)

    def closing(self, text: str) -> Reading[bool]:
        """Read white space and a mark that may be missing; a part of it at the end, too."""
        yield from self.spaces()
        if (yield from self.literal(text)):
            return True
        if self.ended and self._begins(text):
            self._take(len(self._text) - self._at)
        return False

    def spaces(self) -> Reading[None]:
        """Read white space, if there is any."""
        while (yield from self.peek()) and self._text[self._at] in SPACE:
            self._take(1)

    def word(self, pattern: re.Pattern[str] = NAME) -> Reading[str]:
        """Read characters of a pattern, one or more, `MAX_NAME` at most."""
        found = ""
        while (yield from self.peek()):
            run = pattern.match(self._text, self._at)
            if run is None:
                break
            found += self._take(min(run.end() - self._at, MAX_NAME + 1 - len(found)))
            if len(found) > MAX_NAME:
                raise NotACallError
        if not found:
            raise NotACallError(MALFORMED if (yield from self.peek()) else CUT)
        return found

    def until(self, marks: Sequence[str], sink: Sink, most: int | None = None) -> Reading[str]:
        """Read up to the first of some marks, none within another, and past it.

        Args:
            most: characters before the mark; with more of them this is no call.

        Returns:
            The mark; empty at the end of the stream.
        """
        left = most
        pattern = _any_of(tuple(marks))
        while True:
            found = pattern.search(self._text, self._at)
            kept = 0 if self.ended or found else _beginning(self._text, self._at, marks)
            before = (found.start() if found else len(self._text) - kept) - self._at
            self._take(before if left is None else min(before, left), sink)
            if left is not None:
                if before > left:
                    raise NotACallError
                left -= before
            if found:
                return self._take(len(found[0]))
            if self.ended:
                return ""
            yield

    def content(self, marks: Sequence[str]) -> Reading[str]:
        """Read the answer up to the first of some marks, as `until` does."""
        self._raw = None
        return (yield from self.until(marks, self.say))

    def blank(self) -> Reading[None]:
        """Read white space of the answer."""
        while (yield from self.peek()) and self._text[self._at] in SPACE:
            self._take(1, self.say)

    def json(self, sink: Sink) -> Reading[None]:
        """Read a JSON value."""
        scanner = JsonScanner()
        while True:
            self._take(scanner.push(self._text, self._at) - self._at, sink)
            if self.ended and not scanner.failed:
                scanner.finish()
            if scanner.done:
                return
            if scanner.failed or self.ended:
                raise NotACallError(MALFORMED if scanner.failed else CUT)
            yield

    def attempt(self, mark: str, calls: Reading[None], *, bare: bool = False) -> Reading[None]:
        """Read calls after the mark that began them; what is none comes out as `NoCall`.

        Args:
            bare: nothing marks these calls as such; what is none is text of the answer.
        """
        self._raw, self._raw_size = [mark], len(mark)
        index = self._index
        try:
            yield from calls
        except NotACallError as error:
            if error.why == CUT:
                self._raw.append(self._text[self._at :])
                self._at = len(self._text)
            raw = "".join(self._raw)
            self._raw = None
            if bare and index == self._index:
                self.say(raw)
            elif raw:
                self._say_no_call(raw, error.why)
        self._raw = None

    # What it turns into.

    def say(self, text: str) -> None:
        """Text of the answer; white space around calls is left out."""
        if self._edge:
            text = text.lstrip(SPACE)
            self._edge = not text
        text = self._space + text
        said = text.rstrip(SPACE)
        if len(text) - len(said) > MAX_SPACE:
            said = text[:-MAX_SPACE]
        self._space = text[len(said) :]
        if said:
            self.deltas.append(Content(said))

    def think(self, text: str) -> None:
        """Text of a thought."""
        if text:
            self.deltas.append(Reasoning(text))

    def begin(self, name: str, given: str = "") -> None:
        """A call begins.

        Args:
            given: the id that the model has given it.

        Raises:
            NotACallError: that cannot be a tool's name.
        """
        if len(name) > MAX_NAME or not NAME.fullmatch(name):
            raise NotACallError
        self._space, self._calling = "", True
        self._index += 1
        self.deltas.append(CallBegins(self._index, given or self._new_id(), name))

    def arguments(self, text: str) -> None:
        """The next piece of the arguments of the call that has begun."""
        if text:
            self.deltas.append(Arguments(self._index, text))

    def end(self) -> None:
        """The call that has begun is complete."""
        self.deltas.append(CallEnds(self._index))
        self._calling, self._edge = False, True
        self._raw, self._raw_size = [], 0

    def finish(self) -> None:
        """Nothing follows: what was held back is said."""
        if self._space:
            self.deltas.append(Content(self._space))
            self._space = ""

    def _say_no_call(self, raw: str, why: str) -> None:
        if not self._calling:
            self.finish()
        self.deltas.append(NoCall(self._index if self._calling else None, raw, why))
        self._calling = self._edge = False

    def _begins(self, text: str) -> bool:
        """Whether all that has come, and is less, is the beginning of a text."""
        left = len(self._text) - self._at
        return left < len(text) and text.startswith(self._text[self._at :])

    def _take(self, count: int, sink: Sink | None = None) -> str:
        """Read as many characters; what is too long for a call is read as far as it may be."""
        limited = self._raw is not None and self._raw_size + count > MAX_CALL
        count = MAX_CALL - self._raw_size if limited else count
        text = self._text[self._at : self._at + count]
        self._at += count
        if self._raw is not None:
            self._raw.append(text)
            self._raw_size += count
        if sink and text:
            sink(text)
        if limited:
            raise NotACallError(TOO_LONG)
        return text


@cache
def _any_of(marks: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, marks)))


def _beginning(text: str, start: int, marks: Sequence[str]) -> int:
    """How many of the last characters of a text are the beginning of a mark, at most."""
    most = min(len(text) - start, max(len(mark) for mark in marks) - 1)
    ends = (text[len(text) - size :] for size in range(most, 0, -1))
    return next((len(end) for end in ends if any(mark.startswith(end) for mark in marks)), 0)
