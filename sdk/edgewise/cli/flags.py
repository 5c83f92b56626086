"""Flags that several commands share, and how they become arguments of the Engine."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

from edgewise.cache import (
    cached_bundle,
    find_bundle,
    find_model,
    has_programs,
    is_bundle,
    is_checkpoint,
    keeps_codes,
)
from edgewise.cli.output import came_out, stored_again
from edgewise.console import stderr_console
from edgewise.devices import target_for
from edgewise.engine import Engine
from edgewise.hub.names import is_hub_name
from edgewise.options import SamplingKeywords
from edgewise.phases import Phases
from edgewise.settings import LOOKUP
from edgewise_runtime.devices.table import FORMS, named_device
from edgewise_runtime.format.bundle import Bundle

SAMPLING: dict[str, tuple[type, str, str]] = {
    "--max-tokens": (int, "N", "most tokens to generate"),
    "--min-tokens": (int, "N", "do not end the answer before so many tokens"),
    "--temperature": (float, "T", "0 for always the likeliest token"),
    "--top-k": (int, "K", "keep the K likeliest tokens"),
    "--top-p": (float, "P", "keep the likeliest tokens that together reach P"),
    "--min-p": (float, "P", "keep tokens with P times the likeliest one's probability"),
    "--repetition-penalty": (float, "X", "above 1 against repetition"),
    "--presence-penalty": (float, "X", "above 0 against tokens seen"),
    "--frequency-penalty": (float, "X", "above 0 against tokens seen often"),
    "--seed": (int, "N", "the same seed gives the same text"),
}


def add_sampling(
    parser: argparse.ArgumentParser,
    most: str = "default: generation_config.json of the model, else 256",
) -> None:
    """Add the sampling options; what is not given is the model's default.

    `most` says how many tokens that are.
    """
    group = parser.add_argument_group("sampling")
    for flag, (kind, metavar, about) in SAMPLING.items():
        told = f"{about} ({most})" if flag == "--max-tokens" else about
        group.add_argument(flag, type=kind, metavar=metavar, help=told)
    group.add_argument(
        "--stop", action="append", metavar="TEXT", help="end before this text; may be repeated"
    )
    group.add_argument(
        "--ignore-eos", action="store_true", default=None, help="go on past end tokens"
    )


def sampling(args: argparse.Namespace) -> SamplingKeywords:
    """Return what `add_sampling` parsed."""
    return SamplingKeywords(
        max_tokens=args.max_tokens,
        min_tokens=args.min_tokens,
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        presence_penalty=args.presence_penalty,
        frequency_penalty=args.frequency_penalty,
        seed=args.seed,
        stop=args.stop,
        ignore_eos=args.ignore_eos,
    )


def add_loading(parser: argparse.ArgumentParser) -> None:
    """Add the options of loading a model."""
    # Only names and words: this does not load TVM.
    from edgewise_compiler.quantize import AS_FILE, DEFAULT_QUANT, QUANTS

    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a bundle, by path or by its name in ls, a checkpoint folder, a GGUF file, or "
        "hf:ORG/REPO, which is fetched",
    )
    group = parser.add_argument_group("loading")
    group.add_argument(
        "--device",
        metavar="NAME",
        help=f"{FORMS}; default: the first of these that the bundle has a program for",
    )
    group.add_argument("--program", metavar="ID", help="default: the best one for the device")
    group.add_argument(
        "--threads", type=int, metavar="N", help="of the CPU; default: one per physical core"
    )
    group.add_argument(
        "--context",
        type=int,
        metavar="N",
        help="most tokens of prompt and answer: fewer save memory; more than 131,072 only where a "
        "checkpoint is compiled with them (default: all that the bundle and memory allow)",
    )
    group.add_argument(
        "--quant",
        choices=QUANTS,
        help=f"how a checkpoint is compiled (default: {DEFAULT_QUANT}, of a file that is quantized "
        f"{AS_FILE})",
    )
    group.add_argument(
        "--draft",
        metavar="MODEL",
        help="guess tokens ahead with a smaller model of the same tokenizer, or with 'lookup' from "
        "the text itself; the answer stays the same",
    )
    group.add_argument("--trust", action="store_true", help="run native code of others")


def load(args: argparse.Namespace) -> Engine:
    """Load the model that `add_loading` parsed, compiling a checkpoint the first time."""
    # First: without its device nothing is worth minutes of compiling.
    device = None if args.device is None else named_device(args.device, threads=args.threads)
    target = target_for(device, args.program)
    draft = args.draft
    if draft not in (None, LOOKUP):
        draft = compiled(Path(draft), args.quant, target=target)
    path = compiled(Path(args.model), args.quant, target=target, context=args.context)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        engine = Engine(
            path,
            device=device,
            program=args.program,
            threads=args.threads,
            context=args.context,
            draft=draft,
            trust=args.trust,
        )
    for warning in said:
        stderr_console().print(str(warning.message), markup=False)
    return engine


def located(path: Path, *, targets: Sequence[str | None] = ()) -> Path:
    """Where a model lies; one of a hub that is not here yet is fetched, with a bar.

    `targets` are what it is to be compiled for, see `edgewise.cache.find_model`.
    """
    with Phases() if is_hub_name(str(path)) else nullcontext() as phases:
        return find_model(path, phases, targets=targets)


def compiled(
    path: Path, quant: str | None, *, target: str | None = None, context: int | None = None
) -> Path:
    """The model at a path, or the bundle that its checkpoint is compiled to, once; see
    `edgewise.cache.find_bundle`. What happens is said on stderr, with a bar on a terminal."""
    console = stderr_console()
    name, path = path, located(path, targets=[target])
    if is_bundle(path) or not is_checkpoint(path):
        return path
    from edgewise_compiler.quantize import AS_FILE

    cached = cached_bundle(path, quant, context)
    if has_programs(cached, target, context):
        console.print(f"Using {cached}", markup=False)
        return cached
    console.print(f"Compiling {name} once, to {cached}", markup=False)
    if keeps_codes(path) and quant not in (None, AS_FILE):
        console.print(stored_again(path, quant), markup=False)
    start = perf_counter()
    with Phases() as phases:
        found = find_bundle(path, quant=quant, target=target, context=context, progress=phases)
    console.print(f"Compiled in {perf_counter() - start:.1f} s.", markup=False)
    console.print(came_out(Bundle.open(found, verify=False)), markup=False)
    return found
