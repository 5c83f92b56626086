"""A conversation as token ids, of as many of its turns as fit the context."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgewise_runtime.errors import EdgewiseError, InputError, again
from edgewise_runtime.text.template import Message

Ids = tuple[int, ...]
_SYSTEM = ("system", "developer")


class Turns:
    """The turns of one conversation, as they are now.

    Args:
        messages: what was said.
        encode: the prompt of messages as token ids. Any thread calls it.
    """

    def __init__(
        self, messages: Sequence[Message], encode: Callable[[Sequence[Message]], list[int]]
    ) -> None:
        """Raises what `encode` does: messages that are none, or that the template refuses.

        Text that is too long for the context (``input.context``) is refused where all of it is
        needed: by `ids`.
        """
        self._whole = _found(encode, messages)
        # The caller may go on with its own while an answer is being generated.
        self._messages = [dict(message) for message in messages]
        self._encode = encode

    @property
    def ids(self) -> Ids:
        """The prompt of all turns. Raises InputError where its text is too long."""
        if isinstance(self._whole, InputError):
            raise again(self._whole)
        return self._whole

    def fitting(self, wanted: int, context: int) -> tuple[Ids, int]:
        """The prompt without as many of the oldest turns as have to go, and how many went.

        Args:
            wanted: tokens that it should have at most, so that an answer has room.
            context: tokens in all; one turn alone may leave as little room as one token.

        Raises:
            InputError: ``input.context`` where system prompt and last turn alone do not fit.
        """
        for most in (wanted, context - 1):
            if (found := self._within(most)) is not None:
                return found
        raise InputError(
            f"The system prompt and the last turn alone are too long: the context holds "
            f"{context:,} tokens, of which 1 must be left for the answer.",
            remedy="Shorten them, or compile the model with a larger --context.",
            code="input.context",
        )

    def shorter(self, room: int) -> tuple[Ids, int] | None:
        """As `fitting` in so many tokens; None where that cannot be.

        The engine asks while others wait: no error may come of it.
        """
        try:
            return self._within(room)
        except EdgewiseError:
            return None

    def _within(self, most: int) -> tuple[Ids, int] | None:
        if _length(self._whole) <= most:
            return self.ids, 0
        try:
            fitted = fit_messages(
                self._messages, lambda kept: _length(_found(self._encode, kept)), most
            )
        except InputError as error:
            if error.code != "input.context":
                raise
            return None
        return tuple(self._encode(fitted.messages)), fitted.dropped_turns


def _found(
    encode: Callable[[Sequence[Message]], list[int]], messages: Sequence[Message]
) -> Ids | InputError:
    """The ids of a prompt, or the error that says that its text alone is too long."""
    try:
        return tuple(encode(messages))
    except InputError as error:
        if error.code != "input.context":
            raise
        return error


def _length(found: Ids | InputError) -> int:
    return sys.maxsize if isinstance(found, InputError) else len(found)


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
