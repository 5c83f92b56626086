"""The process that `apart` starts: asked by one line of JSON, it answers with lines of JSON.

A line of progress is ``{"progress": [phase, done, total]}``. The last line is ``{"done": true}`` or
``{"error": {"kind", "message", "remedy", "code"}}``. What is no error of ours ends the process with
a traceback.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from types import FrameType
from typing import IO, Any

from edgewise_runtime.errors import EdgewiseError

STDIN, STDOUT, STDERR = 0, 1, 2


def main() -> None:
    """Compile what is asked for on stdin; SIGTERM, or the end of stdin, interrupts it."""
    # What TVM or a linker prints is no answer.
    answers = os.fdopen(os.dup(STDOUT), "w", encoding="utf-8", buffering=1)
    os.dup2(STDERR, STDOUT)
    signal.signal(signal.SIGTERM, _leave)
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_watch, daemon=True).start()
    # Here: whoever asked may end before this has been loaded.
    from edgewise_compiler.compile import compile_model

    try:
        compile_model(**request, progress=lambda *step: _say(answers, {"progress": step}))
    except EdgewiseError as error:
        about = {"message": error.message, "remedy": error.remedy, "code": error.code}
        _say(answers, {"error": {"kind": type(error).__name__, **about}})
    else:
        _say(answers, {"done": True})


def _say(answers: IO[str], what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")


def _leave(number: int, frame: FrameType | None) -> None:
    """End as after an exception: every block on the way out removes what it has made."""
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


def _watch() -> None:
    """End when the process that asked does, however it ends: its end of the pipe closes then."""
    os.read(STDIN, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
