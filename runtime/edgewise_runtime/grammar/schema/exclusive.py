"""Whether of several schemas no two hold of the same value, as `oneOf` asks."""

from __future__ import annotations

from edgewise_runtime.grammar.schema.admitting import admits, named_values
from edgewise_runtime.grammar.schema.document import Document
from edgewise_runtime.grammar.schema.keywords import TYPES
from edgewise_runtime.grammar.schema.objects import property_atoms, required_names
from edgewise_runtime.grammar.schema.shape import Atom, Atoms, Shape, expanded
from edgewise_runtime.grammar.schema.values import spelled

MAX_BRANCHES = 200
_DEPTH = 4
"""How deep in properties a difference is looked for."""


def exclusive(document: Document, group: Atom, branches: list[Atoms]) -> list[Atoms]:
    """The branches, of which no two hold together.

    Raises:
        UnsupportedError: ``unsupported.schema`` where that cannot be shown by types, by values that
            are named, by bounds of numbers, or by a property that both of two objects need.
    """
    if len(branches) > MAX_BRANCHES:
        raise document.refused(group.place, f"oneOf of more than {MAX_BRANCHES} schemas")
    for i, one in enumerate(branches):
        for other in branches[:i]:
            if not apart(document, one, other, _DEPTH):
                raise document.refused(group.place, "oneOf of schemas that may hold together")
    return branches


def apart(document: Document, one: Atoms, other: Atoms, depth: int) -> bool:
    """Whether it can be shown that no value is under both."""
    left, right = expanded(document, one), expanded(document, other)
    if left is None or right is None:
        return True
    for mine, its in ((left, other), (right, one)):
        group = next((atom for atom in mine if atom.part != "own"), None)
        if group is not None:
            rest = tuple(atom for atom in mine if atom.part == "own")
            places = document.places(group.place, group.part)
            each = ((*rest, Atom("all", place)) for place in places)
            return depth > 0 and all(apart(document, some, its, depth - 1) for some in each)
    return _apart(_shape(document, left), _shape(document, right), depth)


def _shape(document: Document, atoms: Atoms) -> Shape:
    return Shape(document, tuple(atom.place for atom in atoms))


def _apart(one: Shape, other: Shape, depth: int) -> bool:
    mine, its = named_values(one), named_values(other)
    if mine is not None and its is not None:
        known = {spelled(value, ordered=True) for value in its}
        return not any(spelled(value, ordered=True) in known for value in mine)
    if mine is not None:
        return not any(admits(other, value) for value in mine)
    if its is not None:
        return not any(admits(one, value) for value in its)
    common = _types(one) & _types(other)
    return all(
        (kind in ("integer", "number") and _bounds_apart(one, other))
        or (kind == "object" and depth > 0 and _objects_apart(one, other, depth))
        for kind in common
    )


def _types(shape: Shape) -> set[str]:
    types = shape.types()
    found = set(TYPES if types is None else types)
    return found | {"integer"} if "number" in found else found


def _bounds_apart(one: Shape, other: Shape) -> bool:
    return _above(one, other) or _above(other, one)


def _above(one: Shape, other: Shape) -> bool:
    """Whether all numbers of one are above those of the other."""
    least, most = one.numbers("minimum"), other.numbers("maximum")
    beyond, below = one.numbers("exclusiveMinimum"), other.numbers("exclusiveMaximum")
    return any(low > high for low in least for high in most) or any(
        low >= high
        for lows, highs in ((beyond, most), (least, below), (beyond, below))
        for low in lows
        for high in highs
    )


def _objects_apart(one: Shape, other: Shape, depth: int) -> bool:
    """Whether objects differ in a property that one needs, and the other needs or does not have."""
    if one.has("patternProperties") or other.has("patternProperties"):
        return False
    mine, its = required_names(one), required_names(other)
    for name in dict.fromkeys([*mine, *its]):
        left, right = property_atoms(one, name), property_atoms(other, name)
        both = name in mine and name in its
        absent = expanded(one.document, right if name in mine else left) is None
        if absent or (both and apart(one.document, left, right, depth - 1)):
            return True
    return False
