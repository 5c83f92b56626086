"""Models whose answers are noted, and whose prompts are steadied; every API asks through these."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace

from edgewise.hosting.base import Ask, Embedded, Ended, Event, Facts, Hosted, Json, Loaded, Models
from edgewise.server.agents import steady
from edgewise.server.operations.counts import Counts
from edgewise.server.operations.drain import Drain
from edgewise.server.operations.entry import CURRENT, LEFT, Entry
from edgewise.server.operations.health import Readiness
from edgewise.server.operations.logs import Log
from edgewise_runtime.errors import EdgewiseError, EngineError


@dataclass(frozen=True)
class Watch:
    """What watches the models of a server.

    Attributes:
        keep_agent_lines: whether lines that agents change stay as they are.
    """

    log: Log
    counts: Counts
    drain: Drain
    readiness: Readiness
    keep_agent_lines: bool = False

    def steadied(self, ask: Ask, entry: Entry | None = None) -> Ask:
        """The request with lines that always change replaced, which is noted in `entry`."""
        if self.keep_agent_lines or ask.messages is None:
            return ask
        messages, agents = steady(ask.messages)
        if not agents:
            return ask
        if entry:
            self.counts.steadied.update(agents)
            entry.agents.update(dict.fromkeys(agents))
        return replace(ask, messages=messages)

    @contextmanager
    def asked(self, model: str) -> Iterator[Entry]:
        """What is noted of a request to a model while the block runs.

        That is the HTTP request it came with; of those that come over one WebSocket, each has an
        entry and a line of its own.
        """
        current = CURRENT.get()
        entry = Entry.of(current) if current is None or current.socket else current
        entry.model = model
        self.counts.streams += 1
        try:
            with self.drain:
                yield entry
        finally:
            self.counts.streams -= 1
            if entry is not current:
                self.log.request(entry)


@dataclass(frozen=True)
class WatchedModels(Models):
    """`models`, each of them watched."""

    models: Models
    watch: Watch

    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        """As `Models.get`; EngineError ``engine.draining`` for a WebSocket once the server ends."""
        watch, entry = self.watch, CURRENT.get()
        if entry and entry.socket and watch.drain.draining:
            raise EngineError(
                "This server is ending and takes no new requests.",
                remedy="Connect again in a while.",
                code="engine.draining",
            )
        try:
            hosted = await self.models.get(name, keep_alive_s=keep_alive_s)
        except EdgewiseError as error:
            watch.readiness.on_failed(name, error)
            raise
        watch.readiness.on_loaded(name)
        if entry and not entry.socket:
            entry.model = hosted.facts.name
        return WatchedModel(hosted, watch)

    def names(self) -> list[str]:
        return self.models.names()

    def loaded(self) -> list[Loaded]:
        return [
            replace(one, hosted=WatchedModel(one.hosted, self.watch))
            for one in self.models.loaded()
        ]

    async def facts(self, name: str) -> Facts | None:
        return await self.models.facts(name)

    async def close(self) -> None:
        await self.models.close()


class WatchedModel(Hosted):
    """`hosted`, whose requests are noted."""

    def __init__(self, hosted: Hosted, watch: Watch) -> None:
        self.facts = hosted.facts
        self._hosted = hosted
        self._watch = watch

    @property
    def process(self) -> int:
        return self._hosted.process

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        with self._watch.asked(self.facts.name) as entry:
            missing = ask.options.get("n") or 1
            try:
                async with aclosing(self._hosted.ask(self._watch.steadied(ask, entry))) as events:
                    async for event in events:
                        entry.on_said()
                        if isinstance(event, Ended):
                            entry.on_ended(event)
                            missing -= 1
                        yield event
            except EdgewiseError as error:
                entry.ended[error.code] = None
                raise
            except (GeneratorExit, CancelledError):
                if missing:
                    entry.ended[LEFT] = None
                raise

    async def embed(
        self,
        texts: Sequence[str | Sequence[int]],
        *,
        pooling: str | None = None,
        normalize: bool = True,
        truncate: bool = False,
        prompt: str | None = None,
    ) -> list[Embedded]:
        with self._watch.asked(self.facts.name) as entry:
            try:
                found = await self._hosted.embed(
                    texts, pooling=pooling, normalize=normalize, truncate=truncate, prompt=prompt
                )
            except EdgewiseError as error:
                entry.ended[error.code] = None
                raise
            except CancelledError:
                entry.ended[LEFT] = None
                raise
            entry.on_embedded(one.tokens for one in found)
            return found

    async def count(self, ask: Ask) -> int:
        return await self._hosted.count(self._watch.steadied(ask))

    async def tokenize(self, text: str, *, special: bool) -> list[int]:
        return await self._hosted.tokenize(text, special=special)

    async def detokenize(self, token_ids: Sequence[int]) -> str:
        return await self._hosted.detokenize(token_ids)

    async def render(self, ask: Ask) -> str:
        return await self._hosted.render(self._watch.steadied(ask))

    async def metrics(self) -> Mapping[str, Json]:
        return await self._hosted.metrics()

    async def close(self) -> None:
        await self._hosted.close()
