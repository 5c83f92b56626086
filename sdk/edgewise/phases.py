"""Progress in words and bars: which phase it is, and how much of it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from edgewise.cache import Progress as Tell
from edgewise.console import stderr_console
from edgewise.hub.names import DOWNLOADING
from edgewise.units import size

MEASURED_S = 3.0
"""Seconds of a phase after which it is told how long the rest will take."""

LINE_S = 10.0
"""Seconds between lines about one phase where there is no terminal to draw bars in."""


def in_bytes(phase: str) -> bool:
    """Whether the numbers of a phase are bytes."""
    from edgewise_compiler.phases import IN_BYTES

    return phase == DOWNLOADING or phase in IN_BYTES


class _HowFar(ProgressColumn):
    """How much of a phase is done, since when, how long it will take; of bytes how fast, too."""

    def __init__(self, *, speed: bool) -> None:
        super().__init__(Column(no_wrap=True))
        self._speed = speed

    def render(self, task: Task) -> Text:
        """The words of one line, which leave the speed out where there is little room."""
        words, counted = f"{task.percentage:>3.0f} %", in_bytes(task.description)
        if counted:
            words += f" of {size(task.total or 0)}"
        if task.finished:
            return Text(f"{words} {_clock(task.finished_time)}")
        if counted and self._speed and task.speed:
            words += f", {size(task.speed)}/s"
        if (task.elapsed or 0) >= MEASURED_S and task.time_remaining is not None:
            return Text(f"{words}, {_clock(task.time_remaining)} left")
        return Text(words if counted else f"{words} {_clock(task.elapsed)}")


def _so_far(phase: str, done: int, total: int, speed: float) -> str:
    """A line about a phase that goes on."""
    words = f"{100 * done // total} %"
    if in_bytes(phase):
        words += f" of {size(total)}, {size(speed)}/s"
    return words if speed <= 0 else f"{words}, {_clock((total - done) / speed)} left"


def _clock(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    whole = int(seconds or 0)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


@dataclass
class _Told:
    """A phase that is told of in lines: when it began, at how much, and when a line was printed."""

    began: float
    first: int
    printed: float
    ended: bool = False

    def speed(self, done: int, now: float) -> float:
        """How much of it a second."""
        return (done - self.first) / max(now - self.began, 1e-9)


class Phases:
    """Hears about phases (see `edgewise.cache.Progress`) and shows them on stderr with times.

    In a terminal they are bars; elsewhere a line at the end of each, and one every `LINE_S` of what
    takes long.

    with Phases() as phases:
        compile_apart(path, out, progress=phases)
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or stderr_console(soft_wrap=False)
        self._bars = (
            Progress(
                SpinnerColumn(finished_text="✓"),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=max(8, min(30, self._console.width - 60))),
                _HowFar(speed=self._console.width >= 76),
                console=self._console,
                get_time=perf_counter,
                redirect_stdout=False,  # what a program prints meanwhile stays where it goes
            )
            if self._console.is_terminal
            else None
        )
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, _Told] = {}

    def __call__(self, phase: str, done: int, total: int) -> None:
        if self._bars is not None:
            if phase not in self._tasks:
                self._tasks[phase] = self._bars.add_task(phase, total=total or 1)
            self._bars.update(self._tasks[phase], completed=done if total else 1, total=total or 1)
            return
        self._tell(phase, done, total)

    def _tell(self, phase: str, done: int, total: int) -> None:
        """Print what there is to say where there is no terminal."""
        now = perf_counter()
        if phase not in self._told:
            self._told[phase] = _Told(now, done, now)
            if phase == DOWNLOADING:
                self._print(f"{phase} {size(total - done)}")
        told = self._told[phase]
        if told.ended:
            return
        if done >= total:
            told.ended = True
            words = f"{phase}: {now - told.began:.1f} s"
            if in_bytes(phase) and now - told.began >= MEASURED_S:
                words += f", {size(total)}, {size(told.speed(total, now))}/s"
            self._print(words)
        elif now - told.printed >= LINE_S:
            told.printed = now
            self._print(f"{phase}: {_so_far(phase, done, total, told.speed(done, now))}")

    def _print(self, words: str) -> None:
        self._console.print(words, markup=False)

    def __enter__(self) -> Phases:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()


@contextmanager
def told(progress: Tell | None, doing: str) -> Iterator[Tell | None]:
    """Whom to tell of progress in a block: `progress`, or a terminal where there is none.

    Args:
        doing: said before the first phase, if there is any.
    """
    console = stderr_console(soft_wrap=False)
    if progress is not None or not console.is_terminal:
        yield progress
        return
    with ExitStack() as bars:

        def tell(phase: str, done: int, total: int) -> None:
            if not shown:
                console.print(doing, markup=False, soft_wrap=True)
                shown.append(bars.enter_context(Phases(console)))
            shown[0](phase, done, total)

        shown: list[Phases] = []
        yield tell
