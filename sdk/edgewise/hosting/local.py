"""A model in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from edgewise.answers import Completion, Piece
from edgewise.async_engine import AsyncEngine
from edgewise.async_generation import AsyncGeneration
from edgewise.embedding import begin_beside, normalized
from edgewise.hosting.base import (
    Ask,
    Call,
    Embedded,
    Ended,
    Event,
    Json,
    Said,
    TokenSaid,
)
from edgewise.hosting.facts import facts_of
from edgewise.hosting.prompting import Prompting, options_of, prompt_of
from edgewise.hosting.thoughts import thought_tokens
from edgewise_runtime.calls import joined
from edgewise_runtime.engine.logprobs import TokenLogprob
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.token_bytes import bytes_of


class LocalModel(Prompting):
    """A model that an engine of this process has loaded. It closes the engine when it is closed."""

    def __init__(self, name: str, engine: AsyncEngine, *, apart_s: float = 0.0) -> None:
        """A model that is loaded.

        Args:
            name: that it is asked for by.
            apart_s: seconds after a step of an answer that the next ones are held back for, and
                told as one; with log-probabilities each is told.
        """
        self.facts = facts_of(name, engine)
        self._engine = engine
        self.texts = engine.session.texts
        self._spelled = _Spelled(engine.tokenizer)
        self._apart_s = apart_s

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """See `Hosted.ask`."""
        generation = await self._submit(ask)
        together = self._apart_s > 0 and not ask.options.get("logprobs")
        if together:
            generation.gather(self._apart_s)
        try:
            held: list[Said] = []
            async for piece in generation:
                held.append(self._said(piece))
                if not (together and generation.more):
                    for said in _joined(held):
                        yield said
                    held.clear()
            for completion in await generation.results():
                yield self._ended(completion, await self._thought_tokens(completion))
        finally:
            # Without waiting for the step in progress: who closes this has gone.
            generation.cancel()

    async def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> list[Embedded]:
        """See `Hosted.embed`."""
        embedding = await begin_beside(
            self._engine.session, texts, pooling, truncate=truncate, prompt=prompt
        )
        vectors = await embedding.wait()
        if normalize:
            vectors = normalized(vectors)
        rows = vectors.astype("<f4", copy=False)
        return [
            Embedded(row.tobytes(), tokens)
            for row, tokens in zip(rows, embedding.tokens, strict=True)
        ]

    async def metrics(self) -> Mapping[str, Json]:
        """See `Hosted.metrics`."""
        return self._engine.metrics()

    async def close(self) -> None:
        """See `Hosted.close`."""
        await self._engine.close()

    async def _submit(self, ask: Ask) -> AsyncGeneration:
        options, tools = options_of(ask), ask.tools
        if ask.messages is not None:
            return await self._engine.submit_chat(
                ask.messages, tools=tools, variables=ask.variables, **options
            )
        return await self._engine.submit(prompt_of(ask), tools=tools, **options)

    def _said(self, piece: Piece) -> Said:
        tokens = tuple(map(self._spelled.token, piece.logprobs))
        return Said(piece.deltas, piece.token_ids, tokens, piece.index)

    async def _thought_tokens(self, completion: Completion) -> int:
        thought, ids = completion.reasoning, completion.token_ids
        if not thought:
            return 0
        return await asyncio.to_thread(thought_tokens, thought, ids, self._engine.tokenizer.decode)

    def _ended(self, completion: Completion, thought: int) -> Ended:
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
            context_full=completion.context_full,
            dropped_turns=completion.dropped_turns,
            thought_tokens=thought,
        )


def _joined(held: Sequence[Said]) -> Sequence[Said]:
    """The same in one of each choice."""
    if len(held) == 1:
        return held
    of: dict[int, list[Said]] = {}
    for said in held:
        of.setdefault(said.index, []).append(said)
    return [
        Said(
            tuple(joined(delta for said in several for delta in said.deltas)),
            tuple(token_id for said in several for token_id in said.token_ids),
            tuple(token for said in several for token in said.tokens),
            index,
        )
        for index, several in of.items()
    ]


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
