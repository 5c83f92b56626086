"""Objects of a schema."""

from __future__ import annotations

from edgewise_runtime.grammar.nodes import Choice, Literal, Node, Sequence
from edgewise_runtime.grammar.schema.admitting import admits, named_values
from edgewise_runtime.grammar.schema.anything import COLON, QUOTE, optional
from edgewise_runtime.grammar.schema.arrays import MAX_LEAST
from edgewise_runtime.grammar.schema.context import Context
from edgewise_runtime.grammar.schema.document import Place
from edgewise_runtime.grammar.schema.keywords import OF_TYPE
from edgewise_runtime.grammar.schema.members import Member, in_a_row
from edgewise_runtime.grammar.schema.names import other_name
from edgewise_runtime.grammar.schema.shape import Atoms, Shape, expanded, whole
from edgewise_runtime.grammar.schema.strings import pattern_node, string_node
from edgewise_runtime.grammar.schema.values import quoted


def object_node(context: Context, shape: Shape) -> Node | None:
    """Objects under a shape; None where there are none.

    Names come in the order of `properties`, then those that only `required` has; then, where
    `additionalProperties` is said, or no `properties` are, any number of others.
    """
    required = required_names(shape)
    names = known_names(shape)
    if names and _patterns(shape):
        raise shape.refused("patternProperties beside names that are known")
    if not required and not shape.has(*OF_TYPE["object"] - {"required"}):
        return context.anything("object")
    needed = set(required)
    members: list[Member] = []
    for name in names:
        node = context.lower(property_atoms(shape, name))
        if node is None or not _may_be_called(context, shape, name):
            if name in needed:
                return None
            continue
        start = Literal(quoted(name) + ": ")
        members.append(Member(Sequence((start, node)), name in needed))
    return _counted(context, shape, members, _other(context, shape, names))


def known_names(shape: Shape) -> list[str]:
    """The names of `properties`, and of `required`."""
    places = [place for place, _ in shape.said("properties")]
    said = [name for place in places for name in shape.document.names(place, "properties")]
    return list(dict.fromkeys([*said, *required_names(shape)]))


def required_names(shape: Shape) -> list[str]:
    found: list[str] = []
    for place, value in shape.said("required"):
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise shape.document.wrong(place, "required is no list of names")
        found += value
    return list(dict.fromkeys(found))


def property_atoms(shape: Shape, name: str) -> Atoms:
    """What the value of a name has to hold: of each schema what it says of the name, else of names
    that it does not have."""
    document = shape.document
    found: list[int] = []
    for place in shape.places:
        fields = document.fields(place)
        if "properties" in fields:
            properties = document.below(place, "properties")
            if name in document.fields(properties):
                found.append(document.below(properties, name))
                continue
        if "additionalProperties" in fields:
            found.append(document.below(place, "additionalProperties"))
    return whole(*found)


def _may_be_called(context: Context, shape: Shape, name: str) -> bool:
    names = _names_of(context, shape)
    if names is None:
        return False
    values = named_values(names)
    return admits(names, name) if values is None else name in values


def _names_of(context: Context, shape: Shape) -> Shape | None:
    """What names have to hold; None where none does."""
    atoms = expanded(context.document, _called(shape))
    if atoms is None:
        return None
    if any(atom.part != "own" for atom in atoms):
        raise shape.refused("propertyNames that are one of several schemas")
    return Shape(context.document, tuple(atom.place for atom in atoms))


def _called(shape: Shape) -> Atoms:
    below = shape.document.below
    return whole(*(below(place, "propertyNames") for place, _ in shape.said("propertyNames")))


def _patterns(shape: Shape) -> list[tuple[Place, str]]:
    below = shape.document.below
    places = [below(place, "patternProperties") for place, _ in shape.said("patternProperties")]
    return [(place, pattern) for place in places for pattern in shape.document.fields(place)]


def _other(context: Context, shape: Shape, names: list[str]) -> Node | None:
    """A member of another name; None where none are written."""
    patterns = _patterns(shape)
    if patterns:
        return _of_pattern(context, shape, patterns)
    said = shape.has("additionalProperties")
    if not said and shape.has("properties"):
        return None
    below = shape.document.below
    places = (
        below(place, "additionalProperties") for place, _ in shape.said("additionalProperties")
    )
    node = context.lower(whole(*places))
    key: Node | None
    if not shape.has("propertyNames"):
        key = other_name(context, names) if names else context.anything("string")
    elif names and node is not None:
        raise shape.refused("propertyNames beside known names and others")
    else:
        key = _key(context, shape)
    if node is None or key is None:
        return None
    return context.shared(Sequence((key, COLON, node)))


def _key(context: Context, shape: Shape) -> Node | None:
    names = _names_of(context, shape)
    if names is None:
        return None
    values = named_values(names)
    if values is not None:
        texts = tuple(Literal(quoted(value)) for value in values if isinstance(value, str))
        return Choice(texts) if texts else None
    types = names.types()
    return string_node(context, names) if types is None or "string" in types else None


def _of_pattern(context: Context, shape: Shape, patterns: list[tuple[Place, str]]) -> Node | None:
    if len(patterns) > 1:
        raise shape.refused("more than one pattern of patternProperties")
    if shape.has("propertyNames"):
        raise shape.refused("propertyNames beside patternProperties")
    [(at, pattern)] = patterns
    below = shape.document.below
    others = (
        below(place, "additionalProperties")
        for place, _ in shape.said("additionalProperties")
        if shape.document.fields(place).get("patternProperties") is not shape.document.held(at)
    )
    node = context.lower(whole(below(at, pattern), *others))
    if node is None:
        return None
    name = pattern_node(shape, pattern)
    return context.shared(Sequence((QUOTE, name, QUOTE, COLON, node)))


def _counted(
    context: Context, shape: Shape, members: list[Member], other: Node | None
) -> Node | None:
    """The members within what `minProperties` and `maxProperties` say of their number.

    Other names may be the same as one another, so that no more than one of them is sure.
    """
    least = max(shape.counts("minProperties"), default=0)
    most = min(shape.counts("maxProperties"), default=None)
    needed = sum(member.required for member in members)
    if (most is not None and most < max(needed, least)) or (other is None and least > len(members)):
        return None
    if least > needed and least > 1:
        raise shape.refused(f"minProperties {least:,} beside fewer names that are required")
    room = None if most is None else min(most, MAX_LEAST) - len(members)
    if room is not None and room < 0:
        raise shape.refused("maxProperties beside more names")
    inner = in_a_row(context, members, other if room != 0 else None, room)
    if inner is None:
        return None if least else Literal("{}")
    if least == 0 and needed == 0:
        inner = optional(inner)
    return Sequence((Literal("{"), inner, Literal("}")))
