"""Any text up to a mark."""

from __future__ import annotations

from edgewise_runtime.grammar.escapes import plain
from edgewise_runtime.grammar.nodes import Choice, Literal, Node, Rule, Sequence
from edgewise_runtime.grammar.ranges import characters, others


def until(mark: str, rules: dict[str, Node], prefix: str) -> Node:
    """Return a node of all texts that end with a mark and have it nowhere before.

    That is the automaton of Knuth, Morris and Pratt: a rule for each beginning of the mark that the
    text so far may end with.

    Args:
        mark: one or more characters.
        rules: those that are needed are added, under names with the prefix.
    """

    def after(begun: str) -> Node:
        ending = next(size for size in range(len(mark), -1, -1) if begun.endswith(mark[:size]))
        return Sequence(()) if ending == len(mark) else Rule(f"{prefix}{ending}")

    for size in range(len(mark)):
        known = sorted(set(mark))
        choices: list[Node] = [
            Sequence((Literal(character), after(mark[:size] + character))) for character in known
        ]
        choices.append(Sequence((plain(others(characters("".join(known)))), Rule(f"{prefix}0"))))
        rules[f"{prefix}{size}"] = Choice(tuple(choices))
    return Rule(f"{prefix}0")
