"""What commands print: where to, sizes and speeds in words for people, progress by phases."""

from __future__ import annotations

from pathlib import Path
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

from edgewise.cli.stored import stored_by_scheme
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.format.bundle import Bundle

IN_BYTES = ("Downloading",)
"""Phases whose numbers are bytes."""
MEASURED_S = 3.0
"""Seconds of a phase after which it is told how long the rest will take."""
WIDE = 10_000
"""Columns where nobody looks: each row of a table stays one line for whatever reads it."""

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def stdout_console() -> Console:
    """The console of a command's result; markup and emoji in names and texts mean nothing to it."""
    console = Console(emoji=False, highlight=False, soft_wrap=True, markup=False)
    if not console.is_terminal:
        console.width = WIDE
    return console


def stderr_console(*, soft_wrap: bool = True) -> Console:
    """The console of what is said beside a result; emoji in names and texts mean nothing to it."""
    return Console(stderr=True, emoji=False, highlight=False, soft_wrap=soft_wrap)


def size(count: float) -> str:
    """Return a number of bytes in the unit that leaves one to four digits before the point."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} {_UNITS[unit]}" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def stored_again(path: Path, quant: str) -> str:
    """Return what becomes of the weights of a GGUF file that are not kept as they are."""
    return f"The weights of {path.name} are read as floats and stored again as {quant}."


def came_out(bundle: Bundle) -> str:
    """Return how the weights of a bundle are stored, in bytes by scheme."""
    layout = bundle.manifest.layouts[bundle.manifest.programs[0].layout]
    schemes = [f"{name} {size(stored.bytes)}" for name, stored in stored_by_scheme(layout).items()]
    return f"Weights, {bundle.model.stored}: {', '.join(schemes)}"


def speed(completion: Completion) -> str:
    """Return tokens, tokens per second, the time to the first token, and what else is to know."""
    timings, count = completion.timings, completion.usage.completion_tokens
    rate = timings.decode_tokens_per_s
    parts = [f"{count} token" if count == 1 else f"{count} tokens"]
    if rate:
        parts.append(f"{rate:.1f} tokens/s")
    parts.append(f"first token after {timings.ttft_s:.2f} s")
    metrics = completion.metrics
    if metrics is not None and metrics.draft_proposed:
        parts.append(f"{metrics.draft_accepted} of {metrics.draft_proposed} guesses right")
    if completion.context_full:
        parts.append("the context is full")
    return " · ".join(parts)


class _HowFar(ProgressColumn):
    """How much of a phase is done, and since when; of bytes how fast, and how long it will take."""

    def __init__(self, *, speed: bool) -> None:
        super().__init__(Column(no_wrap=True))
        self._speed = speed

    def render(self, task: Task) -> Text:
        """The words of one line, which leave the speed out where there is little room."""
        words = f"{task.percentage:>3.0f} %"
        if task.description in IN_BYTES:
            words += f" of {size(task.total or 0)}"
        if task.finished or task.description not in IN_BYTES:
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
        compile_model(path, out, progress=phases)
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or stderr_console(soft_wrap=False)
        self._bars = (
            Progress(
                SpinnerColumn(finished_text="✓"),
                TextColumn("{task.description}"),
                BarColumn(bar_width=max(8, min(30, self._console.width - 60))),
                _HowFar(speed=self._console.width >= 76),
                console=self._console,
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
        if phase in IN_BYTES and phase not in self._started:
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
