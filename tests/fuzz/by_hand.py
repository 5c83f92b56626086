"""Fuzzes formats by hand, and keeps the cases that something is wrong with.

python -m tests.fuzz.by_hand [FORMAT ...] [--seed N] [--first N] [--count N] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.campaign import run
from tests.fuzz.case import Cases, Place
from tests.fuzz.formats.table import FORMATS, find


def main() -> int:
    """Prints a line for each format, and every finding; 1 where there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.by_hand")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, help="default: the corpus, then 0")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for cases that went wrong")
    asked = parser.parse_args()
    found = 0
    for name in asked.formats or FORMATS:
        report = run(name, seed=asked.seed, first=asked.first, count=asked.count)
        print(f"{name}: {report.counted()}", flush=True)
        cases = Cases(name, find(name), asked.seed) if report.findings else None
        # All of them first: whoever looks wants them, whatever becomes of making a case again.
        print(*report.findings, sep="\n", end="", flush=True)
        for finding in report.findings:
            if cases is not None and asked.keep is not None:
                folder = asked.keep / name / f"{finding.kind}-{asked.seed}-{finding.case}"
                folder.mkdir(parents=True, exist_ok=True)
                Place(folder).put(cases[finding.case])
        found += len(report.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
