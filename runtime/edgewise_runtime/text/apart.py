"""Tokenizing in a process of its own, by rules that may take any time and memory.

The child is given the files once, then texts, each answered by token ids. It ends itself where one
takes too long, and the kernel ends it where it takes too much; the next text starts another.
"""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
from array import array
from collections.abc import Mapping
from contextlib import suppress
from enum import IntEnum
from threading import Lock
from typing import IO, Any
from weakref import finalize

from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from edgewise_runtime.errors import CheckpointError, UnsupportedError, raised_by_rust
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.tokens import plain_ids, register

SECONDS = 10.0
"""What opening the files may take, and what each text."""

MEMORY = 4 << 30
"""Bytes of address space."""

_ASKED = struct.Struct("<QB")
_ANSWERED = struct.Struct("<?Q")


class Ids(IntEnum):
    """Which ids of a text are asked for."""

    ITS_OWN = 0
    ADDED = 1
    """With what a post-processor adds."""
    PLAIN = 2
    """By the model alone: no added tokens are looked for."""


class Apart:
    """A tokenizer in another process, from several threads one text after another."""

    def __init__(
        self,
        tokenizer: str,
        config: Mapping[str, Any],
        *,
        seconds: float = SECONDS,
    ) -> None:
        """Start the process, and have it open the files.

        Args:
            tokenizer: tokenizer.json.
            config: what `register` reads of the files beside it.
            seconds: what opening the files may take, and what each text.

        Raises CheckpointError where they cannot be used.
        """
        if not hasattr(signal, "setitimer"):
            raise UnsupportedError(
                "The tokenizer looks for a regular expression that may take any time, and no "
                "process can be kept from that here.",
                remedy="Use it on Linux or macOS.",
                code="unsupported.tokenizer",
            )
        self._files = json.dumps([tokenizer, dict(config), seconds]).encode()
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._start()

    def encode(self, text: str, which: Ids) -> list[int]:
        """The ids of a text.

        Raises CheckpointError where the tokenizer fails on the text, or takes too long or too much.
        """
        raw = text.encode()
        with self._lock:
            if not self._process:
                self._start()
            answer = self._ask(_ASKED.pack(len(raw), which) + raw, shorten(text))
        return array("I", answer).tolist()

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        finalize(self, _end, process)
        self._process = process
        self._ask(_ASKED.pack(len(self._files), Ids.ITS_OWN) + self._files, "tokenizer.json")

    def _ask(self, question: bytes, what: str) -> bytes:
        """The answer. Where there is none the process has ended, and is forgotten."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise _failed(what, "it has ended")
        try:
            _write(process.stdin, question)
            failed, size = _ANSWERED.unpack(_read(process.stdout, _ANSWERED.size))
            answer = _read(process.stdout, size)
        except OSError:
            self._process = None
            slow = _end(process) == -signal.SIGALRM
            most = f"{self._seconds} s" if slow else f"{MEMORY >> 30} GiB of memory"
            raise _failed(what, f"it takes more than {most}") from None
        if failed:
            raise _failed(what, answer.decode(errors="replace"))
        return answer


def _failed(what: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"The tokenizer fails on {what}: {why}.",
        remedy="Shorten the text, or use the tokenizer of the model's publisher.",
        code="checkpoint.tokenizer",
    )


def _end(process: subprocess.Popen[bytes]) -> int:
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):
                pipe.close()
    try:
        return process.wait(1)  # it ends by itself at the end of its input, or has ended
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _write(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(data)
    pipe.flush()


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise BrokenPipeError
    return data


def _serve(asked: IO[bytes], answered: IO[bytes]) -> None:
    """Answer what is asked until nothing more is: the files first, then texts."""
    backend: Backend | None = None
    seconds = SECONDS
    while header := asked.read(_ASKED.size):
        size, which = _ASKED.unpack(header)
        question = _read(asked, size).decode()
        signal.setitimer(signal.ITIMER_REAL, seconds)  # nothing handles SIGALRM: it ends this
        failed, answer = False, b""
        try:
            if backend is None:
                tokenizer, config, seconds = json.loads(question)
                backend = _opened(tokenizer, config)
            elif which == Ids.PLAIN:
                answer = array("I", plain_ids(backend, question)).tobytes()
            else:
                found = backend.encode(question, add_special_tokens=which == Ids.ADDED)
                answer = array("I", found.ids).tobytes()
        except BaseException as error:
            if not raised_by_rust(error):
                raise
            failed, answer = True, str(error)[:200].encode()
        signal.setitimer(signal.ITIMER_REAL, 0)
        _write(answered, _ANSWERED.pack(failed, len(answer)) + answer)


def _opened(tokenizer: str, config: dict[str, Any]) -> Backend:
    backend = Backend.from_str(tokenizer)
    backend.no_truncation()
    backend.no_padding()
    if isinstance(backend.model, BPE):
        backend.model.dropout = None  # as where the file is opened in process
    register(backend, config)
    return backend


def _main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    _main()
