"""A grammar as an automaton over bytes, in one list of numbers.

A state is its place in the list: its kind, and what belongs to it.

    END                                  a rule, or the body of a repetition, has ended
    BYTES   n, n times first, last, to   a byte of a range leads on
    SPLIT   n, n times to                any of these
    CALL    start, back                  a rule, and where it goes on after it
    REPEAT  body, least, most, exit      a body so many times, and where it goes on after them

Small repetitions are written out; the others are counted where the automaton runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal as OneOf

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.endings import (
    empty_rules,
    endless_rule,
    left_recursive_rule,
    may_be_empty,
)
from edgewise_runtime.grammar.nodes import Chars, Choice, Grammar, Literal, Node, Repeat, Rule
from edgewise_runtime.grammar.nodes import Sequence as Row
from edgewise_runtime.grammar.prefixes import Branch, Identities, branches_of
from edgewise_runtime.grammar.ranges import Ranges
from edgewise_runtime.grammar.utf8 import Bytes, utf8_sequences

END, BYTES, SPLIT, CALL, REPEAT = range(5)

ENDLESS = (1 << 31) - 1
"""A repetition's `most` where it has no end."""

_MAX_NODES = 500_000
_MAX_DEPTH = 300
"""Nodes within one another."""
_MAX_STATES = 1 << 20
_MAX_UNROLLED = 32
"""States of a repetition that is written out."""


@dataclass(frozen=True)
class Automaton:
    """What takes the texts of a grammar.

    Attributes:
        code: its states.
        start: the first of them.
        classes: the class of each byte: no state tells two bytes of a class apart.
        samples: a byte of each class.
        free: states before this one are of free text.
    """

    code: list[int]
    start: int
    classes: bytes
    samples: bytes
    free: int


After = OneOf["free", "end"]


@dataclass(frozen=True)
class Around:
    """What texts of a grammar may stand in.

    Attributes:
        table: where bytes lead in free text (`free_text`).
        after: what comes after a text of the grammar.
    """

    table: Sequence[Sequence[int]]
    after: After


def automaton_of(grammar: Grammar, around: Around | None = None) -> Automaton:
    """The automaton that takes the texts of a grammar, written in UTF-8.

    Args:
        around: free text that such a text comes in; None for the text alone.

    Raises:
        InputError: ``constraint.too_large``; ``input.grammar`` for rules that are missing, that no
            text ends, or that begin with themselves, and for what takes no text.
    """
    _check(grammar)
    return _Builder(grammar).build(around)


