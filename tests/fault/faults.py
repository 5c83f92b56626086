"""What the system may refuse, and a process in which it does.

One process imports what takes long, and forks for every fault: the child arms `shim.c` and does
what is tried, so a fault costs what it interrupts and no more.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from tests.sdk.cli.commands import ROOT, environment

KINDS = ("open", "read", "write", "rename", "sync", "folder", "memory")
"""What `shim.c` counts: files opened, reads, writes (and space reserved), renames and links,
flushes, folders made, and large pieces of memory."""

REFUSALS: dict[str, tuple[int, ...]] = {
    "open": (errno.EMFILE, errno.EIO),
    "read": (errno.EIO,),
    "write": (errno.ENOSPC, errno.EIO),
    "rename": (errno.EIO, errno.ENOSPC),
    "sync": (errno.EIO,),
    "folder": (errno.ENOSPC,),
    "memory": (errno.ENOMEM,),
}
"""How the system refuses each of them."""

KILL_BEFORE, KILL_AFTER = -1, -2
"""Instead of a refusal: the process is killed just before the call, or just after it."""

LIMIT_S = 120
"""Seconds that only what hangs takes."""


@dataclass(frozen=True)
class Fault:
    """The n-th call of a kind, from 1, and what becomes of it: a number of errno.h, or a kill."""

    kind: str
    nth: int
    action: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}: {errno.errorcode.get(self.action, str(self.action))}"


@dataclass(frozen=True)
class Outcome:
    """How a try ended.

    Attributes:
        signal: what killed the process, or 0.
        code: of the EdgewiseError; "" where there was none.
        error: any other exception, as a traceback; "" where there was none.
        calls: how many calls of each kind there were, where it was not killed.
    """

    signal: int
    code: str = ""
    error: str = ""
    calls: Mapping[str, int] | None = None


class Trial:
    """A process that does one thing again and again, with another fault each time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, fault: Fault | None) -> Outcome:
        """Do it once; without a fault the calls are counted."""
        asked = asdict(fault or Fault("open", 0, 0))
        requests, answers = self._process.stdin, self._process.stdout
        print(json.dumps(asked), file=cast("IO[str]", requests), flush=True)
        said = cast("IO[str]", answers).readline()
        assert said, "the process that forks has ended"
        answer: dict[str, Any] = json.loads(said)
        return Outcome(**answer)


@contextmanager
def trial(what: str, folder: Path, shim: Path, **variables: str) -> Iterator[Trial]:
    """A process for one of `doings.DOINGS`, whose files are all under `folder`."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fault.doings", what, str(folder), str(LIMIT_S)],
        cwd=ROOT,
        env=environment(
            LD_PRELOAD=str(shim),
            TMPDIR=str(temporary),
            XDG_CACHE_HOME=str(folder / "cache"),
            PYTHONPATH=os.pathsep.join([str(ROOT), environment()["PYTHONPATH"]]),
            **variables,
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Trial(process)
        cast("IO[str]", process.stdin).close()
