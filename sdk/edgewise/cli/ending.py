"""SIGTERM and SIGHUP end a command as Ctrl-C does: what is half made is removed first."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = tuple(one for one in signal.Signals if one.name in ("SIGTERM", "SIGHUP"))


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let these signals unwind the block as an exception, and end the process by them after it.

    So whoever sent one, a shell or a supervisor, sees what it expects. One that is ignored, as
    `nohup` has it, stays so, and so does one that somebody else handles. Outside the main thread,
    where Python handles no signals, nothing changes.
    """
    ours = [one for one in ENDING if signal.getsignal(one) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    received: list[int] = []
    restore = _terminal()

    def leave(number: int, frame: FrameType | None) -> None:
        for one in ours:
            signal.signal(one, signal.SIG_IGN)  # once is enough
        received.append(number)
        raise SystemExit(128 + number)

    for one in ours:
        signal.signal(one, leave)
    try:
        yield
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)
        if received:
            restore()  # who edits lines in it may not have come to that
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):  # gone, closed, or none at all
                    stream.flush()
            signal.raise_signal(received[0])


def _terminal() -> Callable[[], None]:
    """What sets the terminal to what it is now; nothing where there is none."""
    try:
        import termios
    except ImportError:  # Windows
        return lambda: None
    try:
        descriptor = sys.stdin.fileno()
        now = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        return lambda: None

    def restore() -> None:
        with suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSANOW, now)

    return restore
