"""A request that a tab of a browser answers, for whoever waits in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from queue import Empty, SimpleQueue

from edgewise.answers import Completion, Piece
from edgewise.hosting.base import Ask, Ended, Event, Hosted
from edgewise.reading import said
from edgewise.tool_calls import ToolCall
from edgewise.wanted import Wanted
from edgewise_runtime.engine.completion import Timings
from edgewise_runtime.engine.loop import PATIENCE
from edgewise_runtime.errors import EdgewiseError, InputError, again


class TabGeneration(Iterator[Piece]):
    """Iterates over pieces as they come; any thread may close it."""

    def __init__(
        self, hosted: Hosted, ask: Ask, wanted: Wanted, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Ask a model of this event loop, which runs in another thread."""
        self._wanted = wanted
        self._events: SimpleQueue[Event | BaseException | None] = SimpleQueue()
        self._completion: Completion | None = None
        self._task = asyncio.run_coroutine_threadsafe(self._read(hosted, ask), loop)
        self._over = False

    def __next__(self) -> Piece:
        event = self._next()
        if isinstance(event, BaseException):
            raise again(event) if isinstance(event, EdgewiseError) else event
        if event is None:
            raise StopIteration
        if isinstance(event, Ended):
            self._completion = self._whole(event)
            return next(self)
        return Piece(said(event.deltas), event.token_ids, index=event.index, deltas=event.deltas)

    def result(self) -> Completion:
        """Wait for the end. Raises what ended it; Ctrl-C while waiting cancels it."""
        try:
            for _ in self:
                pass
        except BaseException:
            self.close()
            raise
        return self.completions()[0]

    def close(self) -> None:
        """End it where it is. Closing twice is fine."""
        self._task.cancel()
        for _ in iter(self._next, None):
            pass

    def completions(self) -> list[Completion]:
        """What it came to. Raises InputError ``input.stream`` before its end."""
        if self._completion is None:
            raise InputError(
                "The completion is not known before the stream has ended.",
                remedy="Read the stream to its end; a tab's answer that is closed has none.",
                code="input.stream",
            )
        return [self._completion]

    async def _read(self, hosted: Hosted, ask: Ask) -> None:
        try:
            async with aclosing(hosted.ask(ask)) as events:
                async for event in events:
                    self._events.put(event)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._events.put(error)
        finally:
            self._events.put(None)

    def _next(self) -> Event | BaseException | None:
        """Wait for what comes next; None at the end, and after it."""
        while not self._over:
            try:
                # Not for ever: a signal whose handler lets system calls restart wakes no one.
                event = self._events.get(timeout=PATIENCE)
            except Empty:
                continue
            self._over = event is None
            return event
        return None

    def _whole(self, ended: Ended) -> Completion:
        known = {tool.name: tool for tool in self._wanted.tools or ()}
        timings = ended.timings
        usage = ended.usage
        return Completion(
            text=ended.text,
            token_ids=ended.token_ids,
            finish_reason=ended.finish_reason,  # type: ignore[arg-type]  # as it was read
            usage=usage,
            timings=Timings(
                timings["ttft_s"],
                timings["prefill_s"],
                timings["decode_s"],
                usage.prompt_tokens,
                max(usage.completion_tokens - 1, 0),
                usage.cached_tokens,
            ),
            seed=ended.seed,
            stop=ended.stop,
            reasoning=ended.reasoning,
            tool_calls=tuple(
                ToolCall(call.id, call.name, call.arguments, known.get(call.name))
                for call in ended.calls
            ),
            written=ended.text,
            format=self._wanted.format,
            context_full=ended.context_full,
            dropped_turns=ended.dropped_turns,
        )
