"""Who calls kernels: calls in turn, interrupts that wait, and errors that come back."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import pytest

from edgewise_runtime.devices.kernel_thread import KernelThread, launching
from edgewise_runtime.errors import DeviceError


@pytest.fixture
def thread() -> Iterator[KernelThread]:
    running = KernelThread(lambda threads: None)
    running.start(2)
    yield running
    running.stop()


class CtrlC:
    """Presses Ctrl-C in the main thread, which waits in a call meanwhile."""

    def __init__(self) -> None:
        self._raised = threading.Event()

    def press(self) -> None:
        """From another thread: return once the main thread has been interrupted."""
        main = threading.main_thread().ident
        assert main is not None
        self._raised.clear()
        signal.pthread_kill(main, signal.SIGINT)
        assert self._raised.wait(10)

    def raise_(self, number: int, frame: object) -> None:
        self._raised.set()
        raise KeyboardInterrupt


@pytest.fixture
def ctrl_c() -> Iterator[CtrlC]:
    made = CtrlC()
    previous = signal.signal(signal.SIGINT, made.raise_)
    yield made
    signal.signal(signal.SIGINT, previous)


def test_calls_run_on_one_other_thread_and_return(thread: KernelThread) -> None:
    idents = {thread.call(threading.get_ident) for _ in range(5)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents
    assert thread.call(divmod, 7, 2) == (3, 1)


def test_errors_come_back_and_the_thread_lives_on(thread: KernelThread) -> None:
    for error in (ZeroDivisionError, SystemExit, KeyboardInterrupt):

        def fail(kind: type[BaseException] = error) -> None:
            raise kind

        with pytest.raises(error):
            thread.call(fail)
    assert thread.call(len, "abc") == 3


def test_a_call_from_the_thread_itself_runs_at_once(thread: KernelThread) -> None:
    assert thread.call(thread.call, len, "abc") == 3


def test_the_thread_is_configured_first_and_anew_for_another_number() -> None:
    events: list[tuple[int, int]] = []
    thread = KernelThread(lambda threads: events.append((threads, threading.get_ident())))
    with pytest.raises(DeviceError) as error:
        thread.call(len, "")
    assert error.value.code == "device.stopped"
    for threads in (2, 2, 3):
        thread.start(threads)
        assert thread.threads == threads
        assert events[-1] == (threads, thread.call(threading.get_ident))
    assert [threads for threads, _ in events] == [2, 3]
    thread.stop()
    thread.stop()
    with pytest.raises(DeviceError):
        thread.call(len, "")
    thread.start(2)
    assert thread.call(len, "abc") == 3
    thread.stop()


def launch(function: Callable[[], object]) -> threading.Thread:
    """Run a function on a new thread that makes its calls itself."""

    def work() -> None:
        with launching():
            function()

    made = threading.Thread(target=work)
    made.start()
    return made


def test_a_thread_that_launches_makes_its_calls_itself() -> None:
    configured: list[tuple[int, int]] = []
    thread = KernelThread(lambda threads: configured.append((threads, threading.get_ident())))
    thread.expect(3)
    found: list[int] = []

    def work() -> None:
        found.extend(thread.call(threading.get_ident) for _ in range(5))
        # A call within a call has its turn already.
        found.append(thread.call(thread.call, threading.get_ident))
        with pytest.raises(ZeroDivisionError):
            thread.call(divmod, 1, 0)
        found.append(thread.call(threading.get_ident))

    names = {other.name for other in threading.enumerate()}
    launcher = launch(work)
    launcher.join()
    assert set(found) == {launcher.ident}
    assert configured == [(3, launcher.ident)]
    assert {other.name for other in threading.enumerate()} <= names
    # Others still hand theirs over, to a thread that begins now.
    assert thread.call(threading.current_thread) not in (launcher, threading.current_thread())
    assert [threads for threads, _ in configured] == [3, 3]
    thread.stop()


def test_threads_that_launch_take_turns_and_nobody_has_two_in_a_row(thread: KernelThread) -> None:
    calls: list[str] = []
    busy = set("ab")
    ready = threading.Barrier(2)
    within = threading.Lock()

    def call(name: str) -> None:
        assert within.acquire(blocking=False)
        calls.append(name)
        # Not before the other one waits for its turn.
        while len(busy) == 2 and not thread._line.locked():
            time.sleep(0)
        within.release()

    def work(name: str) -> None:
        # The turn in which a thread is made ready for its calls is one, too.
        thread.call(int)
        ready.wait()
        for _ in range(50):
            thread.call(call, name)
        busy.discard(name)

    launchers = [launch(partial(work, name)) for name in "ab"]
    for launcher in launchers:
        launcher.join()
    assert len(calls) == 100
    assert all(one != other for one, other in pairwise(calls))


def test_calls_that_are_handed_over_take_turns_with_those_that_are_not(
    thread: KernelThread,
) -> None:
    together: list[int] = []
    running: list[None] = []

    def call() -> None:
        running.append(None)
        time.sleep(0.001)
        together.append(len(running))
        running.pop()

    def work() -> None:
        for _ in range(20):
            thread.call(call)

    launcher, other = launch(work), threading.Thread(target=work)
    other.start()
    for made in (launcher, other):
        made.join()
    assert together == [1] * 40


def test_a_process_forked_from_one_with_kernels_is_told_so(thread: KernelThread) -> None:
    seen: list[str] = []

    def ask() -> None:
        with pytest.raises(DeviceError) as error:
            thread.call(len, "abc")
        seen.append(error.value.code)

    thread._after_fork()  # as in the child, where neither thread is
    ask()
    launch(ask).join()
    assert seen == ["device.fork"] * 2
    thread.expect(2)
    assert thread.call(len, "abc") == 3


@pytest.mark.parametrize("times", [1, 4])
def test_interrupts_wait_for_the_call_that_runs(
    thread: KernelThread, ctrl_c: CtrlC, times: int
) -> None:
    done = threading.Event()

    def work() -> None:
        for _ in range(times):
            ctrl_c.press()
            time.sleep(0.1)
        done.set()

    with pytest.raises(KeyboardInterrupt):
        thread.call(work)
    assert done.is_set()


@pytest.mark.parametrize("restarting", [False, True])
def test_an_interrupted_call_that_has_not_begun_never_does(
    thread: KernelThread, ctrl_c: CtrlC, restarting: bool
) -> None:
    signal.siginterrupt(signal.SIGINT, not restarting)
    release, ran = threading.Event(), []
    other = threading.Thread(target=thread.call, args=(release.wait, 10))
    other.start()
    timer = threading.Timer(0.1, ctrl_c.press)

    def wait_for_the_turn() -> None:
        # Started in here: a slow machine must not be interrupted before it expects it.
        timer.start()
        thread.call(ran.append, 1)

    begin = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        wait_for_the_turn()
    assert time.perf_counter() - begin < 5
    release.set()
    other.join()
    timer.join()
    assert thread.call(len, "abc") == 3
    assert ran == []


def test_arguments_are_let_go_when_the_call_is_over(thread: KernelThread) -> None:
    class Large:
        pass

    large = Large()
    gone = weakref.ref(large)
    thread.call(lambda held: None, large)
    del large
    # The thread lets go right after it says that it is done.
    deadline = time.perf_counter() + 5
    while gone() is not None and time.perf_counter() < deadline:
        gc.collect()
        time.sleep(0.001)
    assert gone() is None
