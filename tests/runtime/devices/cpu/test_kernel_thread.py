"""The one kernel thread: calls in turn, interrupts that wait, and errors that come back."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from edgewise_runtime.devices.cpu.kernel_thread import KernelThread
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
