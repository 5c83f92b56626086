"""Progress in words and bars: which phase it is, and how much of it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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


class _HowFar(ProgressColumn):
    """How much of a phase is done, and since when; of bytes how fast, and how long it will take."""

    def __init__(self, *, speed: bool) -> None:
        super().__init__(Column(no_wrap=True))
        self._speed = speed

    def render(self, task: Task) -> Text:
        """The words of one line, which leave the speed out where there is little room."""
        words = f"{task.percentage:>3.0f} %"
        if task.description == DOWNLOADING:
            words += f" of {size(task.total or 0)}"
        if task.finished or task.description != DOWNLOADING:
            return Text(f"{words} {_clock(task.finished_time or task.elapsed)}")
        if self._speed and task.speed:
            words += f", {size(task.speed)}/s"
        if (task.elapsed or 0) >= MEASURED_S and task.time_remaining is not None:
            words += f", {_clock(task.time_remaining)} left"
        return Text(words)


def _clock(seconds: float | None) -> str:
    """Hours, minutes and seconds."""
    whole = int(seconds or 0)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class Phases:
    """Hears about phases (see `edgewise.cache.Progress`) and shows them on stderr with times.

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
                redirect_stdout=False,  # what a program prints meanwhile stays where it goes
            )
            if self._console.is_terminal
            else None
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, float] = {}

    def __call__(self, phase: str, done: int, total: int) -> None:
        if self._bars is not None:
            if phase not in self._tasks:
                self._tasks[phase] = self._bars.add_task(phase, total=total or 1)
            self._bars.update(self._tasks[phase], completed=done if total else 1, total=total or 1)
            return
        if phase == DOWNLOADING and phase not in self._started:
            self._console.print(f"{phase} {size(total - done)}", markup=False)
        started = self._started.setdefault(phase, perf_counter())
        if done >= total and phase not in self._tasks:
            self._tasks[phase] = TaskID(0)
            self._console.print(f"{phase}: {perf_counter() - started:.1f} s", markup=False)

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
