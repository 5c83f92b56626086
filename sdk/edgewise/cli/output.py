"""What commands print: where to, and speeds in words for people."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from edgewise.console import ShownConsole
from edgewise.stored import stored_by_scheme
from edgewise.units import size
from edgewise_runtime.engine.completion import Completion
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.shown import shown

WIDE = 10_000
"""Columns where nobody looks: each row of a table stays one line for whatever reads it."""


def stdout_console() -> Console:
    """The console of a command's result."""
    console = ShownConsole(soft_wrap=True)
    if not console.is_terminal:
        console.width = WIDE
    return console


def write_piece(piece: str) -> None:
    """Write a piece of an answer to stdout: to a terminal without orders for it, else as it is."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    print(shown(piece) if terminal else piece, end="", flush=True)


def stored_again(path: Path, quant: str) -> str:
    """Return what becomes of the weights of a quantized model that are not kept as they are."""
    return f"The weights of {path.name} are read as floats and stored again as {quant}."


def came_out(bundle: Bundle) -> str:
    """Return how the weights of a bundle are stored, in bytes by scheme, and its bounds."""
    layout = bundle.manifest.layouts[bundle.manifest.programs[0].layout]
    schemes = [f"{name} {size(stored.bytes)}" for name, stored in stored_by_scheme(layout).items()]
    model = bundle.model
    bounds = f"context {model.context:,}, {model.max_batch} sequences at a time"
    return f"Weights, {model.stored}: {', '.join(schemes)}; {bounds}"


def speed(completion: Completion) -> str:
    """Return tokens, tokens per second, the time to the first token, and what else is to know."""
    timings, count = completion.timings, completion.usage.completion_tokens
    rate = timings.decode_tokens_per_s
    parts = [f"{count} token" if count == 1 else f"{count} tokens"]
    if rate:
        parts.append(f"{rate:.1f} tokens/s")
    if count:
        parts.append(f"first token after {timings.ttft_s:.2f} s")
    metrics = completion.metrics
    if metrics is not None and metrics.draft_proposed:
        parts.append(f"{metrics.draft_accepted} of {metrics.draft_proposed} guesses right")
    if completion.context_full:
        parts.append("the context is full")
    return " · ".join(parts)