class _Builder:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._code = [END]
        self._states = 1
        self._edges = {0}
        self._identities = Identities()
        self._empty = empty_rules(grammar.rules)
        # Rules that are used, in the order of their first use, and the places of each use.
        self._used = [grammar.root]
        self._calls: dict[str, list[int]] = {grammar.root: []}

    def build(self, around: Around | None) -> Automaton:
        starts: dict[str, int] = {}
        begun = None if around is None else self._around(around)
        free = END if begun is None else len(self._code)
        for name in self._used:  # a list's iteration comes to what is added meanwhile
            starts[name] = self._node(self._grammar.rules[name], END)
        for name, places in self._calls.items():
            for place in places:
                self._code[place] = starts[name]
        samples = bytes(sorted(edge for edge in self._edges if edge < 256))
        classes = bytearray(256)
        for number, (first, after) in enumerate(zip(samples, [*samples[1:], 256], strict=True)):
            classes[first:after] = bytes([number]) * (after - first)
        start = starts[self._grammar.root] if begun is None else begun
        return Automaton(self._code, start, bytes(classes), samples, free)

    def _around(self, around: Around) -> int:
        """Where free text begins, in which the root comes after a trigger."""
        places = [self._emit([SPLIT, 2, END, END]) for _ in around.table]
        call = self._call(self._grammar.root, places[0] if around.after == "free" else END)
        targets = [*places, call]
        for place, row in zip(places, around.table, strict=True):
            runs = [(to, list(run)) for to, run in groupby(range(256), row.__getitem__)]
            self._code[place + 2] = self._bytes(
                [(run[0], run[-1], targets[to]) for to, run in runs]
            )
        return places[0]

    def _emit(self, words: Iterable[int]) -> int:
        self._states += 1
        if self._states > _MAX_STATES:
            raise _too_large("states", _MAX_STATES)
        at = len(self._code)
        self._code += words
        return at

    def _bytes(self, edges: Sequence[tuple[int, int, int]]) -> int:
        for first, last, _ in edges:
            self._edges |= {first, last + 1}
        return self._emit([BYTES, len(edges), *(word for edge in edges for word in edge)])

    def _split(self, targets: Sequence[int]) -> int:
        return targets[0] if len(targets) == 1 else self._emit([SPLIT, len(targets), *targets])

    def _node(self, node: Node, following: int) -> int:
        """Where a node begins that goes on at `following`."""
        state = following
        match node:
            case Literal(text):
                for byte in reversed(text.encode()):
                    state = self._bytes([(byte, byte, state)])
            case Chars(ranges):
                state = self._chars(ranges, following)
            case Row(items):
                for item in reversed(items):
                    state = self._node(item, state)
            case Choice(items):
                state = self._choice(items, following)
            case Repeat(item, least, most):
                state = self._repeat(item, least, most, following)
            case Rule(name):
                state = self._call(name, following)
        return state

    def _call(self, name: str, following: int) -> int:
        state = self._emit([CALL, END, following])
        if name not in self._calls:
            self._used.append(name)
        self._calls.setdefault(name, []).append(state + 1)
        return state

    def _chars(self, ranges: Ranges, following: int) -> int:
        made: dict[tuple[Bytes, ...], int] = {((),): following}

        def after(sequences: tuple[Bytes, ...]) -> int:
            if sequences not in made:
                tails: dict[tuple[int, int], list[Bytes]] = {}
                for pair, *tail in sequences:
                    tails.setdefault(pair, []).append(tuple(tail))
                made[sequences] = self._bytes(
                    [(first, last, after(tuple(rest))) for (first, last), rest in tails.items()]
                )
            return made[sequences]

        return after(tuple(utf8_sequences(ranges)))

    def _choice(self, items: Sequence[Node], following: int) -> int:
        built: dict[Branch, int] = {}
        state = following
        for branch in reversed(branches_of(items, self._identities)):
            targets: list[int] = []
            edges: list[tuple[int, int, int]] = []
            for atom, below in branch.next.values():
                if isinstance(atom, int):
                    edges.append((atom, atom, built[below]))
                else:
                    targets.append(self._node(atom, built[below]))
            if edges:
                targets.insert(0, self._bytes(edges))
            if branch.ends:
                targets.append(following)
            state = built[branch] = self._split(targets)
        return state

    def _repeat(self, item: Node, least: int, most: int | None, following: int) -> int:
        if may_be_empty(item, self._empty):
            least = 0
        if most == 0:
            return following
        if _weight(item) * (least if most is None else most) > _MAX_UNROLLED:
            body = self._node(item, END)
            return self._emit([REPEAT, body, least, ENDLESS if most is None else most, following])
        state = following
        if most is None:
            state = self._emit([SPLIT, 2, END, following])
            self._code[state + 2] = body = self._node(item, state)
            if least > 0:
                state = body
        for written in range(max(0, least - 1) if most is None else most, 0, -1):
            body = self._node(item, state)
            optional = most is not None and written > least
            state = self._split([body, following]) if optional else body
        return state


def _weight(node: Node) -> int:
    """About how many states a node takes once it is written out."""
    match node:
        case Literal(text):
            return max(1, len(text))
        case Row(items) | Choice(items):
            return 1 + sum(map(_weight, items))
        case Repeat(item, least, most):
            return _weight(item) * max(1, least, most or 0)
    return 1


def _check(grammar: Grammar) -> None:
    rules = grammar.rules
    _check_rule(rules, grammar.root)
    count = 0
    left = [(node, 1) for node in rules.values()]
    while left:
        node, depth = left.pop()
        count += 1
        if count > _MAX_NODES:
            raise _too_large("parts", _MAX_NODES)
        if depth > _MAX_DEPTH:
            raise _too_large("parts within one another", _MAX_DEPTH)
        match node:
            case Rule(name):
                _check_rule(rules, name)
            case Repeat(item):
                left.append((item, depth + 1))
            case Literal(text) if any("\ud800" <= c <= "\udfff" for c in text):
                raise _wrong("There is a text that UTF-8 cannot hold")
            case Chars(()):
                raise _wrong("A set has no character")
            case Choice(()):
                raise _wrong("A choice has no item")
            case Choice(items) | Row(items):
                left += [(item, depth + 1) for item in items]
    endless = endless_rule(rules)
    if endless is not None:
        raise _wrong(f"The rule {shorten(endless)} has no text that ends")
    begins = left_recursive_rule(rules)
    if begins is not None:
        raise _wrong(f"The rule {shorten(begins)} may begin with itself")


def _check_rule(rules: Mapping[str, Node], name: str) -> None:
    if name not in rules:
        raise _wrong(f"There is no rule {shorten(name)}")


def _wrong(what: str) -> InputError:
    return InputError(f"{what}, in a grammar.", code="input.grammar")


def _too_large(what: str, most: int) -> InputError:
    return InputError(
        f"A grammar has more than {most:,} {what}.",
        remedy="Ask for less at once: fewer alternatives, shorter lists of values.",
        code="constraint.too_large",
    )
