"""Has cases of a format tried by a child, and by another from the next case on where it dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.case import corpus_of
from tests.fuzz.child import Progress
from tests.fuzz.limits import Limits

ROOT = Path(__file__).parents[2]
BY_HAND = "python -m tests.fuzz.by_hand"
MAX_DEATHS = 50
"""Children that die before a campaign is given up."""
MAX_DETAIL = 3000


@dataclass(frozen=True)
class Finding:
    """What went wrong with a case.

    Attributes:
        kind: ``crash``, ``hang``, ``memory``, ``exception``, ``wrong`` or ``words``.
        detail: a traceback, or what else is known.
    """

    format: str
    seed: int
    case: int
    kind: str
    detail: str

    def __str__(self) -> str:
        again = f"{BY_HAND} {self.format} --seed {self.seed} --first {self.case}"
        return f"{self.format}, case {self.case}: {self.kind} ({again} --count 1)\n{self.detail}\n"


@dataclass
class Report:
    """What became of a campaign.

    Attributes:
        done: cases that came to an end, of the corpus too.
        refused: of these, those that an EdgewiseError ended.
        slowest_ms: of a case, in milliseconds of the processor.
        most_kib: of a case, in KiB of memory beside what was in use before.
    """

    findings: list[Finding] = field(default_factory=list)
    done: int = 0
    refused: int = 0
    slowest_ms: int = 0
    most_kib: int = 0

    def counted(self) -> str:
        """In a line."""
        kinds = Counter(finding.kind for finding in self.findings)
        wrong = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing wrong"
        return (
            f"{self.done} cases, {self.refused} refused, slowest {self.slowest_ms} ms, "
            f"most memory {self.most_kib} KiB: {wrong}"
        )

    def add(self, progress: Progress) -> None:
        self.done += progress.done
        self.refused += progress.refused
        self.slowest_ms = max(self.slowest_ms, progress.slowest // 1_000_000)
        self.most_kib = max(self.most_kib, progress.most // 1024)

    def include(self, other: Report) -> None:
        self.findings += other.findings
        self.done += other.done
        self.refused += other.refused
        self.slowest_ms = max(self.slowest_ms, other.slowest_ms)
        self.most_kib = max(self.most_kib, other.most_kib)


def run(
    name: str,
    *,
    seed: int,
    count: int,
    first: int | None = None,
    limits: Limits | None = None,
    again: bool = True,
) -> Report:
    """Try `count` mutations of a format.

    Args:
        first: the number of the first one; None for 0, and the corpus before.
        again: a case that hangs is tried once more, alone: a machine that stood still for seconds
            looks the same.

    Raises:
        RuntimeError: a child that died before any case, or too many that died.
    """
    limits, report = limits or Limits(), Report()
    end = (first or 0) + count
    number = -len(corpus_of(name)) if first is None else first
    with tempfile.TemporaryDirectory(prefix="edgewise-fuzz-") as place:
        folder = Path(place)
        for _ in range(MAX_DEATHS):
            said = folder / "said"
            with _child(name, seed, number, end - number, folder, limits) as process:
                stuck = _wait(process, folder / "progress", limits.wall_s)
            progress = Progress.read(folder / "progress")
            report.add(progress)
            if progress.ended:
                break
            detail = said.read_text("utf-8", "replace")[-MAX_DETAIL:]
            if not (folder / "progress").exists():
                raise RuntimeError(f"The child of {name} does not start: {detail}")
            hung = stuck or process.returncode == -signal.SIGXCPU
            detail = f"ended with {process.returncode}\n{detail}"
            kind = "hang" if hung else "crash"
            if hung and again:
                case = progress.number
                report.include(
                    run(name, seed=seed, count=1, first=case, limits=limits, again=False)
                )
            else:
                report.findings.append(Finding(name, seed, progress.number, kind, detail))
            number = progress.number + 1
        else:
            raise RuntimeError(f"{MAX_DEATHS} children of {name} died: {report.counted()}")
        for line in (folder / "findings").read_text().splitlines():
            report.findings.append(Finding(name, seed, *json.loads(line)))
    return report


@contextmanager
def _child(
    name: str, seed: int, first: int, count: int, folder: Path, limits: Limits
) -> Iterator[subprocess.Popen[bytes]]:
    """A child with folders of its own, whose last words are in the file ``said``."""
    (folder / "progress").unlink(missing_ok=True)
    homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("DATA", "CACHE", "STATE")}
    threads = {"OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, os.environ.get("PYTHONPATH", ""))))}
    command = [sys.executable, "-m", "tests.fuzz.child", name]
    command += [*map(str, (seed, first, count, folder)), json.dumps(asdict(limits))]
    with (
        (folder / "said").open("wb") as said,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | homes | threads | paths | {"TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], progress: Path, seconds: float) -> bool:
    """Wait until a child ends; True where it was at one case for so long and was ended."""
    before = None
    while True:
        try:
            process.wait(seconds)
            return False
        except subprocess.TimeoutExpired:
            found = Progress.read(progress)
            now = (found.number, found.done)
            if now == before and progress.exists():
                process.kill()
                process.wait()
                return True
            before = now
