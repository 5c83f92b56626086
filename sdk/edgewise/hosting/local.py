"""A model in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from edgewise.answers import Completion, Piece
from edgewise.async_engine import AsyncEngine
from edgewise.async_generation import AsyncGeneration
from edgewise.hosting.base import Ask, Call, Ended, Event, Hosted, Json, Said, TokenSaid
from edgewise.hosting.facts import facts_of
from edgewise.options import SubmitOptions
from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.token_bytes import bytes_of

_OPTIONS = SubmitOptions.__annotations__.keys() - {"sampling"}
"""Those whose values JSON has."""


class LocalModel(Hosted):
    """A model that an engine of this process has loaded. It closes the engine when it is closed."""

    def __init__(self, name: str, engine: AsyncEngine) -> None:
        """`name`: that it is asked for by."""
        self.facts = facts_of(name, engine)
        self._engine = engine
        self._spelled = _Spelled(engine.tokenizer)

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """See `Hosted.ask`."""
        generation = await self._submit(ask)
        try:
            async for piece in generation:
                yield self._said(piece)
            for completion in await generation.results():
                yield self._ended(completion)
        finally:
            # Without waiting for the step in progress: who closes this has gone.
            generation.cancel()

    async def count(self, ask: Ask) -> int:
        """See `Hosted.count`."""
        options, messages = _options(ask), ask.messages
        if messages is None:
            prompt = _prompt(ask)
            if not isinstance(prompt, str):
                return len(prompt)
            return len(await self.tokenize(prompt, special=True))
        ids_of = self._engine.session.texts.ids_of_chat
        return len(await asyncio.to_thread(ids_of, messages, ask.tools, ask.variables, options))

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """See `Hosted.tokenize`."""
        encode = self._engine.tokenizer.encode
        return await asyncio.to_thread(encode, text, add_special_tokens=special)

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        """See `Hosted.detokenize`."""
        return await asyncio.to_thread(self._engine.tokenizer.decode, token_ids)

    async def render(self, ask: Ask) -> str:
        """See `Hosted.render`."""
        options = _options(ask)
        if ask.messages is None:
            raise InputError(
                "A chat template is of conversations; this is a prompt.",
                remedy="Pass messages.",
                code="input.messages",
            )
        text_of = self._engine.session.texts.text_of_chat
        return await asyncio.to_thread(text_of, ask.messages, ask.tools, ask.variables, options)

    async def metrics(self) -> Mapping[str, Json]:
        """See `Hosted.metrics`."""
        return self._engine.metrics()

    async def close(self) -> None:
        """See `Hosted.close`."""
        await self._engine.close()

    async def _submit(self, ask: Ask) -> AsyncGeneration:
        options, tools = _options(ask), ask.tools
        if ask.messages is not None:
            return await self._engine.submit_chat(
                ask.messages, tools=tools, variables=ask.variables, **options
            )
        return await self._engine.submit(_prompt(ask), tools=tools, **options)

    def _said(self, piece: Piece) -> Said:
        tokens = tuple(map(self._spelled.token, piece.logprobs))
        return Said(piece.deltas, piece.token_ids, tokens, piece.index)

    def _ended(self, completion: Completion) -> Ended:
        return Ended(
            index=completion.index,
            text=completion.text,
            reasoning=completion.reasoning,
            calls=tuple(Call(one.id, one.name, one.text) for one in completion.tool_calls),
            token_ids=completion.token_ids,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            timings=completion.timings.to_json(),
            seed=completion.seed,
            stop=completion.stop,
            tokens=tuple(map(self._spelled.token, completion.logprobs or ())),
        )


class _Spelled:
    """The bytes of single tokens, special ones written out."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        special = tuple(token.content for token in tokenizer.added_tokens() if token.special)
        self._bytes_of: Callable[[int], bytes | None]
        try:
            self._bytes_of = bytes_of(tokenizer, shown=special)
        except UnsupportedError:  # tokens that have no bytes of their own
            self._bytes_of = self._as_spelled

    def token(self, token: TokenLogprob) -> TokenSaid:
        text, data = self._of(token.token_id)
        top = tuple((*self._of(token_id), logprob) for token_id, logprob in token.top)
        return TokenSaid(token.token_id, text, data, token.logprob, top)

    def _of(self, token_id: int) -> tuple[str, bytes]:
        data = self._bytes_of(token_id) or b""
        return data.decode(errors="replace"), data

    def _as_spelled(self, token_id: int) -> bytes | None:
        token = self._tokenizer.token_of(token_id)
        return None if token is None else token.encode()


def _prompt(ask: Ask) -> str | list[int]:
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


def _options(ask: Ask) -> dict[str, Any]:
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
    unknown = sorted(ask.options.keys() - _OPTIONS)
    if unknown:
        raise InputError(
            f"There is no option {shorten(unknown[0])}.",
            remedy=f"There are {', '.join(sorted(_OPTIONS))}.",
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
