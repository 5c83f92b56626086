"""The flags of `edgewise serve` that are about its operation."""

from __future__ import annotations

import argparse
import math

from edgewise.server.operations.drain import DRAIN_SECONDS
from edgewise.server.operations.logs import FORMATS

MAX_DRAIN = 3600.0


def add_operations(parser: argparse.ArgumentParser) -> None:
    """Add ``--drain-seconds``, ``--log-format`` and ``--keep-agent-lines``."""
    group = parser.add_argument_group("operation")
    group.add_argument(
        "--drain-seconds",
        type=drain_seconds,
        default=DRAIN_SECONDS,
        metavar="SECONDS",
        help="how long SIGTERM lets answers under way go on; a second one ends at once "
        f"(default {DRAIN_SECONDS:.0f})",
    )
    group.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="a line for each request on stderr: for people, JSON, or none (default text)",
    )
    group.add_argument(
        "--keep-agent-lines",
        action="store_true",
        help="leave lines in system prompts that coding agents change with every request as they "
        "are; prefixes are then not reused",
    )


def drain_seconds(text: str) -> float:
    """Raises argparse.ArgumentTypeError for what is no number from 0 to `MAX_DRAIN`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_DRAIN:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: 0 to {MAX_DRAIN:.0f} seconds")
    return seconds
