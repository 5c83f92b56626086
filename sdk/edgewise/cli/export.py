"""`edgewise export PATH`: a checkpoint as a folder that MLC LLM and WebLLM load."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

from edgewise.cache import is_bundle, model_name
from edgewise.cli.flags import located
from edgewise.cli.output import stdout_console
from edgewise.exporting import MOST, export
from edgewise.phases import Phases
from edgewise.units import size
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import read_bytes, storage_errors
from edgewise_runtime.format.reading import parse_json, shorten


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    # Only names: this loads neither TVM nor what uses it.
    from edgewise_compiler.mlc.names import EXPORTED

    parser.add_argument(
        "path", metavar="PATH", type=Path, help="a checkpoint folder, a GGUF file, or hf:ORG/REPO"
    )
    parser.add_argument(
        "-o", "--out", metavar="DIR", type=Path, help="default: dist/<name>-<quant>-MLC"
    )
    parser.add_argument(
        "--quant",
        choices=EXPORTED,
        default=EXPORTED[0],
        help=f"as MLC calls it (default: {EXPORTED[0]})",
    )
    parser.add_argument(
        "--conversation",
        metavar="FILE",
        type=Path,
        help="a conv_template in JSON (default: made of the chat template, if it can be)",
    )


def run(args: argparse.Namespace) -> int:
    """Export, and say what came out."""
    console = stdout_console()
    conversation = None if args.conversation is None else _conversation(args.conversation)
    path = located(args.path, targets=[])
    if is_bundle(path):
        raise InputError(
            f"{path} is a bundle: its weights are packed for programs.",
            remedy="Name the checkpoint that it was compiled from.",
            code="input.model",
        )
    out = args.out or Path("dist") / f"{model_name(path)}-{args.quant}-MLC"
    start = perf_counter()
    with Phases() as phases:
        made = export(path, out, quant=args.quant, conversation=conversation, progress=phases)
    total = sum(file.stat().st_size for file in made.iterdir())
    console.print(f"{made}: {size(total)}, {args.quant}, in {perf_counter() - start:.1f} s")
    return 0


def _conversation(file: Path) -> dict[str, Any]:
    with storage_errors("read", file):
        raw = read_bytes(file, MOST)
    found = parse_json(raw, file.name, InputError, what="file", remedy="Correct the file.")
    if not isinstance(found, dict):
        raise InputError(
            f"{file.name} holds {shorten(found)} instead of an object.",
            remedy="Write the conv_template of an mlc-chat-config.json.",
            code="input.file",
        )
    return found
