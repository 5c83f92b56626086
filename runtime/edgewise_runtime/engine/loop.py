"""The thread that owns an engine: requests come from any thread, steps happen on this one."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.errors import DeviceError, EdgewiseError, EngineError

T = TypeVar("T")

PATIENCE = 0.05
"""Seconds between looks for a Ctrl-C while waiting."""


class EngineLoop:
    """Runs an engine's steps on a thread of its own as long as there is something to do.

    Any thread may submit, cancel and call. What sequences report (`on_piece`, `on_end`) happens on
    the loop's thread and must not block.

    Args:
        engine: used by nobody else from now on.
        finish: called at the end, on the loop's thread: closes what the engine ran on.
    """

    def __init__(self, engine: GenerationEngine, finish: Callable[[], None]) -> None:
        self.engine = engine
        self._finish = finish
        self._wake = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._arriving = 0
        self._closing = False
        self._failure: EdgewiseError | None = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._work, name="edgewise-engine", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self._closing

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Let sequences wait for their turn; never blocks.

        Raises:
            EngineError: ``engine.busy``, ``engine.closed``.
            DeviceError: what has ended the engine, ``device.fork``.
        """
        arriving = list(sequences)

        def job() -> None:
            self._arriving -= len(arriving)
            try:
                self.engine.submit(arriving)
            except EdgewiseError as error:
                for sequence in arriving:
                    sequence.fail(error)
                    sequence.on_end()

        self._check_process()
        with self._wake:
            self._check_open()
            self.engine.check_room(self._arriving + len(arriving))
            self._arriving += len(arriving)
            self._jobs.append(job)
            self._wake.notify()

    def cancel(self, sequences: Iterable[Sequence]) -> None:
        """End sequences where they are, at the latest with the step in progress; never blocks."""
        for sequence in sequences:
            sequence.cancelled = True
        with self._wake:
            self._wake.notify()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function between two steps, and return or raise what it does.

        Raises:
            EngineError: ``engine.closed``.
            DeviceError: what has ended the engine, ``device.fork``.
        """
        if threading.current_thread() is self._thread:
            return function()
        self._check_process()
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                _settle(future, function)

        with self._wake:
            self._check_open()
            self._jobs.append(job)
            self._wake.notify()
        try:
            return _result(future)
        except BaseException:
            # An interrupted caller takes the job back where it has not begun.
            future.cancel()
            raise

    def close(self) -> None:
        """Cancel everything, close the engine and end the thread. Closing twice is fine."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if os.getpid() == self._process and threading.current_thread() is not self._thread:
            self._thread.join()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise _closed()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise DeviceError(
                "This process was forked from the one that loaded the model, and its threads do "
                "not survive a fork.",
                remedy="Load the model after forking, or start processes with 'spawn'.",
                code="device.fork",
            )

    def _work(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:
            self._end_with(error)
        finally:
            try:
                self.engine.close()
            finally:
                self._finish()
                with self._wake:
                    self._closing = True
                    jobs, self._jobs = self._jobs, deque()
                for job in jobs:
                    job()

    def _turn(self) -> bool:
        """Do what was asked for, then one step; False once the loop is closed."""
        with self._wake:
            while not (self._jobs or self._closing or self.engine.busy):
                self._wake.wait()
            if self._closing:
                return False
            jobs, self._jobs = self._jobs, deque()
        for job in jobs:
            job()
        if self.engine.busy:
            self.engine.step()
        return True

    def _end_with(self, error: BaseException) -> None:
        """Nothing goes on after an error that is not a request's: everybody hears of it."""
        failure = error if isinstance(error, EdgewiseError) else _broken(error)
        with self._wake:
            self._failure = failure
        self.engine.fail_all(failure)


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
