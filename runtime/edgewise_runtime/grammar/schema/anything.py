"""Values that nothing is said of, as JSON has them on one line."""

from __future__ import annotations

from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Rule, Sequence
from edgewise_runtime.grammar.ranges import EVERY

QUOTE = Literal('"')
COMMA = Literal(", ")
COLON = Literal(": ")
DIGIT = Chars(((48, 57),))
CHARACTER = json_escape(EVERY)
WHOLE_DIGITS = 15
"""Digits of an integer: all of these are the same where numbers are read as doubles."""

_SIGN = Repeat(Literal("-"), 0, 1)
_WHOLE = Choice((Literal("0"), Sequence((Chars(((49, 57),)), Repeat(DIGIT, 0, WHOLE_DIGITS - 1)))))
_FRACTION = Repeat(Sequence((Literal("."), Repeat(DIGIT, 1, WHOLE_DIGITS))), 0, 1)
_EXPONENT = Repeat(
    Sequence((Literal("e"), Chars(((43, 43), (45, 45))), Chars(((49, 57),)), Repeat(DIGIT, 0, 1))),
    0,
    1,
)


def optional(node: Node) -> Node:
    return Repeat(node, 0, 1)


def listed(opening: str, item: Node, closing: str) -> Node:
    """Any number of items between two signs."""
    more = Repeat(Sequence((COMMA, item)), 0, None)
    return Sequence((Literal(opening), optional(Sequence((item, more))), Literal(closing)))


STRING = Sequence((QUOTE, Repeat(CHARACTER, 0, None), QUOTE))
ANYTHING: dict[str, Node] = {
    "value": Choice(
        (
            Literal("null"),
            Literal("true"),
            Literal("false"),
            Rule("number"),
            Rule("string"),
            Rule("array"),
            Rule("object"),
        )
    ),
    "number": Sequence((_SIGN, _WHOLE, _FRACTION, _EXPONENT)),
    "string": STRING,
    "array": listed("[", Rule("value"), "]"),
    "object": listed("{", Sequence((Rule("string"), COLON, Rule("value"))), "}"),
}
"""The rules of any value."""
