"""What is accepted as a prompt: text, token ids, or a list of either."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text import Tokenizer


def prompt_ids(prompt: Any, tokenizer: Tokenizer, context: int) -> tuple[int, ...]:
    """Return the token ids of the only prompt.

    Raises InputError ``input.prompt`` for what is none, ``input.stream`` where there are several,
    ``input.context`` for text that is too long for a context of so many tokens by its characters.
    """
    prompts, _ = each_prompt_ids(prompt, tokenizer, context)
    if len(prompts) == 1:
        return prompts[0]
    raise InputError(
        f"This takes one prompt, not a list of {len(prompts)}.",
        remedy="Call it once for each; generate(...) without stream takes a list.",
        code="input.stream",
    )


def each_prompt_ids(
    prompt: Any, tokenizer: Tokenizer, context: int
) -> tuple[list[tuple[int, ...]], bool]:
    """Return the token ids of each prompt, and whether there was just one.

    Raises InputError ``input.prompt`` for anything else, ``input.context`` as `prompt_ids` does.
    """
    ids = _ids(prompt, tokenizer, context)
    if ids is not None:
        return [ids], True
    listed = prompt if isinstance(prompt, list | tuple) else []
    found = [_ids(item, tokenizer, context) for item in listed]
    prompts = [ids for ids in found if ids is not None]
    if not prompts or len(prompts) < len(found):
        raise InputError(
            f"{shorten(prompt)} is no prompt.",
            remedy="Pass text, a list of token ids, or a list of either.",
            code="input.prompt",
        )
    return prompts, False


def token_ids(tokens: Any) -> tuple[int, ...]:
    """Return token ids as Python's own integers.

    Raises InputError ``input.prompt`` for anything else.
    """
    ids = _whole(tokens)
    if ids is None:
        raise InputError(
            f"{shorten(tokens)} is no list of token ids.",
            remedy="Pass whole numbers, such as tokenizer.encode(text) returns.",
            code="input.prompt",
        )
    return ids


def too_long(text: str, context: int) -> InputError:
    """The error for text that no context of so many tokens holds, whatever its tokens are."""
    return InputError(
        f"The prompt has {len(text):,} characters, more than {context:,} tokens can stand for; "
        "that is what the context holds.",
        remedy="Shorten the prompt, or compile the model with a larger --context.",
        code="input.context",
    )


def _ids(prompt: Any, tokenizer: Tokenizer, context: int) -> tuple[int, ...] | None:
    """Return the ids of one prompt, None where it is not one."""
    if not isinstance(prompt, str):
        return _whole(prompt)
    if tokenizer.exceeds(prompt, context):
        raise too_long(prompt, context)
    return tuple(tokenizer.encode(prompt))


def _whole(items: Any) -> tuple[int, ...] | None:
    if isinstance(items, list | tuple | np.ndarray) and all(
        isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items
    ):
        return tuple(int(item) for item in items)
    return None
