"""What a prompt must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgewise_runtime.errors import InputError


def check_prompt(prompt: Sequence[int], *, vocab: int, context: int, room: int) -> None:
    """Refuse a prompt that is empty, no token ids, or leaves no `room` for an answer.

    Raises InputError ``input.empty``, ``input.context`` or ``input.token``.
    """
    if not prompt:
        raise InputError(
            "The prompt is empty: there is no token to go on from.",
            remedy="Pass at least one token of text.",
            code="input.empty",
        )
    if len(prompt) + room > context:
        raise InputError(
            f"The prompt has {len(prompt):,} tokens; the context holds {context:,}"
            + (f", of which {room} must be left for the answer." if room else "."),
            remedy="Shorten the prompt, or compile the model with a larger --context.",
            code="input.context",
        )
    check_ids(prompt, "the prompt", vocab)


def check_ids(ids: Iterable[int], where: str, vocab: int) -> None:
    """Refuse what is no token id of a vocabulary; raises InputError ``input.token``."""
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab:
            raise InputError(
                f"{token!r} in {where} is not a token id of this model, which has 0 to "
                f"{vocab - 1}.",
                code="input.token",
            )
