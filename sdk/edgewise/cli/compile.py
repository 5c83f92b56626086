"""`edgewise compile PATH`: a checkpoint to a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote
from time import perf_counter

from edgewise.cache import keeps_codes
from edgewise.cli.flags import located
from edgewise.cli.output import came_out, stdout_console, stored_again
from edgewise.compiling import output_folder, stored_as
from edgewise.phases import Phases
from edgewise.units import size
from edgewise_runtime.format.bundle import Bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    # Only names and words: this loads neither TVM nor what uses it.
    from edgewise_compiler.quantize import AS_FILE, DEFAULT_QUANT, QUANTS
    from edgewise_compiler.targets.table import DEFAULT, DEFAULT_CONTEXT, MAX_BATCH, TARGETS

    kinds = ", ".join(f"{target.name} ({target.about})" for target in TARGETS.values())
    parser.add_argument(
        "path", metavar="PATH", type=Path, help="a checkpoint folder, a GGUF file, or hf:ORG/REPO"
    )
    parser.add_argument(
        "-o",
        "--out",
        metavar="DIR",
        type=Path,
        help="default: dist/<name>-<quant>, or the recipe's file name for <quant>, or for "
        "what is quantized already, without either, dist/<name>; with --kv int8 "
        "dist/<name>-<quant>-kv8, with f32 -kv32",
    )
    parser.add_argument(
        "--target",
        metavar="NAMES",
        default=",".join(DEFAULT),
        help=f"comma-separated: {kinds} (default: {','.join(DEFAULT)})",
    )
    stored = parser.add_mutually_exclusive_group()
    stored.add_argument(
        "--quant",
        choices=QUANTS,
        help=f"how weights are stored (default: {DEFAULT_QUANT}, of what is quantized "
        f"already {AS_FILE})",
    )
    stored.add_argument(
        "--recipe",
        metavar="FILE",
        type=Path,
        help="a TOML file that says how each tensor is stored, see docs/guide.md",
    )
    stored.add_argument(
        "--bits",
        type=float,
        metavar="B",
        help="bits a weight on average, scales included: what is found to matter more gets more; "
        "takes a minute or more",
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="N",
        help=f"most tokens of prompt and answer (default: the model's, up to {DEFAULT_CONTEXT:,})",
    )
    batches = ", ".join(f"{target.batch} for {target.name}" for target in TARGETS.values())
    parser.add_argument(
        "--max-batch",
        type=int,
        metavar="N",
        help=f"most sequences together, up to {MAX_BATCH} (default: {batches})",
    )
    parser.add_argument(
        "--prefill-chunk",
        type=int,
        metavar="N",
        default=512,
        help="most prompt tokens computed together (default: 512)",
    )
    for target in TARGETS.values():
        for option in target.options:
            parser.add_argument(
                f"--{option.name}", metavar="NAME", default=option.default, help=option.about
            )
    parser.add_argument(
        "--kv",
        choices=("auto", "int8", "f32"),
        default="auto",
        help="what KV pages hold: auto (float16; float32 in f32 programs; the default), int8, half "
        "of float16's bytes, or f32, twice as many, for what float16 cannot hold",
    )
    calibrated = parser.add_mutually_exclusive_group()
    calibrated.add_argument(
        "--calibrate",
        metavar="FILE",
        nargs="?",
        const=True,
        help="choose codes by GPTQ for what the model does with this text (UTF-8), or without a "
        "FILE with a neutral one; takes minutes",
    )
    calibrated.add_argument(
        "--no-calibrate",
        dest="calibrate",
        action="store_const",
        const=False,
        help="take the nearest codes, also where the preset has them chosen by a short text",
    )
    parser.add_argument(
        "--prefix",
        metavar="FILE",
        type=Path,
        help="then compute the KV pages of this prompt and ship them, as `edgewise prefix` does",
    )
    parser.add_argument(
        "--debug-dump", metavar="DIR", type=Path, help="also write graphs, kernels and plans there"
    )


def run(args: argparse.Namespace) -> int:
    """Compile, and say what came out and how to use it."""
    # Names and what starts a compiler: TVM is loaded in its process only.
    from edgewise_compiler.apart import compile_apart
    from edgewise_compiler.quantize import AS_FILE
    from edgewise_compiler.targets.table import TARGETS

    if args.prefix is not None:
        # They load what runs a bundle, which compiling alone does not need.
        from edgewise.cli.prefix import add
        from edgewise.packs.prompt import read_prompt

        read_prompt(args.prefix, plain=False)  # before minutes of compiling
    console = stdout_console()
    targets = tuple(name.strip() for name in args.target.split(","))
    args.path = located(args.path, targets=targets)
    stored = stored_as(args.quant, args.recipe, args.bits)
    if keeps_codes(args.path) and stored not in (None, AS_FILE):
        console.print(stored_again(args.path, stored))
    out = args.out or output_folder(
        args.path, quant=args.quant, recipe=args.recipe, bits=args.bits, kv=args.kv
    )
    start = perf_counter()
    with Phases() as phases:
        compile_apart(
            args.path,
            out,
            targets=targets,
            quant=args.quant,
            recipe=args.recipe,
            bits=args.bits,
            context=args.context,
            max_batch=args.max_batch,
            prefill_chunk=args.prefill_chunk,
            kv=args.kv,
            calibrate=args.calibrate,
            debug_dump=args.debug_dump,
            progress=phases,
            **{o.name: getattr(args, o.name) for t in TARGETS.values() for o in t.options},
        )
    seconds = perf_counter() - start
    bundle = Bundle.open(out, verify=False)
    programs = ", ".join(program.id for program in bundle.manifest.programs)
    console.print(f"{out}: {size(bundle.total_bytes)}, {programs}, in {seconds:.1f} s")
    console.print(came_out(bundle))
    bundle.close()
    if args.prefix is not None:
        add(out, args.prefix, targets=[*targets])
    console.print(f"Try it: edgewise chat {quote(str(out))}")
    return 0
