"""Strings of a schema."""

from __future__ import annotations

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Node, Repeat, Sequence
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.schema.anything import CHARACTER, QUOTE
from edgewise_runtime.grammar.schema.arrays import MAX_LEAST
from edgewise_runtime.grammar.schema.context import Context
from edgewise_runtime.grammar.schema.formats import FORMATS
from edgewise_runtime.grammar.schema.keywords import REFUSED_FORMATS
from edgewise_runtime.grammar.schema.lengths import (
    in_json,
    lengthened,
    limited,
    longest,
    shortest,
)
from edgewise_runtime.grammar.schema.shape import Shape


def string_node(context: Context, shape: Shape) -> Node | None:
    """Strings under a shape; None where there are none."""
    least = max(shape.counts("minLength"), default=0)
    most = min(shape.counts("maxLength"), default=None)
    if least > MAX_LEAST:
        raise shape.refused(f"minLength {least:,}, which is above {MAX_LEAST:,},")
    if most is not None and most < least:
        return None
    patterns = shape.texts("pattern")
    for name in shape.texts("format"):
        if name in REFUSED_FORMATS:
            raise shape.refused(f"the format {shorten(name)}")
        patterns += [FORMATS[name]] if name in FORMATS else []
    if len(patterns) > 1:
        raise shape.refused("more than one pattern or format of the same string")
    if patterns:
        return _of_pattern(shape, patterns[0], least, most)
    if not least and most is None:
        return context.anything("string")
    most = None if most is None else min(most, MAX_LEAST)
    return Sequence((QUOTE, Repeat(CHARACTER, least, most), QUOTE))


def pattern_node(shape: Shape, pattern: str) -> Node:
    """What an expression is found in, as it is written in a string."""
    try:
        return lower_regex(pattern, where="within", escape=json_escape)
    except UnsupportedError as error:
        raise shape.refused(f"a pattern: {error.message} It") from error
    except InputError as error:
        raise shape.document.wrong(shape.place, error.message) from error


def _of_pattern(shape: Shape, pattern: str, least: int, most: int | None) -> Node | None:
    if not least and most is None:
        return Sequence((QUOTE, pattern_node(shape, pattern), QUOTE))
    pattern_node(shape, pattern)
    node = lower_regex(pattern, where="within")
    if isinstance(node, Repeat) and shortest(node.item) == longest(node.item) == 1:
        least = max(least, node.least)
        most = _smaller(most, node.most)
        if most is not None and most < least:
            return None
        return Sequence((QUOTE, in_json(Repeat(node.item, least, most)), QUOTE))
    fitting = lengthened(node, least)
    if fitting is not None and most is not None:
        fitting = limited(fitting, most)
    if fitting is None:
        raise shape.refused("a length beside a pattern or a format that allows others")
    return Sequence((QUOTE, in_json(fitting), QUOTE))


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
