"""The messages of a generation that are kept: each is taken once, in order, within bounds."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgewise.server.socket.kept import Kept

MOST, MOST_BYTES = 5, 40


class Keeping(RuleBasedStateMachine):
    """Messages are added, taken and taken again as sockets come and go; a list knows them all."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = Kept(MOST, MOST_BYTES)
        self.all: list[str] = []
        self.received: list[str] = []
        self.over = False

    @precondition(lambda self: not self.over)
    @rule(size=st.integers(0, 60), drop=st.booleans())
    def add(self, size: int, drop: bool) -> None:
        text = f"{len(self.all)}:".ljust(size, ".")
        first = self.kept.first
        if self.kept.add(text, drop=drop):
            self.all.append(text)
        assert drop or self.kept.first == first

    @precondition(lambda self: not self.over)
    @rule()
    def add_last(self) -> None:
        self.kept.add_last("last" * 20)
        self.all.append("last" * 20)
        self.over = True

    @precondition(lambda self: self.kept.waiting)
    @rule()
    def take(self) -> None:
        self.received.append(self.kept.take())

    @rule(lost=st.integers(0, 8))
    def resume(self, lost: int) -> None:
        """A client that did not get the last few asks for them again."""
        after = max(len(self.received) - lost, 0) - 1
        before = self.kept.cursor
        if self.kept.rewind(after):
            del self.received[after + 1 :]
        else:
            assert after + 1 < self.kept.first
            assert self.kept.cursor == before

    @rule(ahead=st.integers(1, 5))
    def ask_for_what_is_not_there(self, ahead: int) -> None:
        assert not self.kept.rewind(self.kept.next - 1 + ahead)

    @invariant()
    def what_was_received_is_what_was_said(self) -> None:
        assert self.received == self.all[: len(self.received)]
        assert self.kept.cursor == len(self.received)
        assert self.kept.next == len(self.all)
        assert self.kept.waiting == len(self.all) - len(self.received)

    @invariant()
    def it_is_bounded_and_counted(self) -> None:
        there = self.all[self.kept.first :]
        pieces = there[:-1] if self.over else there
        assert len(pieces) <= MOST
        assert len(pieces) <= 1 or sum(map(len, pieces)) <= MOST_BYTES
        for n in range(self.kept.first, self.kept.next + 1):
            assert self.kept.bytes_from(n) == sum(map(len, self.all[n:]))


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(stateful_step_count=40)
