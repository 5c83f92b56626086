"""Which turns of a conversation to keep where not all of them fit the context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise_runtime.errors import InputError

Message = Mapping[str, Any]
_SYSTEM = ("system", "developer")


@dataclass(frozen=True)
class Fitted:
    """The messages kept, and how many turns before them were dropped."""

    messages: tuple[Message, ...]
    dropped_turns: int


def fit_messages(
    messages: Sequence[Message], count: Callable[[Sequence[Message]], int], limit: int
) -> Fitted:
    """Drop the oldest turns after the system prompt until the conversation fits.

    A turn is a user's message and all up to the next one: answers, calls of tools and their
    results stay together. The last turn always stays.

    Args:
        count: tokens that messages come to, fewer for fewer turns; called O(log turns) times.
        limit: tokens at most.

    Raises:
        InputError: ``input.context`` where system prompt and last turn alone do not fit.
    """
    first = next((i for i, m in enumerate(messages) if m.get("role") not in _SYSTEM), 0)
    begins = [i for i in range(first, len(messages)) if messages[i].get("role") == "user"]
    # Turns that may go, none to all but the last: where what is kept begins.
    cuts = [first, *begins[1:]]

    def kept(cut: int) -> tuple[Message, ...]:
        return (*messages[:first], *messages[cut:])

    if count(kept(first)) <= limit:
        return Fitted(tuple(messages), 0)
    low, high = 1, len(cuts)  # everything before `low` is too long
    while low < high:
        middle = (low + high) // 2
        if count(kept(cuts[middle])) <= limit:
            high = middle
        else:
            low = middle + 1
    if low == len(cuts):
        raise InputError(
            f"The system prompt and the last turn alone have more than {limit:,} tokens.",
            remedy="Shorten them, or compile the model with a larger --context.",
            code="input.context",
        )
    return Fitted(kept(cuts[low]), low)
