"""`edgewise run MODEL PROMPT`: continue one prompt as it is, without a chat template."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from edgewise.cli.flags import add_loading, add_sampling, load, sampling
from edgewise.cli.lines import add_json, check_json, print_line, print_piece
from edgewise.cli.output import speed, write_piece
from edgewise.console import stderr_console
from edgewise.generation import Stream
from edgewise_runtime.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    add_loading(parser)
    parser.add_argument(
        "prompt", metavar="PROMPT", nargs="?", help="default: stdin, without its last newline"
    )
    add_json(parser)
    parser.add_argument(
        "--logprobs", action="store_true", help="with --json: each token's log-probability"
    )
    parser.add_argument(
        "--top-logprobs",
        type=int,
        metavar="K",
        help="with --json: also the K likeliest tokens in each one's place",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write the engine's steps, for https://ui.perfetto.dev"
    )
    add_sampling(parser)


def run(args: argparse.Namespace) -> int:
    """Print the continuation as it comes, and the speed to stderr."""
    check_json(args)
    options = sampling(args)
    options["logprobs"] = args.logprobs or args.top_logprobs is not None
    options["top_logprobs"] = args.top_logprobs
    if options["logprobs"] and not args.json:
        raise InputError(
            "Log-probabilities are part of the JSON.", remedy="Add --json.", code="input.option"
        )
    prompt = _stdin() if args.prompt is None else args.prompt
    with (
        load(args) as engine,
        engine.trace(args.trace) if args.trace else nullcontext(),
        engine.generate(prompt, stream=True, **options) as stream,
    ):
        if args.json:
            _print_json(stream, pieces=args.stream)
        else:
            _print_text(stream)
    return 0


def _print_json(stream: Stream, *, pieces: bool) -> None:
    for piece in stream:
        if pieces:
            print_piece(piece)
    print_line(stream.completion.to_json())


def _print_text(stream: Stream) -> None:
    for piece in stream:
        write_piece(piece)
    print()
    stderr_console(soft_wrap=False).print(speed(stream.completion), style="dim")


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(
            "There is no prompt.",
            remedy='Give one: edgewise run MODEL "Once upon a time", or pipe it in.',
            code="input.prompt",
        )
    return sys.stdin.read().removesuffix("\n")
