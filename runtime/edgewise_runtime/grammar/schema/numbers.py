"""Integers and numbers of a schema.

A number is written in decimals. Whoever reads it as a double sees it on the same side of a bound as
whoever reads it exactly: rounding keeps the order, and beside a bound that is excluded no number is
written that is nearer to it than one digit in fifteen.
"""

from __future__ import annotations

from math import lcm

from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.nodes import Node
from edgewise_runtime.grammar.schema.context import Context
from edgewise_runtime.grammar.schema.digits import LAST, PLACES, UNIT, decimals, integers, signed
from edgewise_runtime.grammar.schema.multiples import multiples
from edgewise_runtime.grammar.schema.shape import Shape
from edgewise_runtime.grammar.schema.values import SAFE, scaled

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def integer_node(context: Context, shape: Shape) -> Node | None:
    """Integers under a shape, of at most 15 digits; None where there are none."""
    first = [scaled(each, 0, up=True) for each in shape.numbers("minimum")]
    first += [scaled(each, 0, up=False) + 1 for each in shape.numbers("exclusiveMinimum")]
    last = [scaled(each, 0, up=False) for each in shape.numbers("maximum")]
    last += [scaled(each, 0, up=True) - 1 for each in shape.numbers("exclusiveMaximum")]
    step = _step(shape)
    if step > 1:
        return multiples(context, shape, max([*first, -LAST]), min([*last, LAST]), step)
    return signed(max([*first, -LAST]), min([*last, LAST]), integers)


def number_node(context: Context, shape: Shape) -> Node | None:
    """Numbers under a shape: decimals of 15 digits before and after the point, with an exponent
    only where there are no bounds; None where there are none."""
    if shape.has("multipleOf"):
        return integer_node(context, shape)
    if not shape.has(*_BOUNDS):
        return context.anything("number")
    most = LAST * UNIT + UNIT - 1
    first = [scaled(each, PLACES, up=True) for each in shape.numbers("minimum")]
    first += [_above(each) for each in shape.numbers("exclusiveMinimum")]
    last = [scaled(each, PLACES, up=False) for each in shape.numbers("maximum")]
    last += [-_above(-each) for each in shape.numbers("exclusiveMaximum")]
    return signed(max([*first, -most]), min([*last, most]), decimals)


def _above(value: int | float) -> int:
    """The decimal above a number, in units of the last place, of as many places as leave it apart
    when both are read as doubles."""
    whole = abs(scaled(value, 0, up=value < 0))
    places = max(0, PLACES - len(str(whole))) if whole else PLACES
    unit: int = 10 ** (PLACES - places)
    return (scaled(value, places, up=False) + 1) * unit


def _step(shape: Shape) -> int:
    """What all numbers are a multiple of; 1 where nothing is said."""
    steps = shape.numbers("multipleOf")
    for each in steps:
        if each <= 0:
            raise shape.document.wrong(shape.place, f"multipleOf {shorten(each)} is not above 0")
        if each != int(each) or each > SAFE:
            raise shape.refused(f"multipleOf {shorten(each)}, which is no integer of 53 bits,")
    return lcm(*map(int, steps))
