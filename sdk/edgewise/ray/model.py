"""A model on other machines, as the APIs ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, TypeVar

from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException

from edgewise.hosting.base import Ask, Embedded, Ended, Event, Facts, Hosted, Json, Loaded, Models
from edgewise.hosting.prompting import Prompting, options_of, prompt_of
from edgewise.hosting.wire import decoded_error
from edgewise.ray.counted import together
from edgewise.ray.prefixes import page_keys
from edgewise.ray.replica import Failed, Way
from edgewise.request import read_options
from edgewise.texts import Texts
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.state import paged_state
from edgewise_runtime.kv.keys import root_key, salted

T = TypeVar("T")

TRIES = 3
"""Replicas that a request is sent to, one after the other, where nothing came of it."""
LEAST_S = 0.001
"""Seconds that a request has at least when it comes to an engine, which ends it."""


class RayModel(Prompting):
    """A model of replicas behind a handle of Ray Serve. For one event loop.

    Prompts are made here, and known by their pages' keys, by which the router chooses a replica.
    """

    def __init__(self, facts: Facts, bundle: Bundle, handle: Any) -> None:
        """A model of which a replica has said its facts.

        Args:
            bundle: for its texts, and closed with this.
            handle: of the deployment of `replica.Replica`.
        """
        self.facts = facts
        self._bundle, self._handle = bundle, handle
        self.texts = Texts(bundle)
        self._page_tokens = paged_state(bundle.manifest).page_tokens
        programs = {program.id: program for program in bundle.manifest.programs}
        any_of_them = bundle.manifest.programs[0]
        self._root = root_key(bundle, programs.get(facts.program, any_of_them))

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """See `Hosted.ask`. A request of which nothing came goes to another replica.

        Raises:
            EngineError: ``engine.gone`` where its replica ended.
        """
        began = monotonic()
        options = options_of(ask)
        asked = read_options(options, self.texts.defaults, several=True)
        ids = await self._ids(ask, options)
        keys = await asyncio.to_thread(self._keys, ids, asked.extras)
        if ask.messages is None:
            ask = replace(ask, prompt=ids)
        for left in reversed(range(TRIES)):
            said = False
            sent = _in_time(ask, asked.timeout_s, began)
            try:
                async with aclosing(self._events(Way(keys), sent, asked.params.n)) as events:
                    async for event in events:
                        said = True
                        yield event
                return
            except EngineError as error:
                if said or not left or error.code != "engine.gone":
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
        """See `Hosted.embed`."""
        options = {
            "pooling": pooling,
            "normalize": normalize,
            "truncate": truncate,
            "prompt": prompt,
        }
        found: list[Embedded] = await self._call("embed", list(texts), options)
        return found

    async def metrics(self) -> Mapping[str, Json]:
        """See `Hosted.metrics`: of all replicas that there are now, together."""
        asked = self._handle.broadcast("metrics", Way())
        said = await _awaited(asked.results_async(return_exceptions=True))
        return together([one for one in said if isinstance(one, Mapping)])

    async def close(self) -> None:
        """See `Hosted.close`. The replicas are Ray's to end."""
        self._bundle.close()

    async def _ids(self, ask: Ask, options: Mapping[str, Any]) -> tuple[int, ...]:
        """The prompt's tokens; none where it is too long for all of it, which the engine judges."""
        if ask.messages is None:
            prompt = prompt_of(ask)
            if not isinstance(prompt, str):
                return tuple(prompt)
            return tuple(await self.tokenize(prompt, special=True))
        given = ask.messages, ask.tools, ask.variables, options
        try:
            return await asyncio.to_thread(
                lambda: self.texts.ids_of_chat(*given, most=self.facts.context)
            )
        except InputError as error:
            if error.code != "input.context":
                raise
            return ()

    def _keys(self, ids: Sequence[int], extras: Sequence[str]) -> tuple[bytes, ...]:
        return page_keys(salted(self._root, extras), ids[: self.facts.context], self._page_tokens)

    async def _events(self, way: Way, ask: Ask, choices: int) -> AsyncGenerator[Event, None]:
        """What one replica says."""
        said = self._handle.ask.options(stream=True).remote(way, ask)
        missing = choices
        try:
            async for event in _translated(said):
                if isinstance(event, Failed):
                    missing = 0
                    raise decoded_error(event.error)
                missing -= isinstance(event, Ended)
                yield event
        finally:
            if missing:
                said.cancel()
        if missing:
            raise _gone("It ended in the middle of an answer")

    async def _call(self, what: str, *given: Any) -> Any:
        """What a replica answers that has one answer; another is asked where that one ended."""
        for left in reversed(range(TRIES)):
            try:
                found = await _awaited(getattr(self._handle, what).remote(Way(), *given))
            except EngineError as error:
                if not left or error.code != "engine.gone":
                    raise
            else:
                if isinstance(found, Failed):
                    raise decoded_error(found.error)
                return found
        raise _gone("There is none")


@dataclass(frozen=True)
class OneModel(Models):
    """The only model of a deployment."""

    model: RayModel

    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        """See `Models.get`; how long it stays is for whoever deployed it to say."""
        if name != self.model.facts.name:
            raise InputError(
                f"There is no model {shorten(name)}.",
                remedy=f"There is {self.model.facts.name}.",
                code="input.model",
            )
        return self.model

    def names(self) -> list[str]:
        """See `Models.names`."""
        return [self.model.facts.name]

    def loaded(self) -> list[Loaded]:
        """See `Models.loaded`."""
        return [Loaded(self.model, self.model.facts.bytes, None, 0, self.model.process)]

    async def facts(self, name: str) -> Facts | None:
        """See `Models.facts`."""
        return self.model.facts if name == self.model.facts.name else None

    async def close(self) -> None:
        """See `Models.close`."""
        await self.model.close()


def _in_time(ask: Ask, timeout_s: float | None, began: float) -> Ask:
    """The request with what is left of its time."""
    if timeout_s is None:
        return ask
    left = max(timeout_s - (monotonic() - began), LEAST_S)
    return replace(ask, options={**ask.options, "timeout_s": left})


async def _translated(events: Any) -> AsyncGenerator[Any, None]:
    """The same events; Ray's errors as ours."""
    try:
        async for event in events:
            yield event
    except (RayError, RayServeException) as error:
        raise _ours(error) from error


async def _awaited(response: Awaitable[T]) -> T:
    """The same answer; Ray's errors as ours."""
    try:
        return await response
    except (RayError, RayServeException) as error:
        raise _ours(error) from error


def _ours(error: Exception) -> EdgewiseError:
    for kind, make in _KINDS:
        if isinstance(error, kind):
            return make(error)
    return _gone(f"Ray says {type(error).__name__}")


def _busy(_: Exception) -> EngineError:
    return EngineError(
        "All replicas have as many requests as they may.",
        remedy="Try again when some of them are done, or allow more replicas.",
        code="engine.busy",
    )


def _failed(error: Exception) -> EngineError:
    return EngineError(
        f"A replica failed at this request ({type(error).__name__}).",
        remedy="Its log has the details.",
        code="internal",
    )


def _gone(what: str) -> EngineError:
    return EngineError(
        f"The replica that answered is gone. {what}.",
        remedy="Ask again: another one answers.",
        code="engine.gone",
    )


_KINDS: Sequence[tuple[type[Exception], Callable[[Exception], EdgewiseError]]] = (
    (RayActorError, lambda error: _gone("Its process ended, or cannot be reached")),
    (BackPressureError, _busy),
    (RayTaskError, _failed),
)
