"""`edgewise compile` ends when it is told to, whatever it is doing, and leaves nothing behind."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import eventually, running
from tests.sdk.cli.commands import command, environment

pytestmark = pytest.mark.landing

# As the bundles that other tests share: what TVM made for them is kept.
OPTIONS = ("--quant", "q4", "--prefill-chunk", "128")


@dataclass(frozen=True)
class Compiling:
    """A command in the middle of its work.

    Attributes:
        program: `edgewise compile`.
        keyboard: the person's side of the terminal that it runs in.
        linker: the process that the compiler waits for.
    """

    program: subprocess.Popen[bytes]
    keyboard: int
    linker: int


@contextmanager
def compiling(checkpoint: Path, folder: Path, *, deaf: bool) -> Iterator[Compiling]:
    """Compile with a linker that never ends.

    Args:
        deaf: stop the compiler meanwhile, which then hears of nothing, as in the middle of TVM.
    """
    started, tools = folder / "started", folder / "tools"
    tools.mkdir()
    stop = "kill -STOP $PPID" if deaf else ":"
    (tools / "cc").write_text(
        f"#!/bin/sh\n{stop}\necho $$ > {started}.new\nmv {started}.new {started}\n"
        f"exec {shutil.which('sleep')} 1000\n"
    )
    (tools / "cc").chmod(0o755)
    with ExitStack() as stack:
        keyboard, terminal = pty.openpty()
        stack.callback(_close, keyboard)
        said = stack.enter_context((folder / "said").open("wb"))
        program = stack.enter_context(
            subprocess.Popen(
                command("compile", checkpoint, "-o", folder / "dist/bundle", *OPTIONS),
                stdin=terminal,
                stdout=said,
                stderr=said,
                env=environment(PATH=f"{tools}:{os.environ['PATH']}"),
                start_new_session=True,
                # Opening a terminal in a new session makes it the one whose Ctrl-C counts.
                preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
            )
        )
        os.close(terminal)
        stack.callback(program.kill)
        assert eventually(lambda: started.exists() or program.poll() is not None)
        assert program.poll() is None, (folder / "said").read_text()
        yield Compiling(program, keyboard, int(started.read_text()))


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


def ctrl_c(now: Compiling) -> None:
    os.write(now.keyboard, b"\x03")


def close_the_terminal(now: Compiling) -> None:
    os.close(now.keyboard)


def terminate(now: Compiling) -> None:
    now.program.terminate()


def kill(now: Compiling) -> None:
    now.program.kill()


@pytest.mark.parametrize(
    ("end", "deaf", "status"),
    [
        (ctrl_c, True, 130),
        (terminate, False, -signal.SIGTERM),
        # What is different here, which signal comes, test_ending.py shows as well.
        pytest.param(close_the_terminal, True, -signal.SIGHUP, marks=pytest.mark.full),
        (kill, False, -signal.SIGKILL),
    ],
)
def test_nothing_is_left_of_a_compilation_that_is_ended(
    end: Callable[[Compiling], None],
    deaf: bool,
    status: int,
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    with compiling(checkpoints("llama-gqa2-tied-linear"), tmp_path, deaf=deaf) as now:
        dist = tmp_path / "dist"
        assert len(list(dist.iterdir())) == 1, "the folder that is being filled"
        end(now)
        assert now.program.wait(timeout=60) == status
        # Where the command is killed, its compiler notices and cleans up.
        assert eventually(lambda: not running(now.linker))
        assert eventually(lambda: not dist.exists() or not list(dist.iterdir()))
    assert "Traceback" not in (tmp_path / "said").read_text()
