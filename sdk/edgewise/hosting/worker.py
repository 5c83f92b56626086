"""A model in a process of its own, which is started again where it has ended."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from edgewise.hosting.base import Ask, Embedded, Event, Facts, Hosted, Json, Said, TokenSaid
from edgewise.hosting.loading import Loading
from edgewise.hosting.process import Limits, Process
from edgewise.hosting.wire import decoded, decoded_event
from edgewise_runtime.errors import EngineError


class Worker(Hosted):
    """A model in a child process: what ends that ends the requests that run there, and no others.

    They end with EngineError ``engine.gone``, and the next request starts another child.
    """

    def __init__(
        self, loading: Loading, limits: Limits | None, on_restart: Callable[[str], None]
    ) -> None:
        """A model that has not been loaded, see `load`."""
        self._loading = loading
        self._limits = limits or Limits()
        self._on_restart = on_restart
        self._child: Process | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    @classmethod
    async def load(
        cls,
        loading: Loading,
        limits: Limits | None = None,
        on_restart: Callable[[str], None] = lambda name: None,
    ) -> Worker:
        """Load a model in a process.

        Args:
            limits: what the process may take; None for the usual ones.
            on_restart: told the model's name when another process has been started for it.

        Raises:
            EngineError: ``engine.gone`` where the process ended meanwhile; else what
                `Loading.load` and `Process.start` do.
        """
        worker = cls(loading, limits, on_restart)
        await worker._running()
        return worker

    @property
    def process(self) -> int:
        """The id of the process that it runs in; 0 where that has ended."""
        child = self._child
        return 0 if child is None or child.gone is not None else child.id

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """See `Hosted.ask`."""
        child = await self._running()
        tokens: defaultdict[int, list[TokenSaid]] = defaultdict(list)
        async with child.ask("ask", ask) as request, aclosing(request.events()) as events:
            async for value in events:
                event = decoded_event(value)
                said = tokens[event.index]
                if isinstance(event, Said):
                    said += event.tokens
                    yield event
                else:
                    yield replace(event, tokens=tuple(said))

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
        child = await self._running()
        given = list(texts), pooling, normalize, truncate, prompt
        async with child.ask("embed", *given) as request, aclosing(request.events()) as events:
            return [decoded(Embedded, value) async for value in events]

    async def count(self, ask: Ask) -> int:
        """See `Hosted.count`."""
        return int(await self._call("count", ask))

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        """See `Hosted.tokenize`."""
        return list(await self._call("tokenize", text, special))

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        """See `Hosted.detokenize`."""
        return str(await self._call("detokenize", list(token_ids)))

    async def render(self, ask: Ask) -> str:
        """See `Hosted.render`."""
        return str(await self._call("render", ask))

    async def metrics(self) -> Mapping[str, Json]:
        """See `Hosted.metrics`. Nothing is started for them: EngineError ``engine.gone``."""
        child = self._child
        if child is None:
            raise _closed()
        return dict(await child.call("metrics"))

    async def close(self) -> None:
        """See `Hosted.close`. What runs ends with EngineError ``engine.gone``."""
        self._closed = True
        async with self._starting:
            child, self._child = self._child, None
            if child is not None:
                await child.end()

    async def _call(self, what: str, *given: object) -> Json:
        return await (await self._running()).call(what, *given)

    async def _running(self) -> Process:
        """The child, started if there is none; once for all that wait for it."""
        async with self._starting:
            if self._closed:
                raise _closed()
            if self._child is None or self._child.gone is not None:
                again, self._child = self._child is not None, await self._start()
                if again:
                    self._on_restart(self._loading.name)
            return self._child

    async def _start(self) -> Process:
        child = await Process.start(self._limits)
        try:
            self.facts = decoded(Facts, await child.call("load", self._loading))
        except BaseException:
            child.kill(None)
            await child.end()
            raise
        return child


def _closed() -> EngineError:
    return EngineError("The model is closed.", code="engine.closed")
