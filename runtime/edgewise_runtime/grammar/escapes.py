"""How a text's characters are spelled where a grammar writes them: as they are, or in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Sequence
from edgewise_runtime.grammar.ranges import Ranges, characters, common, others, ranges_of

Escape: TypeAlias = Callable[[Ranges], Node]
"""What stands for one character out of a set that is not empty."""

_SHORT = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_CONTROLS = ranges_of([(0, 0x1F)])
_ESCAPED = ranges_of([*_CONTROLS, *characters("".join(_SHORT))])
_UNESCAPED = others(_ESCAPED)


def plain(ranges: Ranges) -> Node:
    """Characters as they are."""
    first, last = ranges[0]
    return Literal(chr(first)) if len(ranges) == 1 and first == last else Chars(ranges)


def json_escape(ranges: Ranges) -> Node:
    """Characters inside a JSON string, spelled as Python's ``json.dumps(…, ensure_ascii=False)``
    spells them: the short escapes, ``\\u00`` and two small digits for other control characters
    (RFC 8259, section 7), and everything else as it is."""
    spelled: list[Node] = []
    if bare := common(ranges, _UNESCAPED):
        spelled.append(plain(bare))
    codes = [code for first, last in common(ranges, _ESCAPED) for code in range(first, last + 1)]
    short = "".join(_SHORT[chr(code)] for code in codes if chr(code) in _SHORT)
    if short:
        spelled.append(Sequence((Literal("\\"), plain(characters(short)))))
    for high in (0, 1):
        long = (code for code in codes if code >> 4 == high and chr(code) not in _SHORT)
        if digits := "".join(f"{code & 15:x}" for code in long):
            start = Literal(f"\\u00{high}")
            spelled.append(Sequence((start, plain(characters(digits)))))
    return spelled[0] if len(spelled) == 1 else Choice(tuple(spelled))
