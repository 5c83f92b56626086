"""The one thread of the process that calls CPU kernels.

TVM keeps a pool of worker threads for every thread that ever launches a parallel kernel, so all
launches go through one. A caller waits for its call; Ctrl-C waits for the burst that runs, so that
state is never half written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any
from weakref import finalize

from edgewise_runtime.errors import DeviceError

PATIENCE = 0.05
"""Seconds between looks for a Ctrl-C while waiting for a job: long enough to cost nothing."""


class _Job:
    """A call handed over: whoever takes `claim` first, worker or interrupted caller, decides."""

    __slots__ = ("args", "claim", "done", "error", "finished", "function", "result")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.claim = threading.Lock()
        self.done = threading.Lock()
        self.done.acquire()
        self.finished = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.function(*self.args)
        except BaseException as error:
            # Whatever it is, it belongs to the caller, and this thread must live on.
            self.error = error
        self.finished = True
        self.done.release()


class KernelThread:
    """Runs calls one after another on a thread of its own.

    Args:
        configure: called on the new thread with the number of worker threads wanted.
    """

    def __init__(self, configure: Callable[[int], None]) -> None:
        self._configure = configure
        self._change = threading.Lock()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._forked = False
        self.threads = 0
        # As engines end, and after them: those that were made last come first.
        finalize(self, self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def start(self, threads: int) -> None:
        """Make sure the thread runs with this many workers, replacing one with another number.

        Calls in flight finish first. Nothing happens when the number is right already. A process
        forked from one that had a thread gets its own.
        """
        with self._change:
            if self._thread is not None and self.threads == threads:
                return
            self._end()
            self._forked = False
            self._queue = SimpleQueue()
            self._thread = threading.Thread(
                target=_work, args=(self._queue,), name="edgewise-kernels", daemon=True
            )
            self._thread.start()
            self.threads = threads
            self.call(self._configure, threads)

    def stop(self) -> None:
        """End the thread once its calls are done; `start` may start another."""
        with self._change:
            self._end()

    def _end(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self._thread = None
        self.threads = 0

    def _after_fork(self) -> None:
        # The thread stayed behind, and whoever held the lock did too.
        self._forked = self._forked or self._thread is not None
        self._thread = None
        self.threads = 0
        self._change = threading.Lock()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function on the thread and return or raise what it does.

        An exception in the waiting caller, such as KeyboardInterrupt, is raised as soon as the
        call is done, or at once if it has not begun, in which case it never will.

        Raises:
            DeviceError: ``device.fork`` in a process forked from the one that loaded the kernels,
                ``device.stopped`` before `start`.
        """
        thread = self._thread
        if self._forked:
            raise DeviceError(
                "This process was forked from the one that loaded the program, and kernel threads "
                "do not survive a fork.",
                remedy="Load the program after forking, or start processes with 'spawn'.",
                code="device.fork",
            )
        if thread is None:
            raise DeviceError("The kernel thread is not running.", code="device.stopped")
        if thread.ident == threading.get_ident():
            return function(*args)
        job = _Job(function, args)
        try:
            self._queue.put(job)
            # A signal whose handler lets system calls restart, which libraries arrange, or one that
            # arrives just before the wait, wakes no one: the next look notices it.
            while not job.done.acquire(timeout=PATIENCE):
                pass
        except BaseException:
            if not job.claim.acquire(blocking=False):
                _wait(job)
            raise
        if job.error is not None:
            raise job.error
        return job.result


def _wait(job: _Job) -> None:
    """Wait until a job is finished, whatever signals arrive."""
    while not job.finished:
        try:
            job.done.acquire(timeout=PATIENCE)
        except KeyboardInterrupt:
            continue


def _work(queue: SimpleQueue[_Job | None]) -> None:
    while (job := queue.get()) is not None:
        if job.claim.acquire(blocking=False):
            job.run()
        # Until the next call arrives, this would keep the last one's arguments alive.
        del job
