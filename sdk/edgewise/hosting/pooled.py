"""A model of a pool, for who asks it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

from edgewise.hosting.base import Ask, Embedded, Event, Hosted, Json
from edgewise.hosting.kept import Kept
from edgewise.hosting.worker import Worker
from edgewise_runtime.errors import EngineError

ASKED_WITHIN_S = 1.0
"""Seconds that a model stays for who got it and is about to ask it, whatever keep-alive it has."""

Using = Callable[[float], AbstractAsyncContextManager[Worker]]
"""Has the model in memory in a block, and at least so many seconds after it."""


class Pooled(Hosted):
    """A model of a pool, which is loaded again where it has left."""

    def __init__(
        self, kept: Kept, worker: Worker, using: Using, leave: Callable[[], Awaitable[None]]
    ) -> None:
        self.facts = worker.facts
        self._kept = kept
        self._using = using
        self._leave = leave

    @property
    def process(self) -> int:
        worker = self._kept.worker
        return 0 if worker is None else worker.process

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        async with (
            self._using(0.0) as worker,
            aclosing(worker.ask(ask)) as events,
        ):
            async for event in events:
                yield event

    async def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> list[Embedded]:
        async with self._using(0.0) as worker:
            return await worker.embed(
                texts, pooling=pooling, normalize=normalize, truncate=truncate, prompt=prompt
            )

    async def count(self, ask: Ask) -> int:
        async with self._using(ASKED_WITHIN_S) as worker:
            return await worker.count(ask)

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        async with self._using(ASKED_WITHIN_S) as worker:
            return await worker.tokenize(text, special=special)

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        async with self._using(ASKED_WITHIN_S) as worker:
            return await worker.detokenize(token_ids)

    async def render(self, ask: Ask) -> str:
        async with self._using(ASKED_WITHIN_S) as worker:
            return await worker.render(ask)

    async def metrics(self) -> Mapping[str, Json]:
        """See `Hosted.metrics`. Who only looks keeps no model from leaving."""
        worker = self._kept.worker
        if worker is None:
            raise EngineError(f"{self.facts.name} is not in memory.", code="engine.gone")
        return await worker.metrics()

    async def close(self) -> None:
        """Let it leave now, with what runs; the next request loads it again."""
        await self._leave()
