"""Names that are none of some others."""

from __future__ import annotations

from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Sequence
from edgewise_runtime.grammar.ranges import characters, others
from edgewise_runtime.grammar.schema.anything import CHARACTER, QUOTE
from edgewise_runtime.grammar.schema.context import Context

MOST = 40
"""Characters of a name that are told apart: names that begin alike up to here are not written."""
_REST = Repeat(CHARACTER, 0, None)


def other_name(context: Context, names: list[str]) -> Node:
    """A name in quotes that is none of the names: one that leaves them at some character, or ends
    within one."""
    return Sequence((QUOTE, _beside(context, names, 0), QUOTE))


def _beside(context: Context, names: list[str], at: int) -> Node:
    """What comes after the first `at` characters, which are those of all the names."""
    following: dict[str, list[str]] = {}
    for name in names:
        if len(name) > at:
            following.setdefault(name[at], []).append(name)
    choices: list[Node] = [] if any(len(name) == at for name in names) else [Sequence(())]
    free = others(characters("".join(following)))
    choices.append(Sequence((json_escape(free), _REST)))
    for character, some in following.items() if at < MOST else ():
        start = json_escape(characters(character))
        choices.append(Sequence((start, _beside(context, some, at + 1))))
    return context.shared(Choice(tuple(choices)))
