"""`edgewise prefix BUNDLE FILE`: a prompt's KV pages, computed now and shipped with the bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from edgewise.cli.ls import named
from edgewise.cli.output import stdout_console
from edgewise.cli.shipped import packs_table
from edgewise.console import stderr_console
from edgewise.packs.making import Made, make_packs, runners_of
from edgewise.packs.prompt import read_prompt
from edgewise.packs.writing import remove_pack
from edgewise.phases import Phases
from edgewise.units import size
from edgewise_runtime.devices.table import FORMS, named_device
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("bundle", metavar="BUNDLE", help="a path, or a name from ls")
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        help="a text, which is a system prompt, or .json with messages and perhaps tools",
    )
    parser.add_argument("--name", metavar="NAME", help="default: the file's, without its ending")
    parser.add_argument(
        "--plain",
        action="store_true",
        help="the text is a prompt as it is, as `run` takes it, and no system prompt",
    )
    parser.add_argument(
        "--target",
        metavar="NAMES",
        help="comma-separated: for the bundle's programs of these (default: of all targets that "
        "this machine has a device for)",
    )
    parser.add_argument("--program", metavar="ID", help="only for this program and its like")
    parser.add_argument("--device", metavar="NAME", help=FORMS)
    parser.add_argument("--trust", action="store_true", help="run native code of others")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--list", action="store_true", help="show what there is")
    asked.add_argument("--remove", metavar="PACK", help="remove what is called so")


def run(args: argparse.Namespace) -> int:
    """Make packs, list them, or remove them."""
    console = stdout_console()
    folder = named(args.bundle)
    if args.list:
        _show(console, Bundle.open(folder))
        return 0
    if args.remove is not None:
        with Phases() as phases:
            count = remove_pack(folder, args.remove, phases)
        console.print(f"Removed {args.remove} ({count} {'place' if count == 1 else 'places'}).")
        return 0
    if args.file is None:
        raise InputError(
            "There is no FILE to compute pages of.",
            remedy="edgewise prefix BUNDLE FILE, or --list for what there is.",
            code="input.prefix",
        )
    targets = [name.strip() for name in (args.target or "").split(",") if name.strip()]
    add(
        folder,
        args.file,
        name=args.name,
        plain=args.plain,
        targets=targets,
        program=args.program,
        device=args.device,
        trust=args.trust,
    )
    return 0


def add(
    folder: Path,
    file: Path,
    *,
    name: str | None = None,
    plain: bool = False,
    targets: list[str],
    program: str | None = None,
    device: str | None = None,
    trust: bool = False,
) -> None:
    """Make the packs of a file, and say what came out."""
    console = stdout_console()
    prompt = read_prompt(file, plain=plain)
    chosen = None if device is None else named_device(device)
    bundle = Bundle.open(folder, verify=False)
    runners, lacking = runners_of(bundle, targets=targets, program=program, device=chosen)
    bundle.close()
    for reason in lacking:
        stderr_console().print(f"No pack where there is no device: {reason}", markup=False)
    with Phases() as phases:
        made = make_packs(folder, prompt, name or file.stem, runners, trust=trust, progress=phases)
    for one in made:
        console.print(_told(one), markup=False)


def _told(made: Made) -> str:
    pack, runner = made.pack, made.runner
    return (
        f"{pack.name}: {made.tokens:,} tokens in {made.pages:,} pages, {size(made.bytes)}, by "
        f"{runner.program.id} on {runner.device.name} at {pack.prefill_tokens_per_s:,} tokens/s"
    )


def _show(console: Console, bundle: Bundle) -> None:
    table = packs_table(bundle, "name")
    if table.row_count:
        console.print(table)
    else:
        console.print(f"{bundle.name} has no packs. Make one: edgewise prefix BUNDLE FILE")
