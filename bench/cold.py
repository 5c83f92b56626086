"""What a person waits for before the first token: whole processes of two checkouts, in turn.

Run with ``python bench/cold.py --base CHECKOUT``, the checkout of another commit (``git worktree
add``): both run under this interpreter and its packages, and with modules compiled once, as
installed packages are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from machine import describe, wait_until_idle
from rounds import in_turn

HERE = Path(__file__).resolve().parent.parent
PACKAGES = ("runtime", "compiler", "sdk")
MODEL = Path("examples") / "demo-model"

QUESTIONS: Mapping[str, Sequence[str]] = {
    "import": ("-c", "import edgewise.cli.main"),
    "first token": ("-m", "edgewise.cli", "run", "{bundle}", "Once upon a time", "--max-tokens=1"),
}


def environment(checkout: Path) -> dict[str, str]:
    """That of a process whose edgewise is the checkout's, bytecode kept."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": os.pathsep.join(str(checkout / name) for name in PACKAGES)}


def seconds(checkout: Path, arguments: Sequence[str]) -> float:
    """From starting a process to its end.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env=environment(checkout),
        cwd=tempfile.gettempdir(),
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun


def measure(checkouts: Mapping[str, Path], rounds: int, idle_wait: float) -> dict[str, object]:
    """Medians in seconds by question and checkout, and of head over base by question."""
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch:
        bundles = {name: str(Path(scratch) / name) for name in checkouts}
        for name, root in checkouts.items():
            compiling = ("-m", "edgewise.cli", "compile", str(root / MODEL), "-o", bundles[name])
            seconds(root, compiling)
        for question, words in QUESTIONS.items():
            got: dict[str, list[float]] = {name: [] for name in checkouts}
            for turn in range(rounds + 1):
                for name in in_turn(checkouts, turn):
                    asked = [word.format(bundle=bundles[name]) for word in words]
                    wait_until_idle(idle_wait)
                    taken = seconds(checkouts[name], asked)
                    if turn:  # the first of each compiles modules and fills the page cache
                        got[name].append(taken)
            middle = {name: median(values) for name, values in got.items()}
            result[question] = {
                **{name: round(value, 3) for name, value in middle.items()},
                "head of base": round(middle["head"] / middle["base"], 3),
            }
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Cold start of two checkouts, in turn.")
    parser.add_argument("--base", type=Path, required=True, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=15, help="processes of each (default: 15)")
    parser.add_argument("--wait", type=float, default=8.0, help="seconds for an idle machine")
    asked = parser.parse_args(arguments)
    checkouts = {"base": asked.base.resolve(), "head": HERE}
    print(json.dumps({**describe(), **measure(checkouts, asked.rounds, asked.wait)}, indent=1))


if __name__ == "__main__":
    main()
