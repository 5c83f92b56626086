"""Numbers between two others, digit by digit."""

from __future__ import annotations

from collections.abc import Callable

from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Sequence
from edgewise_runtime.grammar.schema.anything import DIGIT, WHOLE_DIGITS, optional

PLACES = 15
"""Digits after the point."""
UNIT = 10**PLACES
LAST = 10**WHOLE_DIGITS - 1
"""The largest integer that is written."""

_ANY_FIRST = Chars(((49, 57),))


def signed(first: int, last: int, between: Callable[[int, int], Node | None]) -> Node | None:
    """What is from one number to another, by what is between two that are at least 0, without a
    sign before a zero; None where there is nothing."""
    negative = between(max(1, -last), -first) if first < 0 and first <= last else None
    positive = between(max(0, first), last) if last >= 0 and first <= last else None
    if negative is None:
        return positive
    below = Sequence((Literal("-"), negative))
    return below if positive is None else Choice((below, positive))


def integers(first: int, last: int) -> Node:
    """The integers from one to another, of at least 0, without zeros before them."""
    choices: list[Node] = [Literal("0")] if first == 0 else []
    counts: list[int] = []
    for count in range(len(str(max(first, 1))), len(str(last)) + 1 if last else 0):
        low, high = max(first, 10 ** (count - 1)), min(last, 10**count - 1)
        if low == 10 ** (count - 1) and high == 10**count - 1:
            counts.append(count)
        else:
            choices.append(_of_length(str(low), str(high)))
    if counts:
        more = Repeat(DIGIT, counts[0] - 1, counts[-1] - 1)
        choices.append(Sequence((_ANY_FIRST, more)))
    return choices[0] if len(choices) == 1 else Choice(tuple(choices))


def decimals(first: int, last: int) -> Node:
    """The decimals from one to another of at least 0, both in units of the last place."""
    low, after_low = divmod(first, UNIT)
    high, after_high = divmod(last, UNIT)
    if low == high:
        return Sequence((Literal(str(low)), _point(after_low, after_high)))
    choices: list[Node] = []
    if after_low:
        choices.append(Sequence((Literal(str(low)), _point(after_low, UNIT - 1))))
        low += 1
    end: list[Node] = []
    if after_high < UNIT - 1:
        end.append(Sequence((Literal(str(high)), _point(0, after_high))))
        high -= 1
    if low <= high:
        choices.append(Sequence((integers(low, high), _point(0, UNIT - 1))))
    choices += end
    return choices[0] if len(choices) == 1 else Choice(tuple(choices))


def _of_length(low: str, high: str) -> Node:
    """Digits from some to others, as many of them."""
    rest = len(low) - 1
    if rest < 0:
        return Sequence(())
    if not low.strip("0") and not high.strip("9"):
        return Repeat(DIGIT, rest + 1, rest + 1)
    if low[0] == high[0]:
        return Sequence((Literal(low[0]), _of_length(low[1:], high[1:])))
    return _by_first(
        (int(low[0]), _of_length(low[1:], "9" * rest) if low[1:].strip("0") else None),
        (int(high[0]), _of_length("0" * rest, high[1:]) if high[1:].strip("9") else None),
        Repeat(DIGIT, rest, rest),
    )


def _point(low: int, high: int) -> Node:
    """What follows the integer of a decimal: digits after a point, from some to others."""
    node = Sequence((Literal("."), _places(str(low).zfill(PLACES), str(high).zfill(PLACES))))
    return node if low else optional(node)


def _places(low: str, high: str) -> Node:
    """At least one digit, where those that are left out are zeros."""
    rest = len(low) - 1
    if not low.strip("0") and not high.strip("9"):
        return Repeat(DIGIT, 1, rest + 1)
    if not high.strip("0"):
        return Repeat(Literal("0"), 1, rest + 1)
    if low[0] == high[0]:
        return Sequence((Literal(low[0]), _further(low[1:], high[1:])))
    return _by_first(
        (int(low[0]), _further(low[1:], "9" * rest) if low[1:].strip("0") else None),
        (int(high[0]), _further("0" * rest, high[1:]) if high[1:].strip("9") else None),
        Repeat(DIGIT, 0, rest),
    )


def _further(low: str, high: str) -> Node:
    if not low:
        return Sequence(())
    node = _places(low, high)
    return node if low.strip("0") else optional(node)


def _by_first(low: tuple[int, Node | None], high: tuple[int, Node | None], between: Node) -> Node:
    """By the first digit: the lowest and the highest with what may follow them where that is not
    all, and those between."""
    choices: list[Node] = []
    first, last = low[0], high[0]
    if low[1] is not None:
        choices.append(Sequence((Literal(str(first)), low[1])))
        first += 1
    end: list[Node] = []
    if high[1] is not None:
        end.append(Sequence((Literal(str(last)), high[1])))
        last -= 1
    if first <= last:
        choices.append(Sequence((Chars(((48 + first, 48 + last),)), between)))
    choices += end
    return choices[0] if len(choices) == 1 else Choice(tuple(choices))
