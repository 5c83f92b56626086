"""How many of an answer's tokens were thought."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

_TAIL = 64
"""Characters that tell the end of a thought."""


def thought_tokens(
    thought: str, token_ids: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> int:
    """The tokens of an answer up to the last that has some of its thought.

    Marks before it and between its parts count, the one behind it does not.

    Args:
        thought: all of it, as it was read.
        token_ids: of the answer.
        decode: the text of tokens, special ones written out.
    """
    thought = thought.strip()
    if not thought:
        return 0
    text = decode(token_ids)
    end = _end(thought, text)
    if end is None:
        return 0
    # What ends within a character has a sign in its place: texts of more tokens are no shorter.
    return 1 + bisect_left(
        range(len(token_ids)), end, key=lambda last: len(decode(token_ids[: last + 1]))
    )


def _end(thought: str, text: str) -> int | None:
    """Where a thought ends in a text; None where it is not in it.

    One that has several parts, with marks or more between them, ends with the last of them, which
    is not before all of it would fit.
    """
    sizes: list[int] = [len(thought), *range(min(_TAIL, len(thought)), 0, -1)]
    for size in sizes:
        at = text.find(thought[-size:], len(thought) - size)
        if at >= 0:
            return at + size
    return None
