"""Whether no two of several schemas hold of what is written, as `oneOf` asks."""

from __future__ import annotations

from edgewise_runtime.grammar.schema.admitting import admits, named_values
from edgewise_runtime.grammar.schema.document import Document
from edgewise_runtime.grammar.schema.keywords import TYPES
from edgewise_runtime.grammar.schema.objects import known_names, property_atoms, required_names
from edgewise_runtime.grammar.schema.shape import Atom, Atoms, Shape, expanded, whole
from edgewise_runtime.grammar.schema.values import spelled

MAX_BRANCHES = 200
_DEPTH = 4
"""How deep in properties a difference is looked for."""


def exclusive(document: Document, group: Atom, branches: list[Atoms]) -> list[Atoms]:
    """The branches, where no text that is written for one is valid under another.

    Raises:
        UnsupportedError: ``unsupported.schema`` where that cannot be shown by types, by values that
            are named, by bounds of numbers, or by properties that are always or never written.
    """
    if len(branches) > MAX_BRANCHES:
        raise document.refused(group.place, f"oneOf of more than {MAX_BRANCHES} schemas")
    for one in branches:
        for other in branches:
            if one is not other and not never(document, one, other, _DEPTH):
                raise document.refused(group.place, "oneOf of schemas that may hold together")
    return branches


def never(document: Document, one: Atoms, other: Atoms, depth: int) -> bool:
    """Whether it can be shown that what is written for one is not valid under the other."""
    left, right = expanded(document, one), expanded(document, other)
    if left is None or right is None:
        return True
    for atoms in (left, right):
        group = next((atom for atom in atoms if atom.part != "own"), None)
        if group is None:
            continue
        rest = tuple(atom for atom in atoms if atom != group)
        places = document.places(group.place, group.part)
        each = [(*rest, *whole(place)) for place in places]
        return depth > 0 and all(
            never(document, some, right, depth - 1)
            if atoms is left
            else never(document, left, some, depth - 1)
            for some in each
        )
    return _never(_shape(document, left), _shape(document, right), depth)


def _shape(document: Document, atoms: Atoms) -> Shape:
    return Shape(document, tuple(atom.place for atom in atoms))


def _never(one: Shape, other: Shape, depth: int) -> bool:
    mine, its = named_values(one), named_values(other)
    if mine is not None and its is not None:
        known = {spelled(value, ordered=True) for value in its}
        return not any(spelled(value, ordered=True) in known for value in mine)
    if mine is not None:
        return not any(admits(other, value) for value in mine)
    if its is not None:
        return not any(admits(one, value) for value in its)
    types = other.types()
    common = _with_integers(one.written_types()) & _with_integers(TYPES if types is None else types)
    return all(
        (kind in ("integer", "number") and (_above(one, other) or _above(other, one)))
        or (kind == "object" and depth > 0 and _objects_never(one, other, depth))
        for kind in common
    )


def _with_integers(types: tuple[str, ...]) -> set[str]:
    return {*types, *(["integer"] if "number" in types else [])}


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


def _objects_never(one: Shape, other: Shape, depth: int) -> bool:
    """Whether the other needs a property that is not written for one, or has one otherwise that is
    always written."""
    if one.has("patternProperties") or other.has("patternProperties"):
        return False
    return any(not _writes(one, name) for name in required_names(other)) or any(
        never(one.document, property_atoms(one, name), property_atoms(other, name), depth - 1)
        for name in required_names(one)
    )


def _writes(shape: Shape, name: str) -> bool:
    if expanded(shape.document, property_atoms(shape, name)) is None:
        return False
    if shape.has("additionalProperties") or not shape.has("properties"):
        return True
    return name in known_names(shape)
