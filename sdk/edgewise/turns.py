"""A conversation as token ids, of as many of its turns as fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgewise_runtime.engine.window import fit_messages
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.text.template import Message

Ids = tuple[int, ...]


class Turns:
    """The turns of one conversation, as they are now.

    Args:
        messages: what was said.
        encode: the prompt of messages as token ids. Any thread calls it.
    """

    def __init__(
        self, messages: Sequence[Message], encode: Callable[[Sequence[Message]], list[int]]
    ) -> None:
        """Raises what `encode` does: messages that are none, or that the template refuses."""
        self.ids: Ids = tuple(encode(messages))
        # The caller may go on with its own while an answer is being generated.
        self._messages = [dict(message) for message in messages]
        self._encode = encode

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
        if len(self.ids) <= most:
            return self.ids, 0
        try:
            fitted = fit_messages(self._messages, lambda kept: len(self._encode(kept)), most)
        except InputError as error:
            if error.code != "input.context":
                raise
            return None
        return tuple(self._encode(fitted.messages)), fitted.dropped_turns
