"""`edgewise eval A [B] --text FILE`: how well a model predicts a text, and how far from another."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from edgewise.cli.flags import compiled, located
from edgewise.cli.output import stdout_console
from edgewise.evaluation import CONTEXT, Evaluation, ModelScore, evaluate
from edgewise.phases import Phases
from edgewise.scorers import CHECKPOINT_QUANT, run_by_llama_cpp
from edgewise.units import size
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import read_bytes, storage_errors, write_json

MOST_TEXT = 64 << 20
"""Bytes of a text."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    form = (
        "a bundle, by path or name, a checkpoint folder (compiled once, to f32) or a GGUF file "
        "(llama-cpp-python)"
    )
    parser.add_argument("a", metavar="A", help=form)
    parser.add_argument("b", metavar="B", nargs="?", help="the reference, likewise")
    parser.add_argument(
        "--text", metavar="FILE", type=Path, required=True, help="what is scored, as UTF-8"
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="N",
        default=CONTEXT,
        help=f"tokens of a window, of which the second half is scored (default: {CONTEXT})",
    )
    parser.add_argument("--tokens", type=int, metavar="N", help="tokens of the text at most")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures there")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="of the CPU; default: one per physical core"
    )
    parser.add_argument("--trust", action="store_true", help="run native code of others")


def run(args: argparse.Namespace) -> int:
    """Print the figures, and write them where asked."""
    text = _read(args.text)
    if args.json is not None:
        with storage_errors("write", args.json):
            args.json.parent.stat()
    for path in map(Path, filter(None, (args.a, args.b))):
        if not run_by_llama_cpp(located(path)):
            compiled(path, CHECKPOINT_QUANT, context=args.context)
    with Phases() as phases:
        found = evaluate(
            args.a,
            args.b,
            text,
            context=args.context,
            tokens=args.tokens,
            threads=args.threads,
            trust=args.trust,
            progress=phases,
        )
    show(stdout_console(), found)
    if args.json is not None:
        write_json(args.json, found.to_json(), indent=2)
    return 0


def show(console: Console, found: Evaluation) -> None:
    """Print an evaluation in lines of at most 40 columns, but for names."""
    console.print(f"{found.windows:,} windows of {found.context:,} tokens,")
    console.print(f"{found.scored_tokens:,} tokens scored")
    _show_model(console, found.model, "")
    if found.reference is not None:
        _show_model(console, found.reference, ", the reference")
    if found.apart is not None:
        console.print("from the reference", style="bold")
        _show(console, "KL, mean", f"{found.apart.mean:.6f} nats")
        _show(console, "KL, median", f"{found.apart.median:.6f} nats")
        _show(console, "KL, 99.9%", f"{found.apart.p999:.6f} nats")
        _show(console, "same top-1", f"{found.apart.same_top1:.2%}")


def _show_model(console: Console, score: ModelScore, role: str) -> None:
    console.print(f"{score.name}{role}", style="bold")
    _show(console, "run by", score.program)
    _show(console, "perplexity", f"{score.perplexity:,.4f}")
    _show(console, "weights", size(score.weight_bytes))
    _show(console, "each", f"{score.bits_per_weight:.3f} bits")
    _show(console, "scoring", f"{score.scoring_tokens_per_s:,.1f} tokens/s")


def _show(console: Console, what: str, value: str) -> None:
    console.print(f"  {what:<12}{value}")


def _read(path: Path) -> str:
    try:
        return read_bytes(path, MOST_TEXT).decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start:,}.",
            remedy="Save it as UTF-8.",
            code="input.text",
        ) from error
