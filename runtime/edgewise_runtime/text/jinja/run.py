"""One rendering of a template: what it may still do, and how its nodes are evaluated.

A template is foreign code, so everything that it does is charged before it is done: steps for time,
room for memory. The limits and charges are those of `web/engine/jinja/run.ts`, so that both
languages stop the same templates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Protocol, TypeVar, dataclass_transform

MAX_STEPS = 1_000_000
"""Nodes evaluated, items gone through, and pieces of text looked at: about a second."""
MAX_DEPTH = 250
"""Evaluations within one another, which are two Python frames each."""
MAX_ROOM = 16 << 20
"""Characters of the texts that are made, with what they and items cost besides."""
ROOM_PER_CHARACTER = 4
"""Room that every character of the conversation adds."""
MAX_WRITTEN = 4 << 20
"""Characters that may be written, and twice those of the conversation."""
OBJECT_ROOM = 32
ITEM_ROOM = 16
TURN_STEPS = 4
"""What a turn of a loop costs, besides what is done in it."""
MAX_INTEGER = (1 << 53) - 1
"""The largest whole number: what both languages count exactly."""

_LOOKED_AT = 6
"""Of so many characters, as a power of two, a step is charged for looking at them."""
_NEEDLE = 8

Value = object
"""None, bool, int, float, str, list, tuple, dict, or a class of `values`."""


ANode = TypeVar("ANode")


class TemplateError(Exception):
    """What is wrong with a template or what it does, in words."""


class TemplateLimitError(TemplateError):
    """A template asks for more than it may have."""


class Flow(Enum):
    """How a statement ends."""

    NEXT = auto()
    BREAK = auto()
    CONTINUE = auto()


@dataclass(slots=True)
class Scope:
    """Names and their values, and where other names are looked up."""

    parent: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)


@dataclass_transform(eq_default=False)
def a_node(cls: type[ANode]) -> type[ANode]:
    """Make a dataclass of a node, without what none needs: half of what an import takes."""
    return dataclass(eq=False, repr=False, match_args=False, slots=True)(cls)


class Expression(Protocol):
    def value(self, run: Run, scope: Scope) -> Value: ...


class Statement(Protocol):
    def execute(self, run: Run, scope: Scope, out: Output) -> Flow: ...


class Output:
    """The text that is being written."""

    __slots__ = ("_left", "_pieces")

    def __init__(self, limit: int) -> None:
        self._pieces: list[str] = []
        self._left = limit

    def write(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise TemplateLimitError("it writes more than any prompt needs")
        self._pieces.append(text)

    def text(self) -> str:
        return "".join(self._pieces)


class Run:
    """The state of one rendering.

    Args:
        now: what `strftime_now` reads.
        given: characters of the conversation, by which the limits grow.
    """

    __slots__ = ("_depth", "_room", "_steps", "now", "writable")

    def __init__(self, now: datetime, given: int) -> None:
        self.now = now
        self.writable = MAX_WRITTEN + 2 * given
        self._steps = MAX_STEPS
        self._room = MAX_ROOM + ROOM_PER_CHARACTER * given
        self._depth = 0

    def evaluate(self, node: Expression, scope: Scope) -> Value:
        self._enter()
        value = node.value(self, scope)
        self._depth -= 1  # whatever is raised ends the run
        return value

    def execute(self, body: Sequence[Statement], scope: Scope, out: Output) -> Flow:
        self._enter()
        flow = Flow.NEXT
        for statement in body:
            self.spend(1)
            flow = statement.execute(self, scope, out)
            if flow is not Flow.NEXT:
                break
        self._depth -= 1
        return flow

    def captured(self, body: Sequence[Statement], scope: Scope) -> str:
        """Return what statements write."""
        out = Output(self.writable)
        self.execute(body, scope, out)
        return self.made(out.text())

    def inner(self, scope: Scope) -> Scope:
        self.make(0)
        return Scope(scope)

    def spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise TemplateLimitError(f"it takes more than {MAX_STEPS:,} steps")

    def make(self, characters: int) -> None:
        """Charge a text that is about to be made."""
        self._room -= characters + OBJECT_ROOM
        if self._room < 0:
            raise TemplateLimitError("it makes more text than any prompt needs")

    def made(self, text: str) -> str:
        """Charge a text that is at most a few times as long as those it was made of."""
        self.make(len(text))
        return text

    def items(self, count: int) -> None:
        """Charge a list that is about to be made, or to be gone through."""
        self.spend(count)
        self.make(ITEM_ROOM * count)

    def look(self, characters: int, needle: int = 0) -> None:
        """Charge looking at a text, for another one."""
        self.spend(1 + (characters >> _LOOKED_AT) * (1 + (needle >> _NEEDLE)))

    def _enter(self) -> None:
        self._steps -= 1
        self._depth += 1
        if self._depth > MAX_DEPTH or self._steps < 0:
            raise TemplateLimitError(
                f"it nests more than {MAX_DEPTH} deep"
                if self._steps >= 0
                else f"it takes more than {MAX_STEPS:,} steps"
            )
