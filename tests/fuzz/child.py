"""Tries cases of one format, in a process of its own: `campaign` starts it.

python -m tests.fuzz.child FORMAT SEED FIRST COUNT FOLDER LIMITS
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from edgewise_runtime.errors import EdgewiseError
from tests.fuzz.case import Cases, Files, Format, Place, WrongAnswerError
from tests.fuzz.formats.table import find
from tests.fuzz.limits import Limits, Meter

MAX_WORDS = 6000
"""Characters of an error, which somebody has to read; a path may have 4,096 of them."""
MAX_DETAIL = 3000
MAX_LINE = 300

PROGRESS = struct.Struct("<6q")


@dataclass
class Progress:
    """How far a child is. Kept in a file, where it is whatever becomes of the child.

    Attributes:
        number: of the case in progress.
        done: cases that came to an end.
        refused: of these, those that an EdgewiseError ended.
        ended: 1 when all of them did.
        slowest: of a case, in nanoseconds of the processor.
        most: of a case, in bytes of memory beside what was in use before.
    """

    number: int = 0
    done: int = 0
    refused: int = 0
    ended: int = 0
    slowest: int = 0
    most: int = 0

    def pack(self) -> bytes:
        return PROGRESS.pack(*vars(self).values())

    @staticmethod
    def read(path: Path) -> Progress:
        data = path.read_bytes() if path.exists() else b""
        return Progress(*PROGRESS.unpack(data)) if data else Progress()


def main(name: str, seed: int, first: int, count: int, folder: Path, limits: Limits) -> None:
    """Try cases ``first .. first + count``; findings are a line of JSON each in a file."""
    form = find(name)
    cases, place = Cases(name, form, seed), Place(folder / "case")
    (folder / "case").mkdir(exist_ok=True)
    os.chdir(folder / "case")
    for files in cases.seeds:
        # What is valid is taken, or nothing would be tried; and what is imported late is here.
        place.put(files)
        form.use(folder / "case", files)
    progress, meter = Progress(), Meter(limits)
    handle = os.open(folder / "progress", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with (folder / "findings").open("a") as findings:
        for number in range(first, first + count):
            progress.number = number
            os.pwrite(handle, progress.pack(), 0)
            files = cases[number]
            place.put(files)
            meter.begin()
            began = time.process_time_ns()
            refused, found = _try(form, files, folder / "case")
            progress.slowest = max(progress.slowest, time.process_time_ns() - began)
            took, size = meter.took(), sum(map(len, files.values()))
            progress.most = max(progress.most, took)
            progress.done += 1
            progress.refused += refused
            if not meter.allows(took, size):
                found = ("memory", f"{took:,} bytes for a case of {size:,}")
            if found:
                kind, detail = found
                findings.write(json.dumps([number, kind, detail[-MAX_DETAIL:]]) + "\n")
                findings.flush()
    progress.ended = 1
    os.pwrite(handle, progress.pack(), 0)


def _try(form: Format, files: Files, folder: Path) -> tuple[bool, tuple[str, str] | None]:
    """Whether a case was refused, and what is wrong, in a word and in many."""
    try:
        form.use(folder, files)
    except EdgewiseError as error:
        text = str(error)
        if not error.message or len(text) > MAX_WORDS:
            return True, ("words", f"{len(text)} characters: {text[:200]}")
        return True, None
    except WrongAnswerError as error:
        return False, ("wrong", str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a panic of Rust is not even an Exception
        lines = traceback.format_exc(limit=-12).splitlines()
        return False, ("exception", "\n".join(line[:MAX_LINE] for line in lines))
    return False, None


if __name__ == "__main__":
    _, _name, _seed, _first, _count, _folder, _limits = sys.argv
    main(_name, int(_seed), int(_first), int(_count), Path(_folder), Limits(**json.loads(_limits)))
