"""Text as a terminal may have it: shown, and never taken for orders.

What models, bundles, checkpoints and hubs say is foreign text. A control character in it could set
a terminal's title, write its clipboard or hide what stands before; one that turns the direction of
text could make a name look like another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MARK = "\ufffd"
"""What stands for a character that is not sent."""

_TURNS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_ORDERS = (*range(0x20), *range(0x7F, 0xA0), *_TURNS)
PLAIN: Mapping[int, str] = {code: MARK for code in _ORDERS if chr(code) not in "\n\t"}
"""For `str.translate`: what is not sent to a terminal, and the mark in its place."""

_BEYOND_JSON = re.compile(f"[\x7f-\x9f{''.join(map(chr, _TURNS))}]")


def shown(text: str) -> str:
    """Return a text with a mark in the place of each control character; lines and tabs stay."""
    return text.translate(PLAIN)


def shown_json(text: str) -> str:
    """Return the same JSON with escapes for the control characters that JSON leaves as they are."""
    return _BEYOND_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
