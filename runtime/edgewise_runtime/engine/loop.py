"""The thread that owns an engine: requests come from any thread, steps happen on this one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from edgewise_runtime.devices.kernel_thread import launching, wait_until_gone
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.errors import DeviceError, EdgewiseError, EngineError, again

T = TypeVar("T")

PATIENCE = 0.05
"""Seconds between looks for a Ctrl-C while waiting."""

OURS = "edgewise-"
"""How the names of our own threads begin: those of engines and that of kernels."""

Job = Callable[[bool], None]
"""Something to do between two steps; or, with False, to tell whoever waits that it never will."""


class EngineLoop:
    """Runs an engine's steps on a thread of its own as long as there is something to do.

    That thread also makes the launches of a step, so that none changes hands.

    Any thread may submit, cancel and call. What sequences report (`on_piece`, `on_end`) happens on
    the loop's thread and must not block.

    Args:
        engine: used by nobody else from now on.
        finish: called at the end, on the loop's thread: closes what the engine ran on.
    """

    def __init__(self, engine: GenerationEngine, finish: Callable[[], None]) -> None:
        self.engine = engine
        self._finish = finish
        # A queue in C and no lock around it: garbage may be collected at any moment, and what is
        # collected may cancel its request or close its engine.
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._room = threading.RLock()
        self._arriving = 0
        self._closing = False
        self._ended = False
        self._failure: EdgewiseError | None = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name=f"{OURS}engine", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._closing = True  # interrupted while it began: nobody will know this loop
            self._jobs.put(None)
            raise

    @property
    def closed(self) -> bool:
        return self._closing

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the engine's own, and so has no loop."""
        return os.getpid() != self._process

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Let sequences wait for their turn; never blocks.

        Raises:
            EngineError: ``engine.busy``, ``engine.closed``.
            DeviceError: what has ended the engine, ``device.fork``.
        """
        arriving = list(sequences)

        def job(going: bool) -> None:
            with self._room:
                self._arriving -= len(arriving)
                if going:
                    try:
                        self.engine.submit(arriving)
                    except EdgewiseError as error:
                        self._turn_away(arriving, error)
                else:
                    self._turn_away(arriving, self._failure)

        self.check_process()
        self.check_open()
        with self._room:
            self.engine.check_room(self._arriving + len(arriving))
            self._arriving += len(arriving)
        self._post(job)

    def cancel(self, sequences: Iterable[Sequence]) -> None:
        """End sequences where they are, at the latest with the step in progress; never blocks."""
        for sequence in sequences:
            sequence.cancelled = True
        self._jobs.put(None)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function between two steps, and return or raise what it does.

        Raises:
            EngineError: ``engine.closed``.
            DeviceError: what has ended the engine, ``device.fork``.
        """
        if threading.current_thread() is self._thread:
            return function()
        future: Future[T] = Future()

        def job(going: bool) -> None:
            if future.set_running_or_notify_cancel():
                _settle(future, function if going else self.check_open)

        self.check_process()
        self.check_open()
        self._post(job)
        try:
            return _result(future)
        except BaseException:
            # An interrupted caller takes the job back where it has not begun.
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel everything, close the engine and end the thread. Closing twice is fine.

        In a process that was forked from the engine's own it does nothing.
        """
        if self.forked:
            return
        self._closing = True
        self._jobs.put(None)
        # An engine may be collected on any thread. One of ours must not wait: the end may need it.
        if not threading.current_thread().name.startswith(OURS):
            while self._thread.is_alive():
                self._thread.join(PATIENCE)
            wait_until_gone(self._thread)

    def check_process(self) -> None:
        """Raise DeviceError ``device.fork`` where the loop's thread is another process's."""
        if self.forked:
            raise DeviceError(
                "This process was forked from the one that loaded the model, and its threads do "
                "not survive a fork.",
                remedy="Load the model after forking, or start processes with 'spawn'.",
                code="device.fork",
            )

    def check_open(self) -> None:
        """Raise what has ended the engine; EngineError ``engine.closed`` where it was closed."""
        if self._failure is not None:
            raise again(self._failure)
        if self._closing:
            raise _closed()

    def _post(self, job: Job) -> None:
        self._jobs.put(job)
        if self._ended:
            # Perhaps nobody has seen it: the thread ended in between.
            self._refuse_jobs()

    def _work(self) -> None:
        # Whatever goes wrong on the way out, nobody must wait for ever.
        with ExitStack() as ending:
            ending.enter_context(launching())
            ending.callback(self._refuse_jobs)
            ending.callback(self._finish)
            ending.callback(self.engine.close)
            try:
                while not self._closing:
                    self._turn()
            except BaseException as error:
                self._end_with(error)

    def _turn(self) -> None:
        """Do what was asked for, then one step; wait where there is nothing to do."""
        if not self.engine.busy:
            while self._jobs.empty() and self.engine.tidy():
                pass
            self._do(self._jobs.get())
        # Those that are here: more may come as fast as they are done.
        for _ in range(self._jobs.qsize()):
            self._do(self._jobs.get())
        if self.engine.busy and not self._closing:
            self.engine.step()

    def _do(self, job: Job | None) -> None:
        if job is not None:
            job(not self._closing)

    def _refuse_jobs(self) -> None:
        self._closing = self._ended = True
        with suppress(Empty):
            while True:
                self._do(self._jobs.get_nowait())

    def _turn_away(self, sequences: Iterable[Sequence], error: EdgewiseError | None) -> None:
        for sequence in sequences:
            if error is not None:
                sequence.fail(error)
            else:
                sequence.end("cancelled")
            sequence.on_end()

    def _end_with(self, error: BaseException) -> None:
        """Nothing goes on after an error that is not a request's: everybody hears of it."""
        self._failure = error if isinstance(error, EdgewiseError) else _broken(error)
        self.engine.fail_all(self._failure)


def _settle(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


def _result(future: Future[T]) -> T:
    # A signal whose handler lets system calls restart wakes no one: the next look notices it.
    while True:
        try:
            return future.result(PATIENCE)
        except TimeoutError:
            if future.done():
                return future.result()


def _closed() -> EngineError:
    return EngineError(
        "The engine is closed.", remedy="Load the model again.", code="engine.closed"
    )


def _broken(error: BaseException) -> EngineError:
    failure = EngineError(
        f"The engine has stopped after an unexpected {type(error).__name__}: {error}.",
        remedy="Load the model again, and please report this.",
        code="engine.broken",
    )
    failure.__cause__ = error
    return failure
