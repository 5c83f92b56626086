"""Readers with a fault each, which a campaign has to find."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from edgewise_runtime.errors import InputError
from tests.fuzz.case import Files, Format, WrongAnswerError

FILE = "file"
FINE, BAD = b"fine", b"bad"


def _reader(fault: Callable[[], object]) -> Format:
    """Reads what is fine, refuses every other case, and with what is bad makes the fault."""

    def mutate(rng: Random, files: Files) -> Files:
        return {FILE: BAD}

    def use(folder: Path, files: Files) -> None:
        if (folder / FILE).read_bytes() != FINE:
            fault()

    return Format(lambda: [{FILE: FINE}], mutate, use)


def _spin() -> None:
    while True:
        pass


def _take_memory() -> None:
    bytearray(150 << 20)


def _raise(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


CRASH = _reader(lambda: ctypes.string_at(0))
SPIN = _reader(_spin)
SLEEP = _reader(lambda: time.sleep(600))
MEMORY = _reader(_take_memory)
EXCEPTION = _reader(_raise(KeyError("token")))
EXIT = _reader(_raise(SystemExit(0)))
WRONG = _reader(_raise(WrongAnswerError("another value")))
WORDS = _reader(_raise(InputError("x" * 10_000)))
NONE = _reader(_raise(InputError("It is bad.", remedy="Take another.")))
