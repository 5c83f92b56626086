"""Measures how good every preset is, and llama.cpp's types beside them, for docs/quality.md.

    python bench/quality.py [--model NAME ...] [--only NAME ...] [--llama VENV] [--threads N]
    python bench/quality.py --page

Each point is written down as soon as it is measured, in docs/quality.json, and the page's tables
and drawings follow. Points that are there already stay as they are, unless --only names them.
llama.cpp's are left out without --llama. What is made for it, some gigabytes, is kept in
build/bench/scoring.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

# As a script, this file sees its own folder, not the root that the tools are named from.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgewise_runtime.files import write_bytes, write_json
from engines import import_llama_cpp
from scoring.models import MODELS, ROOT
from scoring.page import drawing, filled
from scoring.points import POINTS
from scoring.score import scored

DOCS = ROOT / "docs"
FIGURES = DOCS / "quality.json"


def main() -> None:
    """Measure what is asked for, and write the page."""
    args = arguments()
    if args.llama is not None:
        import_llama_cpp(args.llama)
    for key in () if args.page else args.model:
        known = read().get(key, {})
        for name in args.only or (name for name in POINTS if name not in known):
            point = POINTS[name]
            if not point.ours and args.llama is None:
                print(f"{key} {name}: left out, it needs --llama", file=sys.stderr)
                continue
            figures = scored(MODELS[key], point, args.llama, args.threads)
            print(f"{key} {name}: KL {figures['kl']['mean']:.4g}", flush=True)
            data = read()  # again: another run may have added to it meanwhile
            data.setdefault(key, {})[name] = figures
            write(data)
    write(read())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument(
        "--only", nargs="+", choices=POINTS, metavar="NAME", help="points to measure"
    )
    parser.add_argument("--llama", type=Path, help="virtual environment with llama-cpp-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page")
    return parser.parse_args()


def read() -> dict[str, dict[str, Any]]:
    """The figures there are, by model and point."""
    found: dict[str, dict[str, Any]] = {}
    if FIGURES.exists():
        found = json.loads(FIGURES.read_text("utf-8"))
    return found


def write(data: dict[str, dict[str, Any]]) -> None:
    """Writes figures, page and drawings; leaves out points that there are no more."""
    known = {
        key: {name: data[key][name] for name in POINTS if name in data[key]}
        for key in MODELS
        if data.get(key)
    }
    write_json(FIGURES, known, indent=1)
    page = DOCS / "quality.md"
    write_bytes(page, filled(page.read_text("utf-8"), known).encode())
    for key, points in known.items():
        write_bytes(DOCS / f"quality-{key}.svg", drawing(key, points).encode())


if __name__ == "__main__":
    main()
