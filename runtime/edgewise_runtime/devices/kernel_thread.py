"""Who calls kernels: threads that do so all day by themselves, in turns; one for all others.

TVM keeps a pool of worker threads for every thread that launches a parallel kernel, for as long as
that one lives. So a thread that lives as long as its engine launches itself (`launching`), and
nothing changes hands at a step; whoever else has a call hands it to one thread and waits for it.
Ctrl-C then waits for the burst that runs, so that state is never half written. Calls never overlap:
each has all cores.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from weakref import finalize

from edgewise_runtime.errors import DeviceError

PATIENCE = 0.05
"""Seconds between looks for a Ctrl-C while waiting for a job: long enough to cost nothing."""

PATIENCE_AT_END = 1.0
"""Seconds to wait at most for a thread that has ended; its number may be another's by then."""


class _Here(threading.local):
    """Of the current thread: for whose calls it is ready; None where it hands them over."""

    ready: set[KernelThread] | None = None


_here = _Here()


@contextmanager
def launching() -> Iterator[None]:
    """Let the current thread make its calls itself within the block.

    For a thread that ends one day, and with it what TVM keeps for it; not for the main thread,
    where a Ctrl-C would come between the parts of a call.
    """
    _here.ready = set()
    try:
        yield
    finally:
        _here.ready = None


def wait_until_gone(thread: threading.Thread) -> None:
    """Wait until the system has a thread no more, and so none of the workers that end with it.

    For a thread that was joined: Python says so a little before, and what TVM keeps goes last.
    Where the system does not tell, this returns at once.
    """
    task = Path(f"/proc/self/task/{thread.native_id}")
    deadline = time.monotonic() + PATIENCE_AT_END
    while task.exists() and time.monotonic() < deadline:
        time.sleep(0.0005)


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
    """Makes calls one after another, on a thread of its own or on one that is `launching`.

    Args:
        configure: called on each thread that makes calls, before its first one, with the number of
            worker threads wanted.

    Attributes:
        threads: that number; 0 before `expect`.
    """

    def __init__(self, configure: Callable[[int], None]) -> None:
        self._configure = configure
        self._change = threading.RLock()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._forked = False
        self.threads = 0
        self._free_turns()
        # As engines end, and after them: those that were made last come first.
        finalize(self, self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def expect(self, threads: int) -> None:
        """Let calls have this many workers from now on; the own thread begins when it is needed.

        Where it runs with another number it ends, once calls in flight are done. A thread that is
        `launching` keeps the number of its first call. A process forked from one that had a thread
        gets its own.
        """
        with self._change:
            if self.threads != threads:
                self._end()
                self._forked = False
                self.threads = threads

    def start(self, threads: int) -> None:
        """As `expect`, and make sure that the own thread runs."""
        with self._change:
            self.expect(threads)
            if self._thread is None:
                self._begin()

    def stop(self) -> None:
        """End the thread once its calls are done; `start` may start another."""
        with self._change:
            self._end()
            self.threads = 0

    def _begin(self) -> None:
        queue = self._queue = SimpleQueue()
        thread = threading.Thread(target=_work, args=(queue,), name="edgewise-kernels", daemon=True)
        try:
            thread.start()
        except BaseException:
            queue.put(None)  # interrupted while it began
            raise
        self._thread = thread
        self._hand_over(self._configure, (self.threads,))

    def _end(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self._thread = None

    def _free_turns(self) -> None:
        self._line = threading.Lock()  # of the one whose turn is next
        self._turn = threading.Lock()
        self._caller: int | None = None  # whose turn it is

    def _after_fork(self) -> None:
        # The threads stayed behind, and whoever held the locks did too.
        self._forked = self._forked or self.threads > 0
        self._thread = None
        self.threads = 0
        self._change = threading.RLock()
        self._free_turns()

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function when it is its turn, and return or raise what it does.

        Where the call is handed over, an exception in the waiting caller, such as
        KeyboardInterrupt, is raised as soon as the call is done, or at once if it has not begun, in
        which case it never will. A function that itself calls does so within its turn.

        Raises:
            DeviceError: ``device.fork`` in a process forked from the one that loaded the kernels,
                ``device.stopped`` before `expect`.
        """
        if not self.threads:
            raise self._no_thread()
        ready = _here.ready
        if ready is None:
            return self._hand_over(function, args)
        if self not in ready:
            self._in_turn(self._configure, (self.threads,))
            ready.add(self)
        return self._in_turn(function, args)

    def _no_thread(self) -> DeviceError:
        if self._forked:
            return DeviceError(
                "This process was forked from the one that loaded the program, and kernel threads "
                "do not survive a fork.",
                remedy="Load the program after forking, or start processes with 'spawn'.",
                code="device.fork",
            )
        return DeviceError("The kernel thread is not running.", code="device.stopped")

    def _in_turn(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function on this thread.

        A lock goes to anyone who asks at the right moment, most often to whoever has just let go.
        So only one asks for the turn, and who has had one waits behind that one.
        """
        here = threading.get_ident()
        if self._caller == here:
            return function(*args)
        with self._line:
            self._turn.acquire()
        self._caller = here
        try:
            return function(*args)
        finally:
            self._caller = None
            self._turn.release()

    def _hand_over(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Have the own thread call a function, and wait for it."""
        if self._caller == threading.get_ident():
            return function(*args)
        job = _Job(self._in_turn, (function, args))
        try:
            with self._change:  # or the thread might just end
                if self._thread is None:
                    self._begin()
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
