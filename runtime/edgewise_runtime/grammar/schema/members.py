"""What comes in a row, each perhaps missing, with commas between."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.grammar.nodes import Choice, Node, Repeat, Sequence
from edgewise_runtime.grammar.schema.anything import COMMA, optional
from edgewise_runtime.grammar.schema.context import Context


@dataclass(frozen=True, slots=True)
class Member:
    """What is written, and whether it has to be there."""

    node: Node
    required: bool


def in_a_row(
    context: Context, members: list[Member], other: Node | None, room: int | None
) -> Node | None:
    """At least one member, in their order, then up to `room` of some other ones, commas between;
    None where there is none."""
    more: Node = Sequence(())
    if other is not None:
        more = Repeat(Sequence((COMMA, other)), 0, room)
    at = next((i for i, member in enumerate(members) if member.required), None)
    if at is not None:
        before = [optional(Sequence((member.node, COMMA))) for member in members[:at]]
        after = [_following(member) for member in members[at + 1 :]]
        return Sequence((*before, members[at].node, *after, more))
    choices: list[Node] = []
    if other is not None:
        fewer = Repeat(Sequence((COMMA, other)), 0, None if room is None else room - 1)
        choices.append(Sequence((other, fewer)))
    for member in reversed(members):
        choices.insert(0, Sequence((member.node, more)))
        more = context.shared(Sequence((_following(member), more)))
    return Choice(tuple(choices)) if choices else None


def _following(member: Member) -> Node:
    node = Sequence((COMMA, member.node))
    return node if member.required else optional(node)
