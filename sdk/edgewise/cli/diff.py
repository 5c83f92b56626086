"""`edgewise diff A B`: the first kernel at which two programs depart."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgewise.cache import stored_bundle
from edgewise.cli.flags import located
from edgewise.cli.ls import named
from edgewise.cli.output import stdout_console
from edgewise.devices import device_for
from edgewise.diff import (
    DECADES,
    Difference,
    Outputs,
    Report,
    default_tolerance,
    report,
    run_program,
    run_transformers,
)
from edgewise.hub.names import is_hub_name
from edgewise_runtime.devices.common import choose
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle, Program
from edgewise_runtime.format.targets import TARGETS
from edgewise_runtime.text import Tokenizer

TEXT = "The quick brown fox jumps over the lazy dog. 1 + 2 = 3, and so on: naïve, 東京, 🙂."

BARS = "·▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Side:
    """One side of the comparison: a program of a bundle, or a checkpoint run by transformers."""

    name: str
    path: Path
    program: Program | None
    quant: str

    @property
    def pages(self) -> str:
        """What keys and values are kept in."""
        return "float32" if self.program is None else self.program.state_dtype

    def computes_in(self, other: Side) -> set[str]:
        """The arithmetic, int8 where keys and values are rounded to it, and f16 where they are
        rounded to float16 on this side alone: both round nearly the same numbers alike."""
        if self.program is None:
            return {"transformers"}
        found = {self.program.arithmetic}
        if self.pages == "int8":
            found.add("int8")
        elif self.pages == "float16" != other.pages:
            found.add("f16")
        return found

    def same_bits(self, other: Side) -> bool:
        """Whether both promise the same bits: one program, or two of a target that says so."""
        a, b = self.program, other.program
        if a is None or b is None or self.quant != other.quant or a.state_dtype != b.state_dtype:
            return False
        if a.target != b.target or a.arithmetic != b.arithmetic:
            return False
        return a.id == b.id or (a.target in TARGETS and TARGETS[a.target].same_bits)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    form = (
        "BUNDLE (a path, or a name from ls), BUNDLE:PROGRAM or a checkpoint folder (run by "
        "transformers)"
    )
    parser.add_argument("a", metavar="A", help=form)
    parser.add_argument("b", metavar="B", help=f"the reference: {form}")
    parser.add_argument(
        "--text", metavar="TEXT", default=TEXT, help="what both read (default: a short sample)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="RMS difference of an output, relative to the RMS of the reference, that still counts"
        " as the same (default: 0 for programs that promise the same bits, 1e-4 between floats,"
        " 2e-2 with float16, 0.5 with quantization)",
    )
    parser.add_argument("--all", action="store_true", help="list every kernel, not only the first")
    parser.add_argument("--trust", action="store_true", help="run native code of others")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 0 when nothing departs, 1 when something does."""
    if args.tolerance is not None and not args.tolerance >= 0:
        raise InputError(
            f"--tolerance is {args.tolerance}; it must be 0 or more.", code="input.range"
        )
    sides = [_side(args.a), _side(args.b)]
    bundles = [side for side in sides if side.program is not None]
    if not bundles:
        raise InputError(
            "Both sides are checkpoints: there is no program to compare.",
            remedy="Compile one first: edgewise compile PATH.",
            code="input.diff",
        )
    opened = [Bundle.open(side.path) for side in bundles]
    tokenizer = Tokenizer.from_bundle(opened[0])
    tokens = tokenizer.encode(args.text)[: min(b.model.prefill_chunk for b in opened)]
    rows = min(len(tokens), *(b.model.max_batch for b in opened))
    head_dim = opened[0].model.head_dim
    outputs = [_outputs(side, tokens, rows, head_dim, trust=args.trust) for side in sides]
    tolerance = args.tolerance
    if tolerance is None:
        stored = {side.quant for side in sides}
        a, b = sides
        computes_in = a.computes_in(b) | b.computes_in(a)
        tolerance = default_tolerance(
            computes_in if len(stored) == 1 else computes_in | stored,
            same_bits=sides[0].same_bits(sides[1]),
        )
    names = (sides[0].name, sides[1].name)
    result = report(names, outputs[0], outputs[1], len(tokens), tolerance)
    _print(stdout_console(), result, everything=args.all)
    return 0 if result.first is None else 1


def _side(text: str) -> Side:
    path = located(Path(text)) if is_hub_name(text) else Path(text)
    if (path / "config.json").is_file() and not (path / "bundle.json").is_file():
        return Side("transformers", path, None, "f32")
    program_id: str | None = None
    if stored_bundle(path) is None and not path.exists() and ":" in text:
        text, program_id = text.rsplit(":", 1)
    path = named(text)
    bundle = Bundle.open(path)
    if program_id is None:
        device = device_for(bundle)
        program = choose(bundle, None, device.features(), device.target, device.name)
    else:
        program = bundle.manifest.program(program_id)
    return Side(f"{bundle.name}:{program.id}", path, program, bundle.model.stored)


def _outputs(
    side: Side, tokens: Sequence[int], rows: int, head_dim: int, *, trust: bool
) -> Outputs:
    if side.program is None:
        return run_transformers(side.path, tokens, rows=rows, head_dim=head_dim)
    return run_program(Bundle.open(side.path), side.program.id, tokens, rows=rows, trust=trust)


def _print(console: Console, result: Report, *, everything: bool) -> None:
    console.print(
        f"{result.names[0]} against {result.names[1]}: {result.tokens} tokens, "
        f"{len(result.differences)} kernels compared, tolerance {result.tolerance:g}"
    )
    if everything:
        table = Table(
            "kernel", "max error", "relative", f"errors: 0, 1e{DECADES[0]} … 1e{DECADES[-1]}"
        )
        for d in result.differences:
            table.add_row(d.label, f"{d.max_abs:.2g}", f"{d.relative:.2g}", _spark(d.histogram))
        console.print(table)
    if result.first is None:
        console.print(f"No kernel departs. Same best token on {result.top1:.0%} of the logit rows.")
    else:
        console.print(
            Text.assemble(
                "First departure: ",
                (result.first.label, "bold"),
                f". Same best token on {result.top1:.0%} of the logit rows.",
            )
        )
        _print_histogram(console, result.first)


def _print_histogram(console: Console, difference: Difference) -> None:
    total = sum(difference.histogram)
    console.print(
        f"Largest error {difference.max_abs:.3g}, RMS {difference.rms_error:.3g} of "
        f"{difference.rms:.3g}. Elements by error relative to the reference's RMS:"
    )
    names = ["equal", *(f"< 1e{n}" for n in DECADES), f"≥ 1e{DECADES[-1]}"]
    for name, count in zip(names, difference.histogram, strict=True):
        if count:
            console.print(f"  {name:>7} {count:9,}  {'█' * max(1, round(40 * count / total))}")


def _spark(histogram: Sequence[int]) -> str:
    """One character a decade, its height the share of elements."""
    most = max(histogram)
    return "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in histogram)
