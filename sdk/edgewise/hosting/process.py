"""A process that has a model, as the one that started it sees it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL
from asyncio.subprocess import Process as System
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from edgewise.hosting.base import Json
from edgewise.hosting.child import LEAVES_WITHIN_S
from edgewise.hosting.wire import decoded_error, frame, lists_of, read_frame
from edgewise_runtime.errors import EdgewiseError, EngineError, UnsupportedError, again
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.resident import KNOWN, resident_bytes

LOOKS_EVERY_S = 0.25
"""Seconds between two looks at how much memory a process has."""
_KILLED = "Most likely memory ran out: free some, or choose a smaller model or context."
_REPORT = "Its standard error may say why. The next request starts it again."


@dataclass(frozen=True)
class Limits:
    """What a process may take.

    Attributes:
        memory_bytes: what it may have to itself: with more it is ended. None for as much as there
            is.
        unread: steps of a request that may wait for who asked: with more it is ended.
    """

    memory_bytes: int | None = None
    unread: int = 4096

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the process is told of them: it sizes its KV pages by its memory."""
        return () if self.memory_bytes is None else (str(self.memory_bytes),)


class Process:
    """A process with a socket to it. For one event loop.

    Attributes:
        id: of the process.
        gone: why it is gone; None while it is there.
        limits: what it may take.
    """

    def __init__(
        self, system: System, reader: StreamReader, writer: StreamWriter, limits: Limits
    ) -> None:
        """See `start`."""
        self.id = system.pid
        self.gone: EngineError | None = None
        self._system = system
        self._writer = writer
        self.limits = limits
        self._numbers = count()
        self._requests: dict[int, Request] = {}
        self._why: EngineError | None = None
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def start(cls, limits: Limits) -> Process:
        """Start a process that has no model yet.

        Raises:
            UnsupportedError: ``unsupported.memory_limit`` where the system does not tell how much
                memory a process has.
        """
        if limits.memory_bytes is not None and not KNOWN:
            raise UnsupportedError(
                f"A model's memory cannot be limited on {sys.platform}.",
                remedy="Leave out the limit; on Linux there is one.",
                code="unsupported.memory_limit",
            )
        ours, theirs = socket.socketpair()
        with theirs, _closed_on_failure(ours):
            system = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "edgewise.hosting.child"),
                *(str(theirs.fileno()), str(os.getpid()), *limits.arguments),
                stdin=DEVNULL,
                stdout=DEVNULL,
                # Whatever made our packages importable here makes them so there.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(theirs.fileno(),),
                # Ctrl-C is for this process, which then ends that one.
                process_group=0,
            )
            theirs.close()
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        return cls(system, reader, writer, limits)

    async def call(self, what: str, *given: Any) -> Json:
        """What the process answers to a request that has one answer. Raises as `Request.next`."""
        async with self.ask(what, *given) as request:
            kind, value = await request.next()
            if kind != "value":
                raise EngineError(f"{shorten(kind)} is no answer.", code="engine.wire")
            return value

    def ask(self, what: str, *given: Any) -> Request:
        """A request, sent as it is entered."""
        return Request(self, next(self._numbers), what, given)

    async def send(self, *values: Any) -> None:
        """Send a frame, waiting while the process does not read.

        Raises what `frame` does, and EngineError ``engine.gone``.
        """
        data = frame(*values)
        if self.gone is not None:
            raise again(self.gone)
        with suppress(ConnectionError):  # its end is told by who reads
            self._writer.write(data)
            await self._writer.drain()

    def add(self, request: Request) -> None:
        """Hand what is said of a request to it from now on."""
        self._requests[request.number] = request

    def drop(self, request: Request) -> None:
        """Nobody waits for a request any more."""
        if self._requests.pop(request.number, None) is not None and self.gone is None:
            self._writer.write(frame("cancel", request.number))

    async def end(self) -> None:
        """Let the process leave, and make it do so where it takes too long. Twice is fine."""
        with suppress(EngineError, TimeoutError):
            async with asyncio.timeout(LEAVES_WITHIN_S):
                await self.send("close")
        done, _ = await asyncio.wait([self._reading], timeout=LEAVES_WITHIN_S + 1)
        if not done:
            self.kill(None)
            await asyncio.wait([self._reading])

    def kill(self, why: EngineError | None) -> None:
        """End the process now."""
        self._why = self._why or why
        with suppress(ProcessLookupError):
            self._system.kill()

    async def _read(self, reader: StreamReader) -> None:
        """Hand out what the process says, until it has ended."""
        watching = asyncio.create_task(self._watch())
        try:
            while (values := await read_frame(reader)) is not None:
                for one in lists_of(values):
                    if self._hear(one):
                        await asyncio.sleep(0)
        except EngineError as error:
            self.kill(error)
        finally:
            watching.cancel()
            await self._reap()

    def _hear(self, values: Json) -> bool:
        """Hand out one thing that is said; whether who waits for it should have a turn now."""
        match values:
            case ["value" | "event" | "error" as kind, int(number), value]:
                if (request := self._requests.get(number)) is None:
                    return False
                request.hear(kind, value)
                if kind != "event":
                    self._requests.pop(number, None)
                return request.crowded
            case _:
                raise EngineError(f"{shorten(values)} is no answer.", code="engine.wire")

    async def _watch(self) -> None:
        while (limit := self.limits.memory_bytes) is not None:
            found = resident_bytes(self.id)
            if found is not None and found > limit:
                self.kill(
                    EngineError(
                        f"It took {found >> 20:,} MiB of memory and may have {limit >> 20:,} MiB.",
                        remedy="Allow it more, or choose a smaller model or context.",
                        code="engine.memory",
                    )
                )
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _reap(self) -> None:
        """Wait for the end of a process that says nothing any more, and tell everybody."""
        try:
            async with asyncio.timeout(LEAVES_WITHIN_S + 1):
                await self._system.wait()
        except TimeoutError:
            self.kill(None)
            await self._system.wait()
        self.gone = self._ended()
        self._writer.close()
        for request in self._requests.values():
            request.fail(self.gone)
        self._requests.clear()

    def _ended(self) -> EngineError:
        """What has become of a process that was not told to leave, or was."""
        status = self._system.returncode or 0
        if self._why is not None:
            how, remedy = f"was ended. {self._why.message}", self._why.remedy
        elif status < 0:
            name = signal.Signals(-status).name
            how, remedy = f"was ended by {name}.", _KILLED if name == "SIGKILL" else _REPORT
        else:
            how, remedy = f"has left with status {status}.", _REPORT
        return EngineError(
            f"The model's process {self.id} {how}",
            remedy=remedy,
            code="engine.gone",
        )


