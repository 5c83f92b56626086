"""Integers that are multiples of another, between two bounds."""

from __future__ import annotations

from edgewise_runtime.grammar.nodes import Choice, Literal, Node, Sequence
from edgewise_runtime.grammar.schema.context import Context
from edgewise_runtime.grammar.schema.digits import signed
from edgewise_runtime.grammar.schema.shape import Shape

MAX_NAMED = 500
"""Multiples that are written out one by one."""
MAX_STEP = 64
"""What numbers may be multiples of beyond that, without the tens in it."""


def multiples(context: Context, shape: Shape, first: int, last: int, step: int) -> Node | None:
    """Multiples of a step; None where there are none.

    Raises:
        UnsupportedError: ``unsupported.schema`` for too many of too large a step.
    """
    low, high = -(-first // step), last // step
    if low > high:
        return None
    if high - low < MAX_NAMED:
        return Choice(tuple(Literal(str(step * i)) for i in range(low, high + 1)))
    tens = len(str(step)) - len(str(step).rstrip("0"))
    small = step // 10**tens
    if small > MAX_STEP:
        raise shape.refused(f"multipleOf {step:,} of more than {MAX_NAMED} numbers")
    remainders = _Remainders(context, small)

    def between(low: int, high: int) -> Node | None:
        found = remainders.between(-(-low // 10**tens) or 1, high // 10**tens)
        if found is not None and tens:
            found = Sequence((found, Literal("0" * tens)))
        if low == 0:
            return Literal("0") if found is None else Choice((Literal("0"), found))
        return found

    return signed(first, last, between)


class _Remainders:
    """Digits of multiples of a step: by the remainder that those before them leave."""

    def __init__(self, context: Context, step: int) -> None:
        self._context = context
        self._step = step
        self._free: dict[tuple[int, int], Node | None] = {}

    def between(self, first: int, last: int) -> Node | None:
        """Multiples of at least 1."""
        choices: list[Node] = []
        for count in range(len(str(first)), len(str(last)) + 1 if first <= last else 0):
            low, high = max(first, 10 ** (count - 1)), min(last, 10**count - 1)
            found = self._digits(str(low), str(high), 0)
            if found is not None:
                choices.append(found)
        return Choice(tuple(choices)) if choices else None

    def _digits(self, low: str, high: str, remainder: int) -> Node | None:
        """Digits from some to others, after what leaves a remainder."""
        if not low:
            return None if remainder else Sequence(())
        free = not low.strip("0") and not high.strip("9")
        key = (len(low), remainder)
        if free and key in self._free:
            return self._free[key]
        zeros, nines = "0" * (len(low) - 1), "9" * (len(low) - 1)
        choices: list[Node] = []
        for digit in range(int(low[0]), int(high[0]) + 1):
            after_low = low[1:] if digit == int(low[0]) else zeros
            after_high = high[1:] if digit == int(high[0]) else nines
            left = (remainder * 10 + digit) % self._step
            rest = self._digits(after_low, after_high, left)
            if rest is not None:
                choices.append(Sequence((Literal(str(digit)), rest)))
        node = self._context.shared(Choice(tuple(choices))) if choices else None
        if free:
            self._free[key] = node
        return node
