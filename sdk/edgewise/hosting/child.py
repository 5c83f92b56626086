"""The process of a model: it loads it, and answers what comes over a socket.

    python -m edgewise.hosting.child FD PARENT [BYTES]

BYTES is what it may have to itself: who started it ends it at more.

It leaves when the socket ends, at SIGTERM, or when its parent has ended, and then within
`LEAVES_WITHIN_S`, whatever it is doing.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import os
import signal
import socket
import sys
import traceback
from asyncio import StreamReader, StreamWriter, Task
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

from edgewise.hosting.base import Ask, Ended, Hosted, Json
from edgewise.hosting.loading import Loading
from edgewise.hosting.wire import decoded, encoded_error, frames, read_frame, text
from edgewise_runtime.errors import EdgewiseError, EngineError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.limits import limit_memory

LEAVES_WITHIN_S = 5.0
"""Seconds for ending what runs, and for writing what is kept on a disk."""

APART_S = 0.005
"""Seconds between two pieces of an answer. To tell of one takes two processes and whoever reads it
0.2 ms of processor time together, in which a small model computes some tokens."""

_PR_SET_PDEATHSIG = 1
_FIRST_TO_GO = 500
"""Added to what Linux goes by when memory has run out: of 1000, so that a server's models go before
the server does."""


class Child:
    """Answers the frames of one socket."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._outbox: list[bytes] = []
        self._model: Hosted | None = None
        self._running: dict[int, Task[None]] = {}
        self._does: dict[str, Callable[..., Awaitable[Json]]] = {
            "load": self._load,
            "ask": self._ask,
            "embed": self._embed,
            "count": lambda _, ask: self._loaded.count(_ask_of(ask)),
            "render": lambda _, ask: self._loaded.render(_ask_of(ask)),
            "tokenize": lambda _, text, special: self._loaded.tokenize(text, special=special),
            "detokenize": lambda _, ids: self._loaded.detokenize(ids),
            "metrics": lambda _: self._loaded.metrics(),
        }

    async def serve(self) -> None:
        """Answer until the socket ends, or ``["close"]`` comes.

        Raises EngineError for what is no frame.
        """
        while (values := await read_frame(self._reader)) is not None:
            match values:
                case ["close"]:
                    return
                case ["cancel", int(number)]:
                    if (task := self._running.get(number)) is not None:
                        task.cancel()
                case [str(what), int(number), *given] if what in self._does:
                    task = asyncio.create_task(self._answer(what, number, given))
                    self._running[number] = task
                    task.add_done_callback(partial(self._done, number))
                case _:
                    raise EngineError(f"{shorten(values)} is no request.", code="engine.wire")

    async def close(self) -> None:
        """End what runs, and give up the memory."""
        self._flush()
        for task in list(self._running.values()):
            task.cancel()
        if self._model is not None:
            await self._model.close()

    def _done(self, number: int, task: Task[None]) -> None:
        del task
        self._running.pop(number, None)

    @property
    def _loaded(self) -> Hosted:
        if self._model is None:
            raise EngineError("No model has been loaded.", code="engine.closed")
        return self._model

    async def _answer(self, what: str, number: int, given: list[Json]) -> None:
        with suppress(ConnectionError):  # the socket has ended, which ends all of this
            try:
                await self._send("value", number, await self._does[what](number, *given))
            except Exception as error:
                if not isinstance(error, EdgewiseError):
                    traceback.print_exc()
                await self._send("error", number, encoded_error(error))

    async def _load(self, number: int, loading: Json) -> Json:
        del number
        self._model = await decoded(Loading, loading).load(apart_s=APART_S)
        return self._model.facts

    async def _ask(self, number: int, ask: Json) -> Json:
        async with aclosing(self._loaded.ask(_ask_of(ask))) as events:
            async for event in events:
                if isinstance(event, Ended):
                    # The other side has had them, and they are most of it.
                    event = replace(event, tokens=())
                await self._send("event", number, event)
        return None

    async def _embed(
        self,
        number: int,
        texts: Json,
        pooling: Json,
        normalize: Json,
        truncate: Json,
        prompt: Json,
    ) -> Json:
        # One by one: all of them may be more than a frame holds.
        for one in await self._loaded.embed(
            texts, pooling=pooling, normalize=normalize, truncate=truncate, prompt=prompt
        ):
            await self._send("event", number, one)
        return None

    async def _send(self, *values: Any) -> None:
        """Say something together with what others say in the same turn of the event loop."""
        self._outbox.append(text(*values))
        if len(self._outbox) == 1:
            asyncio.get_running_loop().call_soon(self._flush)
        await self._writer.drain()

    def _flush(self) -> None:
        if self._outbox:
            self._writer.write(frames(self._outbox))
            self._outbox.clear()


def _ask_of(value: Json) -> Ask:
    """A request as it came: what is wrong with it the engine says, in words for its author."""
    names = [one.name for one in fields(Ask)]
    if not isinstance(value, list) or len(value) != 1 + len(names):
        raise EngineError(f"{shorten(value)} is no request.", code="engine.wire")
    return Ask(**dict(zip(names, value[1:], strict=True)))


async def _main(fd: int) -> None:
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=fd))
    child = Child(reader, writer)
    serving = asyncio.create_task(child.serve())
    leaving = asyncio.create_task(leave.wait())
    await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
    # Threads that load, or that compute a step, cannot be cancelled.
    deadline = Timer(LEAVES_WITHIN_S, os._exit, [1])
    deadline.daemon = True
    deadline.start()
    leaving.cancel()
    await child.close()
    if serving.done():
        serving.result()
    serving.cancel()


def _end_with(parent: int) -> None:
    """Be told when the parent ends: beside the socket's end, for who is deaf for a while."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_FIRST_TO_GO))
    if os.getppid() != parent:
        sys.exit(0)  # it has ended already


def main() -> None:
    """Run the process, whose arguments are a socket and the id of its parent."""
    # Ctrl-C is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    fd, parent, *limit = map(int, sys.argv[1:])
    limit_memory(limit[0] if limit else None)
    _end_with(parent)
    asyncio.run(_main(fd))


if __name__ == "__main__":
    main()
