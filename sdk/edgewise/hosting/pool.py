"""The models of a server: loaded when they are asked for, and gone when nobody does."""

from __future__ import annotations

import asyncio
import time
from asyncio import Task
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from math import isnan
from pathlib import Path

from edgewise.cache import find_bundle
from edgewise.hosting.base import Facts, Hosted, Loaded, Models
from edgewise.hosting.kept import Kept, PoolOptions
from edgewise.hosting.loading import Loading
from edgewise.hosting.named import listed_models
from edgewise.hosting.on_disk import OnDisk
from edgewise.hosting.pooled import ASKED_WITHIN_S, Pooled
from edgewise.hosting.process import Limits
from edgewise.hosting.room import needed_bytes, target_of
from edgewise.hosting.worker import Worker
from edgewise.units import size
from edgewise_runtime.errors import EngineError, InputError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.limits import available_memory
from edgewise_runtime.resident import KNOWN

_AGES_S = 3e9
"""About a century."""


class Pool(Models):
    """Models, each in a process of its own. For one event loop.

    One is loaded at a time. Where memory is short, those that nobody asks leave, the one first
    that was asked longest ago; those that answer never do.
    """

    def __init__(
        self,
        named: Mapping[str, str],
        options: PoolOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        available: Callable[[], int | None] = available_memory,
        on_restart: Callable[[str], None] = lambda name: None,
    ) -> None:
        """A pool with nothing loaded.

        Args:
            named: models by name, see `named_models`.
            clock: seconds.
            available: bytes of memory that can be had; None where nobody knows.
            on_restart: told the name of a model whose process had ended and was started again.
        """
        self._named = dict(named)
        self._options = options or PoolOptions()
        self._clock = clock
        self._available = available
        self._on_restart = on_restart
        self._target = target_of(self._options.device, self._options.program)
        self._on_disk = OnDisk(target=self._target, context=self._options.context)
        self._entries: dict[str, Kept] = {}
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Event()
        self._tidying: Task[None] | None = None
        self._closed = False

    async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
        """See `Models.get`. What loading raises besides is told as well."""
        entry = self._entries.get(name) or await self._found(name)
        usual = self._options.keep_alive_s
        entry.keep_alive_s = _kept_s(usual if keep_alive_s is None else keep_alive_s)
        async with self._using(entry, ASKED_WITHIN_S) as worker:
            return self._pooled(entry, worker)

    def names(self) -> list[str]:
        """See `Models.names`."""
        return list(self._known())

    def loaded(self) -> list[Loaded]:
        """See `Models.loaded`."""
        now = self._clock()
        return [
            Loaded(
                hosted=self._pooled(entry, entry.worker),
                bytes=entry.counted,
                expires=_since_epoch(entry.leaves(now) if entry.running else entry.expires, now),
                running=entry.running,
                process=entry.worker.process,
            )
            for entry in self._entries.values()
            if entry.worker is not None and entry.worker.process
        ]

    async def facts(self, name: str) -> Facts | None:
        """See `Models.facts`; of a checkpoint nothing is known before it is compiled."""
        entry = self._entries.get(name)
        if entry is not None and entry.worker is not None:
            return entry.worker.facts
        where = self._named.get(name) or (await asyncio.to_thread(self._known)).get(name)
        return None if where is None else await self._on_disk.facts(name, where)

    async def tidy(self) -> None:
        """Let those go whose time has come."""
        async with self._one_at_a_time:
            now = self._clock()
            for entry in self._idle():
                if entry.expires is not None and entry.expires <= now:
                    await self._leave(entry)

    async def close(self) -> None:
        """See `Models.close`."""
        self._closed = True
        self._changed.set()
        loading = [one.loading for one in self._entries.values() if one.loading is not None]
        for task in loading:
            task.cancel()
        ending = [*loading, *([] if self._tidying is None else [self._tidying])]
        if ending:
            await asyncio.wait(ending)
        await asyncio.gather(*map(self._leave, self._entries.values()))

    def _known(self) -> dict[str, str]:
        return self._named | {
            name: where
            for name, where in (listed_models() if self._options.listed else {}).items()
            if name not in self._named
        }

    async def _found(self, name: str) -> Kept:
        where = (await asyncio.to_thread(self._known)).get(name)
        if where is None:
            raise InputError(
                f"There is no model {shorten(name)}.",
                remedy="The list of models has those that there are.",
                code="input.model",
            )
        made = Kept(name, where, self._options.keep_alive_s)
        return self._entries.setdefault(name, made)

    @asynccontextmanager
    async def _using(self, entry: Kept, least_s: float) -> AsyncIterator[Worker]:
        """The model, loaded if it was not, which stays while the block runs, and at least so many
        seconds after that."""
        entry.running += 1
        try:
            yield await self._worker(entry)
        finally:
            entry.running -= 1
            entry.rest(self._clock(), least_s)
            self._changed.set()

    def _pooled(self, entry: Kept, worker: Worker) -> Pooled:
        return Pooled(entry, worker, partial(self._using, entry), partial(self._leave, entry))

    async def _worker(self, entry: Kept) -> Worker:
        if self._closed:
            raise EngineError("The server's models are closed.", code="engine.closed")
        if entry.worker is not None:
            return entry.worker
        if entry.loading is None:
            entry.loading = asyncio.create_task(self._load(entry))
            entry.loading.add_done_callback(_heard)
        # Whoever waits may go away: others may wait for the same.
        return await asyncio.shield(entry.loading)

    async def _load(self, entry: Kept) -> Worker:
        options = self._options
        try:
            bundle = await asyncio.to_thread(
                find_bundle,
                Path(entry.where),
                target=self._target,
                context=options.context,
                progress=lambda *_: None,
            )
            async with self._one_at_a_time:
                entry.bytes = await asyncio.to_thread(
                    needed_bytes, bundle, target=self._target, context=options.context
                )
                await self._make_room(entry)
                entry.worker = await Worker.load(
                    self._loading(entry.name, bundle),
                    Limits(memory_bytes=options.memory_bytes if KNOWN else None),
                    self._on_restart,
                )
            if self._tidying is None:
                self._tidying = asyncio.create_task(self._tidy_for_ever())
            return entry.worker
        finally:
            entry.loading = None
            self._changed.set()

    def _loading(self, name: str, bundle: Path) -> Loading:
        options = self._options
        return Loading(
            name=name,
            bundle=str(bundle),
            device=options.device,
            program=options.program,
            threads=options.threads,
            context=options.context,
            trust=options.trust,
            settings=options.settings,
        )

    async def _make_room(self, entry: Kept) -> None:
        """Let idle models leave until there is room for one more, the least recently used first.

        Raises EngineError ``engine.memory``, and lets none leave, where all of them would not do.
        """
        if self._lacking(entry) > sum(one.counted for one in self._idle()):
            raise self._no_room(entry)
        while self._lacking(entry) > 0:
            # Each time anew: while one leaves, another may be asked.
            idle = self._idle()
            if not idle:
                raise self._no_room(entry)
            await self._leave(min(idle, key=lambda one: one.used))

    def _lacking(self, entry: Kept) -> int:
        """Bytes that are missing for one more model."""
        limit, available = self._options.memory_bytes, self._available()
        taken = sum(one.counted for one in self._entries.values() if one.worker is not None)
        return max(
            0 if limit is None else taken + entry.bytes - limit,
            0 if available is None else entry.bytes - available,
        )

    def _no_room(self, entry: Kept) -> EngineError:
        busy = [
            f"{shorten(one.name)} ({size(one.counted)}, {one.running} requests)"
            for one in self._entries.values()
            if one.worker is not None and one.running
        ]
        limit = self._options.memory_bytes
        allowed = "" if limit is None else f" of {size(limit)} that models may have"
        return EngineError(
            f"The model {shorten(entry.name)} needs {size(entry.bytes)}, which is "
            f"{size(self._lacking(entry))} more than there is{allowed}"
            + (f" beside {', '.join(busy)}, which answer." if busy else "."),
            remedy="Wait until they are done." if busy else "Choose a smaller model or context.",
            code="engine.memory",
        )

    def _idle(self) -> list[Kept]:
        return [one for one in self._entries.values() if one.worker is not None and not one.running]

    async def _leave(self, entry: Kept) -> None:
        worker, entry.worker = entry.worker, None
        if worker is not None:
            await worker.close()

    async def _tidy_for_ever(self) -> None:
        while not self._closed:
            self._changed.clear()
            times = [one.expires for one in self._idle() if one.expires is not None]
            left = max(min(times) - self._clock(), 0.0) if times else None
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
            await self.tidy()


def _kept_s(seconds: float) -> float:
    """Seconds that a model is kept: for ever where they are more than anybody counts.

    Raises InputError ``input.keep_alive`` for what is no number.
    """
    if isnan(seconds):
        raise InputError("keep_alive is no number of seconds.", code="input.keep_alive")
    return -1.0 if seconds > _AGES_S else seconds


def _since_epoch(expires: float | None, now: float) -> float | None:
    return None if expires is None else time.time() + expires - now


def _heard(task: Task[Worker]) -> None:
    """Who waited may have gone, and an error be nobody's."""
    if not task.cancelled():
        task.exception()
