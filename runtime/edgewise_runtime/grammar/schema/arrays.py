"""Arrays of a schema."""

from __future__ import annotations

from edgewise_runtime.grammar.nodes import Literal, Node, Repeat, Sequence
from edgewise_runtime.grammar.schema.admitting import named_values
from edgewise_runtime.grammar.schema.anything import COMMA, optional
from edgewise_runtime.grammar.schema.context import Context
from edgewise_runtime.grammar.schema.document import Place
from edgewise_runtime.grammar.schema.members import Member, in_a_row
from edgewise_runtime.grammar.schema.shape import Atoms, Shape, expanded, whole
from edgewise_runtime.grammar.schema.values import spelled

MAX_LEAST = 100_000
"""What may be asked for at least; what is allowed at most is no more than this, either."""


def array_node(context: Context, shape: Shape) -> Node | None:
    """Arrays under a shape; None where there are none.

    What comes after `prefixItems` is written only where `items` says what it is, or where
    `minItems` asks for it.
    """
    least = max(shape.counts("minItems"), default=0)
    most = min(shape.counts("maxItems"), default=None)
    if least > MAX_LEAST:
        raise shape.refused(f"minItems {least:,}, which is above {MAX_LEAST:,},")
    first, rest = _items(shape)
    if not first and not least and not shape.has("items", "maxItems", "uniqueItems"):
        return context.anything("array")
    if most is None and first and not rest and not shape.has("items", "additionalItems"):
        most = max(least, len(first))
    if most is not None and most < least:
        return None
    if (most is None or most > 1) and any(
        value is not False for _, value in shape.said("uniqueItems")
    ):
        return _different(context, shape, () if first else rest, least, most)
    return _written(context, first, rest, least, most)


def _different(
    context: Context, shape: Shape, items: Atoms, least: int, most: int | None
) -> Node | None:
    """Some of the values that items are named by, in their order."""
    atoms = expanded(context.document, items)
    named = Shape(context.document, tuple(atom.place for atom in atoms or ()))
    values = None if any(atom.part != "own" for atom in atoms or ()) else named_values(named)
    if values is None or 1 < least < len(values) or (most is not None and most < len(values)):
        raise shape.refused("uniqueItems of other than any number of values that are named")
    if least > len(values):
        return None
    members = [Member(Literal(spelled(value)), least > 1) for value in values]
    inner = in_a_row(context, members, None, None)
    if inner is None:
        return Literal("[]")
    return Sequence((Literal("["), inner if least else optional(inner), Literal("]")))


def _items(shape: Shape) -> tuple[list[Atoms], Atoms]:
    """The schemas of each of the first items, and of all that come after them."""
    lists: list[tuple[list[Place], list[Place]]] = []
    for place in shape.places:
        fields = shape.document.fields(place)
        prefix, after = "prefixItems", "items"
        if isinstance(fields.get("items"), list):
            prefix, after = "items", "additionalItems"
        first = shape.document.places(place, prefix) if prefix in fields else []
        lists.append((first, [shape.document.below(place, after)] if after in fields else []))
    length = max((len(first) for first, _ in lists), default=0)
    items = [
        whole(*(each for first, rest in lists for each in (first[i : i + 1] or rest)))
        for i in range(length)
    ]
    return items, whole(*(each for _, rest in lists for each in rest))


def _written(
    context: Context, first: list[Atoms], rest: Atoms, least: int, most: int | None
) -> Node | None:
    """Items with commas between them. From the last on, what follows each is put behind it."""
    count = len(first) if most is None else min(len(first), most)
    nodes = [context.lower(atoms) for atoms in first[:count]]
    room = None if most is None else min(most, MAX_LEAST) - count
    tail: Node = Sequence(())
    if room is None or room > 0:
        item = context.lower(rest)
        again = max(0, least - count)
        if item is None and again:
            return None
        if item is not None and count:
            tail = Repeat(Sequence((COMMA, item)), again, room)
        elif item is not None:
            more = Repeat(Sequence((COMMA, item)), max(0, again - 1), _less(room))
            tail = Sequence((item, more))
            tail = tail if least else optional(tail)
    for i in range(count - 1, least - 1, -1):
        node = nodes[i]
        if node is None:
            tail = Sequence(())
        else:
            tail = context.shared(optional(Sequence((COMMA, node, tail) if i else (node, tail))))
    fixed: list[Node] = []
    for node in nodes[:least]:
        if node is None:
            return None
        fixed += [COMMA, node] if fixed else [node]
    return Sequence((Literal("["), *fixed, tail, Literal("]")))


def _less(count: int | None) -> int | None:
    return None if count is None else count - 1