class Request:
    """One request of a process, for an ``async with`` block; leaving the block cancels it."""

    def __init__(self, process: Process, number: int, what: str, given: tuple[Any, ...]) -> None:
        self.number = number
        self._process = process
        self._what = what
        self._given = given
        self._heard: asyncio.Queue[tuple[str, Json] | EdgewiseError] = asyncio.Queue()

    async def __aenter__(self) -> Request:
        self._process.add(self)
        try:
            await self._process.send(self._what, self.number, *self._given)
        except BaseException:
            self._process.drop(self)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.drop(self)

    async def next(self) -> tuple[str, Json]:
        """What is said next: ``event``, or ``value`` at the end, and what that is.

        Raises the error that ended the request; EngineError ``engine.gone`` where the process has
        ended.
        """
        heard = await self._heard.get()
        if isinstance(heard, EdgewiseError):
            raise again(heard)
        return heard

    async def events(self) -> AsyncGenerator[Json, None]:
        """What is said until the end. Raises as `next`."""
        while True:
            kind, value = await self.next()
            if kind == "value":
                return
            yield value

    @property
    def crowded(self) -> bool:
        """Whether half of what may wait does: said at once, perhaps, to somebody who reads."""
        return 2 * self._heard.qsize() >= self._process.limits.unread

    def hear(self, kind: str, value: Json) -> None:
        """Take what was said."""
        if kind == "error":
            self._heard.put_nowait(decoded_error(value))
        elif self._heard.qsize() < (most := self._process.limits.unread):
            self._heard.put_nowait((kind, value))
        else:
            # What is not read holds up nobody, and takes no memory for ever.
            self._process.drop(self)
            self.fail(
                EngineError(
                    f"Nobody has read {most:,} steps of an answer.",
                    remedy="Read an answer as it comes, or ask for it as a whole.",
                    code="engine.unread",
                )
            )

    def fail(self, error: EngineError) -> None:
        """End it with an error, in place of what was not read."""
        while not self._heard.empty():
            self._heard.get_nowait()
        self._heard.put_nowait(error)


@contextmanager
def _closed_on_failure(ours: socket.socket) -> Iterator[None]:
    """Close a socket where the block fails, which tells who has the other end."""
    try:
        yield
    except BaseException:
        ours.close()
        raise
