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
    """The messages kept, and how many turns and messages before them were dropped."""

    messages: tuple[Message, ...]
    dropped_turns: int
    dropped_messages: int


def fit_messages(
    messages: Sequence[Message], count: Callable[[Sequence[Message]], int], limit: int
) -> Fitted:
    """Drop the oldest turns after the system prompt until the conversation fits.

    A turn is a user's message and all up to the next one: answers, calls of tools and their
    results stay together. What comes between the system prompt and the first user's message, a
    greeting say, is a turn too. The last user's turn always stays.

    Args:
        count: tokens that messages come to, no more for fewer turns; called at most
            2 + ceil(log2(turns)) times, first with all messages.
        limit: tokens at most.

    Raises:
        InputError: ``input.context`` where system prompt and last turn alone do not fit.
    """
    tokens = count(messages)
    if tokens <= limit:
        return Fitted(tuple(messages), 0, 0)
    begins = _turns(messages)
    first = begins[0] if begins else len(messages)

    def kept(turn: int) -> tuple[Message, ...]:
        return (*messages[:first], *messages[begins[turn] :])

    if len(begins) > 1:
        tokens = count(kept(-1))
    if tokens > limit:
        raise InputError(
            f"The system prompt and the last turn alone have {tokens:,} tokens; there is room for "
            f"{limit:,}.",
            remedy="Shorten them, or compile the model with a larger --context.",
            code="input.context",
        )
    long, fits = 0, len(begins) - 1  # that many turns dropped are too few, and enough
    while fits - long > 1:
        middle = (long + fits) // 2
        if count(kept(middle)) <= limit:
            fits = middle
        else:
            long = middle
    return Fitted(kept(fits), fits, begins[fits] - first)


def _turns(messages: Sequence[Message]) -> list[int]:
    """Return where each turn begins, in order."""
    first = next((i for i, m in enumerate(messages) if m.get("role") not in _SYSTEM), None)
    if first is None:
        return []
    users = [i for i in range(first, len(messages)) if messages[i].get("role") == "user"]
    return users if users[:1] == [first] else [first, *users]
