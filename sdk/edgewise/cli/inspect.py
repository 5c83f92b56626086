"""`edgewise inspect BUNDLE`: what is in a bundle, its plans, and what they cost."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgewise.cli.fatbins import uses_table
from edgewise.cli.ls import named
from edgewise.cli.output import stdout_console
from edgewise.cli.shipped import packs_table
from edgewise.devices import device_for
from edgewise.stored import Stored, stored_by_scheme
from edgewise.units import size
from edgewise_runtime.cost import measure_bandwidth, plan_cost
from edgewise_runtime.devices.common import choose
from edgewise_runtime.devices.table import device_for_target
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import ModelInfo, Program, TensorEntry
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.format.state import paged_state
from edgewise_runtime.format.targets import processor_of

HISTORY = 512
"""Tokens of history that `--cost` assumes, unless asked otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("bundle", metavar="BUNDLE", help="a path, or a name from ls")
    parser.add_argument("--program", metavar="ID", help="default: the one that would run here")
    parser.add_argument("--plan", metavar="NAME", help="list the steps of one plan")
    parser.add_argument(
        "--cost", action="store_true", help="bytes, operations and the time memory bandwidth allows"
    )
    parser.add_argument(
        "--history",
        type=int,
        metavar="N",
        help=f"tokens of history for --cost (default: {HISTORY})",
    )
    parser.add_argument(
        "--batch", type=int, metavar="N", default=1, help="sequences for --cost (default: 1)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the summary, the plan or the costs."""
    console = stdout_console()
    bundle = Bundle.open(named(args.bundle))
    program = _program(bundle, args.program)
    summary = args.plan is None and not args.cost
    if summary:
        # What the manifest says comes first: plans may be refused for disagreeing with it.
        _print_summary(console, bundle, program)
    plans = bundle.plans(program.id)
    if args.plan is not None and args.plan not in plans:
        raise InputError(
            f"{program.id} has no plan {args.plan!r}.",
            remedy=f"It has {', '.join(plans)}.",
            code="input.plan",
        )
    _check_range("--batch", args.batch, 1, bundle.model.max_batch)
    if args.history is not None:
        _check_range("--history", args.history, 0, bundle.model.context - 1)
    if summary:
        _print_plans(console, plans)
    elif args.cost:
        wanted = plans if args.plan is None else {args.plan: plans[args.plan]}
        _print_costs(console, bundle, wanted, args.history, args.batch)
    else:
        _print_plan(console, plans[args.plan])
        uses = uses_table(bundle, program, plans[args.plan])
        if uses.row_count:
            console.print(uses)
    return 0


def _check_range(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(
            f"{option} is {value}; this bundle allows {low} to {high}.", code="input.range"
        )


def _program(bundle: Bundle, wanted: str | None) -> Program:
    if wanted is not None:
        return bundle.manifest.program(wanted)
    try:
        device = device_for(bundle)
        return choose(bundle, None, device.features(), device.target, device.name)
    except EdgewiseError:
        return bundle.manifest.programs[0]


def _features(target: str) -> frozenset[str] | str:
    """What this machine has for programs of a target, or why it runs none."""
    try:
        return device_for_target(target).features()
    except EdgewiseError as error:
        return error.message


def _here(program: Program, chosen: Program, features: frozenset[str] | str) -> str:
    """Whether a program can run on this machine."""
    if isinstance(features, str):
        return features
    if missing := program.needs.missing(features):
        return f"lacks {', '.join(missing)}"
    return "runs" if program is chosen else "could run"


def _unsupported(bundle: Bundle) -> str:
    """Why no machine runs any program of a bundle; empty for one that can be run."""
    try:
        paged_state(bundle.manifest)
    except EdgewiseError as error:
        return error.message
    return ""


def _state(bundle: Bundle, program: Program) -> str:
    """What a program keeps of a sequence, group by group."""
    alike: dict[tuple[str, int | None, int], int] = {}
    for group in bundle.manifest.state_groups:
        kind = group.kind, group.window, group.page_tokens
        # A page of a group with fewer layers is as large as one of the first.
        alike[kind] = alike.get(kind, 0) + program.page_bytes[0]
    return "; ".join(
        f"{program.state_dtype}, {size(page / page_tokens)} a token, "
        f"{size(page)} a page of {page_tokens}"
        + ("" if kind == "paged" else f", {kind}")
        + ("" if window is None else f", window of {window} tokens")
        for (kind, window, page_tokens), page in alike.items()
    )


def _print_summary(console: Console, bundle: Bundle, program: Program) -> None:
    model = bundle.model
    facts = {
        "bundle": f"{bundle.name}, {size(bundle.total_bytes)}, {len(bundle.manifest.files)} files",
        "model": f"{model.family}, {model.layers} layers, hidden {model.hidden}, "
        f"{model.heads} heads of {model.head_dim} ({model.kv_heads} for keys and values), "
        f"vocabulary {model.vocab}",
        "weights": f"{model.stored}, id {bundle.manifest.weights_id[:16]}",
        "bounds": f"context {model.context}, batch {model.max_batch}, "
        f"prefill chunk {model.prefill_chunk}",
        "KV": _state(bundle, program) or "none",
        "end tokens": ", ".join(map(str, model.eos)) or "none",
        "made by": ", ".join(f"{k} {v}" for k, v in bundle.manifest.created_by.items()),
    }
    facts_table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        facts_table.add_row(Text(name, style="bold"), Text(value))
    console.print(facts_table)
    _print_weights(console, bundle.manifest.layouts[program.layout])
    programs = _table("program", "needs", "here")
    features = {
        target: _features(target) for target in {p.target for p in bundle.manifest.programs}
    }
    unsupported = _unsupported(bundle)
    for item in bundle.manifest.programs:
        here = unsupported or _here(item, program, features[item.target])
        needs = [item.needs.arch or f"any {processor_of(item.target)}", *item.needs.features]
        programs.add_row(*map(Text, (item.id, " ".join(needs), here)))
    console.print(programs)
    packs = packs_table(bundle)
    if packs.row_count:
        console.print(packs)


def _print_weights(console: Console, tensors: Mapping[str, TensorEntry]) -> None:
    table = _table("scheme", "bytes", "bits a weight")
    found = stored_by_scheme(tensors)
    for scheme, stored in (*found.items(), ("all", sum(found.values(), Stored()))):
        table.add_row(scheme, size(stored.bytes), f"{stored.bits:.2f}")
    console.print(table)


def _print_plans(console: Console, plans: Mapping[str, Plan]) -> None:
    table = _table("plan", "launches", "kernels", "state")
    for name, plan in plans.items():
        states = sum(buffer.role == "state" for buffer in plan.buffers)
        table.add_row(name, str(len(plan.steps)), str(len(plan.kernels)), str(states))
    console.print(table)


def _print_plan(console: Console, plan: Plan) -> None:
    table = _table("", "label", "kernel", "reads", "writes")
    for index, step in enumerate(plan.steps):
        cells = (step.label, step.kernel, " ".join(step.reads), " ".join(step.writes))
        table.add_row(str(index), *(Text(cell, overflow="fold") for cell in cells))
    console.print(table)


def _values(plan: Plan, model: ModelInfo, history: int | None, batch: int) -> dict[str, int]:
    """Symbol values of a typical call: one token a sequence, or a whole chunk of one prompt."""
    chunk = plan.name in ("embed", "prefill")
    rows = model.prefill_chunk if chunk else batch
    kv = (0 if chunk else min(HISTORY, model.context - 1)) if history is None else history
    load = {name: symbol.min for name, symbol in plan.load_symbols.items()}
    return load | {"n": rows, "b": 1 if chunk else batch, "r": batch, "kv": kv}


def _print_costs(
    console: Console,
    bundle: Bundle,
    plans: Mapping[str, Plan],
    history: int | None,
    batch: int,
) -> None:
    """One row a plan; where there is just one plan, a row for each of its kernels before it."""
    at = {name: _values(plan, bundle.model, history, batch) for name, plan in plans.items()}
    costs = {name: plan_cost(plan, at[name]) for name, plan in plans.items()}
    rate = (measure_bandwidth().best, float("inf"))
    table = _table("plan", "rows", "history", "launches", "bytes", "operations", "ms")
    for name, cost in costs.items():
        rows: list[tuple[str, int, int, int, float]] = []
        if len(costs) == 1:
            rows += [
                (item.kernel, item.launches, item.bytes, item.flops, item.seconds)
                for item in cost.by_kernel(*rate)
            ]
        rows.append((name, cost.launches, cost.bytes, cost.flops, cost.seconds(*rate)))
        for label, launches, moved, operations, seconds in rows:
            table.add_row(
                label,
                str(at[name]["n"]),
                str(at[name]["kv"]),
                str(launches),
                size(moved),
                f"{operations / 1e6:,.1f} M",
                f"{seconds * 1e3:.3f}",
            )
    console.print(table)
    console.print(
        f"ms: what moving these bytes takes at the {rate[0]:.1f} GB/s measured here.", style="dim"
    )


def _table(*headers: str) -> Table:
    return Table(*headers, box=None, padding=(0, 2, 0, 0))
