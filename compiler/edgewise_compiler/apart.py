"""Compiling in a process of its own, so that whoever asked for it can be interrupted at any moment.

TVM is in native code for seconds at a time, and its solver takes Ctrl-C for itself; a process can
be ended. It also takes TVM's memory with it, and a crash of LLVM leaves its caller alive.
Loading this module loads no TVM.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypedDict, Unpack, cast

from edgewise_compiler.targets.table import DEFAULT, TARGETS, check_tools
from edgewise_runtime import errors
from edgewise_runtime.errors import CompileError, EdgewiseError
from edgewise_runtime.folders import remove_unfinished
from edgewise_runtime.installed import TVM, need

GRACE_S = 0.5
"""Seconds in which a compiler that is told to end may remove what it has made."""

_LINES = 50  # of what the compiler wrote last, to be shown where it ended for no other reason

_REMEDIES = {
    signal.SIGKILL: "Most likely memory ran out: free some, or compile on a larger machine.",
}
_REPORT = "Report it with config.json of the model and what `edgewise doctor` prints."


class CompileOptions(TypedDict, total=False):
    """What can be asked of `compile.compile_model`, which says what each of them means."""

    targets: Sequence[str]
    quant: str | None
    recipe: str | Path | None
    bits: float | None
    context: int | None
    least_context: int
    max_batch: int | None
    prefill_chunk: int
    cpu: str
    kv: str
    calibrate: str | Path | bool | None
    debug_dump: str | Path | None
    once: bool


def check_installed(targets: Sequence[str | None]) -> None:
    """Raise what compiling for these targets would where something that it needs is missing.

    None stands for the default target; a name that is none is left to the compiler.
    """
    names = {name or DEFAULT[0] for name in targets}
    if names:
        need(TVM)
        check_tools(names & TARGETS.keys())


def compile_apart(
    path: str | Path,
    out: str | Path,
    *,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Unpack[CompileOptions],
) -> Path:
    """As `compile.compile_model`, in a process that ends with whatever ends this call.

    An exception here, KeyboardInterrupt and one of ``progress`` included, ends the compiler within
    about half a second and leaves nothing of its work. Where this process is killed, the compiler
    notices, removes what it has made, and ends.

    Raises:
        EdgewiseError: what `compile_model` raises; also CompileError ``compile.tvm`` where TVM is
            not installed, ``compile.ended`` where the compiler was killed or crashed, and
            ``internal`` where it failed for no known reason.
    """
    need(TVM)
    request = json.dumps({"path": path, "out": out, **options}, default=os.fspath)
    destination = Path(out)
    with _compiler(destination) as compiler:
        errors_written = _last_lines(cast("IO[str]", compiler.stderr))
        with suppress(BrokenPipeError):  # it has ended, and the answer says so
            _send(cast("IO[str]", compiler.stdin), request)
        answer = _answer(cast("IO[str]", compiler.stdout), progress)
        compiler.wait()
        if answer is None:
            raise _unexpected(compiler.returncode, errors_written())
    if "error" in answer:
        raise _as_raised(**answer["error"])
    return destination


@contextmanager
def _compiler(destination: Path) -> Iterator[subprocess.Popen[str]]:
    """The process, with pipes; on any exception it is ended, and what it left removed."""
    compiler = subprocess.Popen(
        # -P: a file that happens to lie in the current folder is no module of ours.
        [sys.executable, "-P", "-m", "edgewise_compiler.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whatever made our packages importable here makes them so there.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
        encoding="utf-8",
        errors="replace",
        # Ctrl-C is for this process, which then ends that one.
        process_group=0,
    )
    try:
        yield compiler
    except BaseException:
        _end(compiler)
        remove_unfinished(destination)
        raise
    finally:
        for pipe in (compiler.stdin, compiler.stdout):
            with suppress(BrokenPipeError):
                cast("IO[str]", pipe).close()


def _end(compiler: subprocess.Popen[str]) -> None:
    """Let the compiler clean up, but not for long, and wait until nothing of it is left."""
    compiler.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            compiler.wait(GRACE_S)
    finally:
        if compiler.poll() is None:
            os.killpg(compiler.pid, signal.SIGKILL)  # a linker that it runs, too
            compiler.wait()


def _send(requests: IO[str], request: str) -> None:
    """Ask; the pipe stays open, and that it is closes tells the compiler that nobody waits."""
    requests.write(f"{request}\n")
    requests.flush()


def _answer(
    answers: IO[str], progress: Callable[[str, int, int], None] | None
) -> dict[str, Any] | None:
    """What the compiler says at its end, None where it ends without a word."""
    for line in answers:
        if not line.endswith("\n"):
            return None
        said: dict[str, Any] = json.loads(line)
        if "progress" not in said:
            return said
        if progress is not None:
            progress(*said["progress"])
    return None


def _last_lines(stream: IO[str]) -> Callable[[], str]:
    """Read a stream to its end in the background; the result waits for it and has its end."""
    lines: deque[str] = deque(maxlen=_LINES)

    def read() -> None:
        with stream:
            lines.extend(stream)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()

    def last() -> str:
        reader.join(GRACE_S)
        return "".join(lines).strip()

    return last


def _as_raised(kind: str, message: str, remedy: str, code: str) -> EdgewiseError:
    made: type[EdgewiseError] = getattr(errors, kind)
    return made(message, remedy=remedy, code=code)


def _unexpected(status: int, written: str) -> CompileError:
    """The error for a compiler that ended without saying why; what it wrote becomes a note."""
    if status < 0:
        name = signal.Signals(-status)
        error = CompileError(
            f"The compiler was ended by {name.name}.",
            remedy=_REMEDIES.get(name, _REPORT),
            code="compile.ended",
        )
    else:
        why = written.splitlines()[-1:] or [f"it ended with status {status}"]
        error = CompileError(
            f"Something went wrong inside the compiler: {why[0]}",
            remedy="Set EDGEWISE_DEBUG=1 to see where.",
            code="internal",
        )
    if written:
        error.add_note(written)
    return error
