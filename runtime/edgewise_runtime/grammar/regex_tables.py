"""What escapes and groups of regular expressions mean, and which of them are refused, by name."""

from __future__ import annotations

from typing import NamedTuple

from edgewise_runtime.grammar.ranges import Ranges, characters, others, ranges_of


class Class(NamedTuple):
    """What is in a class by both languages, and what is by one of them."""

    sure: Ranges
    perhaps: Ranges

    def negated(self) -> Class:
        return Class(others(self.perhaps), others(self.sure))


def same(ranges: Ranges) -> Class:
    return Class(ranges, ranges)


_DIGITS = same(ranges_of([(0x30, 0x39)]))
_WORD = same(ranges_of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]))
_SPACE = Class(
    characters("\t\n\v\f\r "),
    ranges_of(
        [
            *((9, 13), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
            *((0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F)),
            *((0x3000, 0x3000), (0xFEFF, 0xFEFF)),
        ]
    ),
)
CLASSES = {
    "d": _DIGITS,
    "D": _DIGITS.negated(),
    "w": _WORD,
    "W": _WORD.negated(),
    "s": _SPACE,
    "S": _SPACE.negated(),
}
DOT = others(characters("\n\r\u2028\u2029"))
CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
PUNCTUATION = frozenset(" !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

REFUSED_ESCAPES = {
    "b": "a word boundary (\\b)",
    "B": "what is no word boundary (\\B)",
    "A": "an anchor (\\A) that only some languages have",
    "Z": "an anchor (\\Z) that only some languages have",
    "z": "an anchor (\\z) that only some languages have",
    "p": "a property of Unicode's (\\p)",
    "P": "a property of Unicode's (\\P)",
    "k": "a back-reference (\\k)",
    **{digit: f"a back-reference (\\{digit})" for digit in "123456789"},
}
GROUPS = (
    ("?:", None),
    ("?=", "a look-ahead"),
    ("?!", "a look-ahead"),
    ("?<=", "a look-behind"),
    ("?<!", "a look-behind"),
    ("?>", "an atomic group"),
    ("?#", "a comment"),
    ("?(", "a condition"),
    ("?P=", "a back-reference"),
    ("?P>", "a group called by its name"),
    ("?&", "a group called by its name"),
    ("?P<", "name"),
    ("?<", "name"),
    ("?", "an inline flag"),
)
"""How groups begin, the longer ones first where one begins another; what is refused, by name."""
