"""Where a thought stands in an answer that is held to something."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.calls import Format
from edgewise_runtime.grammar.nodes import (
    Chars,
    Choice,
    Grammar,
    Literal,
    Node,
    Repeat,
    Rule,
    Sequence,
)
from edgewise_runtime.grammar.ranges import characters
from edgewise_runtime.grammar.until import until

_MOST_SPACE = 4
"""Characters of white space that may stand between a thought and the answer."""


@dataclass(frozen=True)
class Thinking:
    """How an answer's thought is written, if there may be one.

    Attributes:
        open, close: what it stands between.
        shown: special tokens that are part of these texts may come.
        may: the answer may begin with a thought.
        opened: it has begun with one, in the prompt.
        straight: what stands before an answer without a thought.
        between: what stands between a thought's end and the answer.
    """

    open: str
    close: str
    shown: tuple[str, ...] = ()
    may: bool = False
    opened: bool = False
    straight: str = ""
    between: str = ""

    @property
    def closing(self) -> str:
        """What ends a thought that is too long."""
        return f"{self.close}{self.between}" if self.between else f"\n{self.close}\n\n"

    def before(self, answer: Grammar) -> Grammar:
        """A grammar of answers, with the thoughts that may come before them."""
        rules = dict(answer.rules)
        said: Node = Rule(answer.root)
        root: Node = _sequence(self.straight, said)
        if self.may or self.opened:
            space = Repeat(Chars(characters(" \n")), 0, _MOST_SPACE)
            thought = until(self.close, rules, "thought:")
            behind = _sequence(self.between, said) if self.between else Sequence((space, said))
            thinking = Sequence((thought, behind))
            root = thinking if self.opened else Choice((_sequence(self.open, thinking), root))
        rules["answer:"] = root
        return Grammar(rules, "answer:")


def thinking_of(form: Format, *, shown: tuple[str, ...], may: bool, opened: bool) -> Thinking:
    """How answers in a format think.

    Args:
        shown: special tokens that are part of these texts are read.
        may: the model may think.
        opened: the prompt has begun a thought.
    """
    if form.thoughts:
        begin, end = form.thoughts[0]
        return Thinking(begin, end, shown, may, opened)
    header, final = "<|start|>assistant", "<|channel|>final<|message|>"
    return Thinking(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        shown,
        may,
        straight=final,
        between=header + final,
    )


def _sequence(text: str, node: Node) -> Node:
    return Sequence((Literal(text), node)) if text else node
