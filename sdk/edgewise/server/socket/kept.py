"""The last messages of a generation, by their numbers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Kept:
    """Messages from `first` up to `next`, of which those before `cursor` have been sent.

    What has been sent may go when room is needed; what has not been sent never does.

    Attributes:
        most: messages.
        most_bytes: of their texts, which are ASCII.
    """

    most: int
    most_bytes: int
    first: int = 0
    cursor: int = 0
    _texts: deque[str] = field(default_factory=deque)
    _ends: deque[int] = field(default_factory=deque)
    _dropped: int = 0

    @property
    def next(self) -> int:
        """The number of the message that comes next."""
        return self.first + len(self._texts)

    @property
    def waiting(self) -> int:
        """How many have not been sent."""
        return self.next - self.cursor

    @property
    def bytes(self) -> int:
        return (self._ends[-1] if self._ends else self._dropped) - self._dropped

    def bytes_from(self, n: int) -> int:
        """Bytes of the messages from this number on."""
        start = self._ends[n - 1 - self.first] if n > self.first else self._dropped
        return self.bytes + self._dropped - start

    def add(self, text: str, *, drop: bool) -> bool:
        """Keep the next message; False, and it is not kept, where there is no room.

        Args:
            drop: the oldest of those that have been sent, to make room.
        """
        while not self._fits(text):
            if not drop or self.first >= self.cursor:
                return False
            self._drop()
        self.add_last(text)
        return True

    def add_last(self, text: str) -> None:
        """Keep a message after which none comes, whatever room there is."""
        self._ends.append(self.bytes + self._dropped + len(text))
        self._texts.append(text)

    def take(self) -> str:
        """The first that has not been sent, which now has."""
        text = self._texts[self.cursor - self.first]
        self.cursor += 1
        return text

    def rewind(self, after: int) -> bool:
        """Send again what comes after a number; False where that is not kept, or not there yet."""
        if not self.first <= after + 1 <= self.next:
            return False
        self.cursor = after + 1
        return True

    def _fits(self, text: str) -> bool:
        if not self._texts:
            return True
        return len(self._texts) < self.most and self.bytes + len(text) <= self.most_bytes

    def _drop(self) -> None:
        self._texts.popleft()
        self._dropped = self._ends.popleft()
        self.first += 1
