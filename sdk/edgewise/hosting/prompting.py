"""What a request asks for as text, wherever it is computed: options, tokens, templates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from edgewise.hosting.base import Ask, Hosted, Json
from edgewise.options import SubmitOptions
from edgewise.texts import Texts
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

OPTIONS = SubmitOptions.__annotations__.keys() - {"sampling"}
"""Those whose values JSON has."""


class Prompting(Hosted):
    """A `Hosted` that knows of prompts what its bundle's texts say. Long ones hold up nobody.

    Attributes:
        texts: the bundle's.
    """

    texts: Texts

    async def count(self, ask: Ask) -> int:
        """See `Hosted.count`."""
        options, messages = options_of(ask), ask.messages
        if messages is None:
            prompt = prompt_of(ask)
            if not isinstance(prompt, str):
                return len(prompt)
            return len(await self.tokenize(prompt, special=True))
        ids_of = self.texts.ids_of_chat
        return len(await asyncio.to_thread(ids_of, messages, ask.tools, ask.variables, options))

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """See `Hosted.tokenize`."""
        encode = self.texts.tokenizer.encode
        return await asyncio.to_thread(encode, text, add_special_tokens=special)

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        """See `Hosted.detokenize`."""
        return await asyncio.to_thread(self.texts.tokenizer.decode, token_ids)

    async def render(self, ask: Ask) -> str:
        """See `Hosted.render`."""
        options = options_of(ask)
        if ask.messages is None:
            raise InputError(
                "A chat template is of conversations; this is a prompt.",
                remedy="Pass messages.",
                code="input.messages",
            )
        text_of = self.texts.text_of_chat
        return await asyncio.to_thread(text_of, ask.messages, ask.tools, ask.variables, options)


def prompt_of(ask: Ask) -> str | list[int]:
    """The prompt of a request without a conversation.

    Raises InputError ``input.prompt``.
    """
    if ask.variables is not None:
        raise InputError(
            "Variables are of a chat template; this is a prompt.",
            remedy="Pass messages, or leave out the variables.",
            code="input.option",
        )
    if isinstance(ask.prompt, str):
        return ask.prompt
    if isinstance(ask.prompt, list | tuple):
        return list(ask.prompt)
    raise InputError(
        f"{shorten(ask.prompt)} is no prompt.",
        remedy="Pass messages, or a prompt: text or a list of token ids.",
        code="input.prompt",
    )


def options_of(ask: Ask) -> dict[str, Any]:
    """The options of a request as the engine takes them, which checks their values.

    Raises InputError ``input.option`` for one that there is not, ``input.prompt`` for a request of
    a conversation and a prompt.
    """
    if ask.messages is not None and ask.prompt is not None:
        raise InputError(
            "There are messages and a prompt.", remedy="Pass one of them.", code="input.prompt"
        )
    if not isinstance(ask.options, Mapping) or not isinstance(ask.variables, Mapping | None):
        raise InputError(
            "Options and variables are by name.", remedy="Pass objects.", code="input.option"
        )
    unknown = sorted(ask.options.keys() - OPTIONS)
    if unknown:
        raise InputError(
            f"There is no option {shorten(unknown[0])}.",
            remedy=f"There are {', '.join(sorted(OPTIONS))}.",
            code="input.option",
        )
    options = dict(ask.options)
    if isinstance(bias := options.get("logit_bias"), Mapping):
        options["logit_bias"] = {_token(key): value for key, value in bias.items()}
    return options


def _token(key: Json) -> Json:
    """A key that JSON has made text of as the number that it was; others as they are."""
    if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= 10:
        return int(key)
    return key
