"""The prefix index against a list that is searched from one end to the other."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.kv.keys import page_key
from edgewise_runtime.kv.prefix import MAX_SCANNED, Node, PrefixIndex

ROOT = bytes(32)

# Pages that begin alike, and end after any number of tokens.
contents = st.builds(
    lambda same, other, rest: ((1,) * same + (other,) + (2,) * rest)[:PAGE_TOKENS],
    st.integers(0, PAGE_TOKENS),
    st.integers(0, 2),
    st.integers(0, PAGE_TOKENS),
)
which = st.integers(0, 1 << 16)


@dataclass(eq=False)
class Line:
    """What the list knows of a page."""

    key: bytes
    parent: bytes
    tokens: tuple[int, ...]
    exact: int
    holders: int = 0
    pins: int = 0


class IndexMachine(RuleBasedStateMachine):
    """Pages are added, used, needed and removed; one list has them in the order of their use, and
    another those that nothing needs in the order in which they last were."""

    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(PAGE_TOKENS)
        self.lines: list[Line] = []
        self.idle: list[Line] = []

    @rule(
        which=which,
        tokens=contents,
        exact=st.integers(0, PAGE_TOKENS),
        holders=st.sampled_from([0, 0, 1, 2]),
    )
    def add(self, which: int, tokens: tuple[int, ...], exact: int, holders: int) -> None:
        parent = self._parent(which)
        line = Line(page_key(parent, tokens), parent, tokens, min(exact, len(tokens)), holders)
        if line.key not in [known.key for known in self.lines]:
            self.index.add(Node(line.key, parent, 7, tokens, line.exact, holders=holders))
            self.lines.append(line)

    @precondition(lambda self: self.lines)
    @rule(which=which, more=st.booleans())
    def hold(self, which: int, more: bool) -> None:
        line, node = self._both(which)
        if more or line.holders:
            line.holders += 1 if more else -1
            self.index.hold(node, 1 if more else -1)

    @precondition(lambda self: self.lines)
    @rule(which=which, by=st.sampled_from([1, -1]))
    def pin(self, which: int, by: int) -> None:
        line, node = self._both(which)
        line.pins = max(line.pins + by, 0)
        self.index.pin(node, by)

    @precondition(lambda self: self.lines)
    @rule(which=which)
    def remove(self, which: int) -> None:
        """Also pages that others follow."""
        line, node = self._both(which)
        self.lines.remove(line)
        self.index.remove(node)
        assert self.index.get(line.key) is None

    @precondition(lambda self: self.lines)
    @rule(which=which)
    def touch(self, which: int) -> None:
        """Use a history, of which not every page is here: its first page was used last."""
        line = self.lines[which % len(self.lines)]
        chain = [page_key(line.key, (9,)), line.key]
        while parent := next((known for known in self.lines if known.key == chain[-1]), None):
            chain.append(parent.parent)
        self.index.touch(chain[::-1])
        for key in chain:
            for lines in (self.lines, self.idle):
                found = [known for known in lines if known.key == key]
                lines[:] = [known for known in lines if known.key != key] + found

    @rule(which=which, tokens=contents, inexact=st.booleans())
    def longest(self, which: int, tokens: tuple[int, ...], inexact: bool) -> None:
        parent = self._parent(which)
        best: tuple[bytes, int] | None = None
        following = [line for line in self.lines if line.parent == parent]
        for line in following[::-1][:MAX_SCANNED]:
            usable = line.tokens if inexact else line.tokens[: line.exact]
            same = max(n for n in range(len(tokens) + 1) if usable[:n] == tokens[:n])
            if same > (0 if best is None else best[1]):
                best = (line.key, same)
        found = self.index.longest(parent, tokens, inexact=inexact)
        assert (None if found is None else (found[0].key, found[1])) == best

    @invariant()
    def sound(self) -> None:
        assert self.index.check() == []
        assert len(self.index) == len(self.lines)
        needed = self._needed()
        fresh = [line for line in self.lines if line not in needed and line not in self.idle]
        # What becomes idle at once follows one another: the last page of them is the first to go.
        while fresh:
            line = next(one for one in fresh if all(one.key != other.parent for other in fresh))
            fresh.remove(line)
            self.idle.append(line)
        self.idle = [line for line in self.idle if line in self.lines and line not in needed]
        in_use = [line.key for line in self.lines if line in needed]
        order = [node.key for node in self.index]
        assert order[: self.index.idle] == [line.key for line in self.idle]
        assert sorted(order[self.index.idle :]) == sorted(in_use)
        assert self.index.unheld == sum(not line.holders for line in self.lines)
        for line in self.lines:
            node = self.index.get(line.key)
            assert node is not None
            assert (node.tokens, node.exact) == (line.tokens, line.exact)
            assert node.children == sum(other.parent == line.key for other in self.lines)
        self._judge(self.index.oldest())

    def _judge(self, oldest: Node | None) -> None:
        """The one to go first is the first of the idle ones, or follows it."""
        assert (oldest is None) == (not self.idle)
        if oldest is not None:
            assert not oldest.children
            known = {line.key: line for line in self.idle}
            line = known[oldest.key]
            while line is not self.idle[0]:
                line = known[line.parent]

    def _needed(self) -> set[Line]:
        """Lines that are held or pinned, and what they follow."""
        known = {line.key: line for line in self.lines}
        needed = set[Line]()
        for line in self.lines:
            above = line if line.holders or line.pins else None
            while above is not None:
                needed.add(above)
                above = known.get(above.parent)
        return needed

    def _both(self, which: int) -> tuple[Line, Node]:
        line = self.lines[which % len(self.lines)]
        node = self.index.get(line.key)
        assert node is not None
        return line, node

    def _parent(self, which: int) -> bytes:
        """The root, more often than not, or a page that is here."""
        lines = self.lines[which % (2 * len(self.lines) + 1) :]
        return lines[0].key if lines else ROOT


TestIndexMachine = IndexMachine.TestCase


def test_only_the_latest_pages_are_compared() -> None:
    index = PrefixIndex(PAGE_TOKENS)
    pages = [(1, 1, 2), *((1, 3 + nth) for nth in range(MAX_SCANNED))]
    for tokens in pages:
        index.add(Node(page_key(ROOT, tokens), ROOT, 0, tokens, len(tokens)))
    found = index.longest(ROOT, (1, 1, 2), inexact=False)
    assert found is not None
    assert (found[0].tokens, found[1]) == (pages[-1], 1)
    index.touch([page_key(ROOT, pages[0])])
    found = index.longest(ROOT, (1, 1, 2), inexact=False)
    assert found is not None
    assert (found[0].tokens, found[1]) == (pages[0], 3)
