"""Progress in words and bars: which phase it is, and how much of it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from edgewise.cache import Progress as Tell


class Phases:
    """Hears about phases (see `edgewise.cache.Progress`) and shows them on stderr with times.

    with Phases() as phases:
        compile_apart(path, out, progress=phases)
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _stderr()
        self._bars = (
            Progress(
                SpinnerColumn(finished_text="✓"),
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
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
        doing: said before the bars.
    """
    console = _stderr()
    if progress is not None or not console.is_terminal:
        yield progress
        return
    console.print(doing, markup=False, soft_wrap=True)
    with Phases(console) as phases:
        yield phases


def _stderr() -> Console:
    return Console(stderr=True, emoji=False, highlight=False)
