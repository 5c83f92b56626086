"""A replica: one engine, as Ray Serve holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from edgewise.hosting.base import Ask, Embedded, Event, Facts, Json
from edgewise.hosting.loading import Loading
from edgewise.hosting.local import LocalModel
from edgewise.hosting.wire import encoded_error
from edgewise.ray.scaling import LOAD, load_of
from edgewise_runtime.errors import EdgewiseError

APART_S = 0.005
"""What comes within this of a piece of an answer is sent as one: each costs Ray about as long."""

KV_PAGES = "kv_pages"
"""What a replica tells its routers: how many pages it has."""


@dataclass(frozen=True)
class Way:
    """What the router is told of a request, which goes no further than to it.

    Attributes:
        keys: of the prompt's pages, see `prefixes.page_keys`.
    """

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Way, ()


@dataclass(frozen=True, slots=True)
class Failed:
    """An error that ended a request, as `wire.encoded_error` has it: Ray would wrap it."""

    error: Json


class Replica:
    """A model that this node has loaded, with the program of the bundle that fits it best.

    What it is asked has a `Way` first, which is for its router.
    """

    async def __init__(self, loading: Loading, full: float, kv_full: float) -> None:  # type: ignore[misc]
        """Load a model.

        Args:
            full, kv_full: see `ServeOptions`.

        Raises:
            EdgewiseError: as `Loading.engine`. Ray tries again, and the deployment says so.
        """
        self._engine = await loading.engine()
        self._model = LocalModel(loading.name, self._engine, apart_s=APART_S)
        self._full, self._kv_full = full, kv_full

    async def ask(self, way: Way, ask: Ask) -> AsyncGenerator[Event | Failed, None]:
        """See `Hosted.ask`; an error is the last thing said."""
        try:
            async with aclosing(self._model.ask(ask)) as events:
                async for event in events:
                    yield event
        except EdgewiseError as error:
            yield Failed(encoded_error(error))

    async def embed(
        self, way: Way, texts: Sequence[str | Sequence[int]], options: Mapping[str, Any]
    ) -> list[Embedded] | Failed:
        """See `Hosted.embed`."""
        try:
            return await self._model.embed(texts, **options)
        except EdgewiseError as error:
            return Failed(encoded_error(error))

    async def facts(self, way: Way) -> Facts:
        """What there is to say of the model, as it is loaded here."""
        return self._model.facts

    async def metrics(self, way: Way) -> Mapping[str, Json]:
        """See `Hosted.metrics`."""
        return self._engine.metrics()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """What Ray asks for `scaling.policy`."""
        slots = self._engine.session.loop.engine.places
        metrics = self._engine.metrics()
        return {LOAD: load_of(metrics, slots, full=self._full, kv_full=self._kv_full)}

    async def record_routing_stats(self) -> dict[str, float]:
        """What Ray asks for routers."""
        return {KV_PAGES: self._engine.metrics()["kv_pages"]}

    async def check_health(self) -> None:
        """Raise what has ended the engine, if anything has: Ray then starts another replica."""
        self._engine.session.loop.check_open()
