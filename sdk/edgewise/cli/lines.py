"""Answers as lines of JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any

from edgewise_runtime.errors import InputError
from edgewise_runtime.shown import shown_json


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--stream``."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--json",
        action="store_true",
        help="print each answer as a line of JSON, and nothing else: text, tokens, usage, timings",
    )
    group.add_argument(
        "--stream",
        action="store_true",
        help='with --json: before it a line {"piece": TEXT} for each piece as it comes',
    )


def check_json(args: argparse.Namespace) -> None:
    """Raise InputError ``input.option`` for ``--stream`` without ``--json``."""
    if args.stream and not args.json:
        raise InputError("--stream is about JSON.", remedy="Add --json.", code="input.option")


def print_line(value: dict[str, Any]) -> None:
    """Print an object."""
    print(shown_json(json.dumps(value, ensure_ascii=False)), flush=True)


def print_piece(piece: str) -> None:
    """Print a piece of an answer."""
    print_line({"piece": piece})
