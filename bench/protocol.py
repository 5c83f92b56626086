"""How a benchmark talks to an engine: one process per engine, one line per question.

The child first says what it is. Then the parent asks, say, ``prefill 128`` or ``decode 4 128 24``
(sequences, tokens each has, steps) and the child answers with one line of JSON. So samples of
several engines interleave in one run, and none shares a process, a thread pool or an allocator
with another. Standard library only: the child may run in another virtual environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

Answer = dict[str, float]


class Engine(Protocol):
    """What a child implements. Every call returns once its results can be read."""

    def prefill(self, tokens: int) -> None:
        """Runs a new prompt of ``tokens`` up to its last logits."""

    def prepare(self, batch: int, context: int) -> None:
        """Fills ``batch`` sequences with ``context`` tokens, or takes them back to that length."""

    def decode(self, steps: int) -> None:
        """Greedy tokens for the prepared sequences, ``steps`` each."""


def token_at(position: int, sequence: int, vocab: int) -> int:
    """Any token will do, as long as prompts differ and every engine gets the same."""
    return (7919 * (position + 1) + 104729 * sequence) % min(vocab - 8, 30000)


def timed(work: Callable[[], None], threads: int) -> Answer:
    """Wall seconds of ``work`` and the share of ``threads`` cores this process had meanwhile."""
    cpu, start = time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "util": (time.process_time() - cpu) / (seconds * threads)}


def listen(about: Mapping[str, str], questions: Mapping[str, Callable[..., Answer]]) -> None:
    """Says ``about``, then answers lines of standard input until it closes.

    A line is the name of a question and its whole numbers. Answers get ``cpu``: the seconds of
    processor time that this process took for it, of all its threads.
    """
    print(json.dumps(dict(about)), flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        cpu = time.process_time()
        answer = questions[what](*(int(number) for number in numbers))
        print(json.dumps({**answer, "cpu": time.process_time() - cpu}), flush=True)


def serve(
    engine: Engine,
    threads: int,
    about: Mapping[str, str],
    more: Mapping[str, Callable[..., Answer]] | None = None,
) -> None:
    """Answers the questions of ``bench/cpu.py``, ``prefill``, ``decode`` and ``busy``, and more."""

    def decode(batch: int, context: int, steps: int, *, busy: bool = False) -> Answer:
        engine.prepare(batch, context)
        with _busy_thread() if busy else _nothing():
            return timed(lambda: engine.decode(steps), threads)

    questions: dict[str, Callable[..., Answer]] = {
        "prefill": lambda tokens: timed(lambda: engine.prefill(tokens), threads),
        "decode": decode,
        "busy": lambda *sizes: decode(*sizes, busy=True),
        **(more or {}),
    }
    listen(about, questions)


def cold(open_engine: Callable[[], Engine], prompt: int, context: int) -> None:
    """Prints what a fresh process pays, in seconds, and its peak memory.

    ``load`` is from opening the model to being ready, libraries imported before; ``ready`` and
    ``first_token`` count from the start of the process. The peak covers ``prompt`` tokens prefilled
    and a sequence of ``context`` tokens that decodes.
    """
    start = time.perf_counter()
    engine = open_engine()
    load, ready = time.perf_counter() - start, process_age()
    engine.prefill(prompt)
    first = process_age()
    engine.prepare(1, context)
    engine.decode(8)
    answer = {"load": load, "ready": ready, "first_token": first, "peak_mib": peak_mib()}
    print(json.dumps(answer), flush=True)


def process_age() -> float:
    """Seconds since this process started, to about 10 ms."""
    # The command name before the last parenthesis may hold spaces; the start follows as field 22.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def peak_mib() -> float:
    """The most memory this process has had resident, MiB, mapped files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@contextmanager
def _busy_thread() -> Iterator[None]:
    stop = Event()

    def spin() -> None:
        count = 0
        while not stop.is_set():
            count += 1

    thread = Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@dataclass(frozen=True)
class Command:
    """How to start an engine's child: interpreter, script and arguments."""

    python: Path
    script: Path
    args: tuple[str, ...]

    def line(self, *more: str) -> list[str]:
        return [str(self.python), str(self.script), *self.args, *more]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}


class Driver:
    """The parent's end of one child."""

    def __init__(self, command: Command, log: Path) -> None:
        self._command = command
        self._log = log
        with log.open("wb") as errors:
            self._child = subprocess.Popen(
                command.line(),
                env=command.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.about: dict[str, str] = self._read()

    def ask(self, question: str) -> Answer:
        """One answer; RuntimeError with the child's last words when it died."""
        stdin = self._child.stdin
        if stdin is not None:
            stdin.write(question + "\n")
            stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._child.stdout.readline() if self._child.stdout is not None else ""
        if not line:
            self.close()
            raise RuntimeError(f"{self._command.script.name}: {tail(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._child.communicate()


def ask_cold(command: Command, log: Path) -> Answer:
    """The answer of :func:`cold` from a process of its own."""
    with log.open("wb") as errors:
        done = subprocess.run(
            command.line("--cold"),
            env=command.environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{command.script.name}: {tail(log)}")
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


def tail(log: Path, characters: int = 2000) -> str:
    return log.read_text("utf-8", "replace")[-characters:]
