"""`edgewise ls`: bundles in ./dist and in the cache, models of hubs, and what a name means."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from edgewise.cache import stored_bundle, stored_bundles
from edgewise.cli.output import stdout_console
from edgewise.hosting.facts import facts_of_bundle
from edgewise.hub.names import hub_model, is_hub_name
from edgewise.hub.stored import stored
from edgewise.units import size, weights
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.bundle import Bundle

GAP = 2
"""Columns of space between columns of the table."""
TOLD = ("chat", "tools", "thinking")
"""Of what models can, what not all of them can."""


@dataclass(frozen=True)
class Row:
    """What is told of a model, in words. The fields are the columns, and so their headings."""

    name: str
    size: str
    parameters: str
    weights: str
    context: str
    can: str
    targets: str
    where: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments: none."""


def run(args: argparse.Namespace) -> int:
    """Print what there is, or how to get a bundle."""
    console = stdout_console()
    found = stored_bundles()
    models = stored()
    if not found and not models:
        console.print("No bundles in ./dist or the cache. Make one: edgewise compile PATH")
        console.print("No models of the hub on this disk. Fetch one: edgewise pull ORG/REPO")
        return 0
    rows, troubles = [], []
    for folder, where in found.items():
        try:
            rows.append(_row(folder, where))
        except EdgewiseError as error:
            rows.append(Row(folder.name, "?", "?", "?", "?", "", "unusable", where))
            troubles.append(f"{folder.name} is unusable: {error.said}")
    if rows:
        show(console, rows)
    if models:
        console.print("Of the hub, compiled when they are first used:", style="dim")
    for model in models:
        console.print(f"{size(model.size):>10}{' ' * GAP}{model.name}")
    for trouble in troubles:
        console.print(Text(trouble, style="yellow"))
    return 0


def show(console: Console, rows: Sequence[Row]) -> None:
    """Print a table, or where the console is too narrow for it, two lines a row.

    A name stays in one piece, however long it is: it is there to be typed or copied.
    """
    headings = tuple(Row.__dataclass_fields__)
    columns = zip(headings, *map(astuple, rows), strict=True)
    if sum(max(map(cell_len, column)) + GAP for column in columns) <= console.width:
        table = Table(*headings, box=None, padding=(0, GAP, 0, 0))
        for row in rows:
            table.add_row(*map(Text, astuple(row)))
        console.print(table)
        return
    for row in rows:
        console.print(Text(row.name, style="bold"), soft_wrap=True)
        stored = f"{row.parameters} weights in {row.weights}"
        told = (row.size, stored, f"context {row.context}", row.can, row.targets, row.where)
        facts = " · ".join(filter(None, told))
        console.print(Padding(Text(facts), (0, 0, 0, GAP)), soft_wrap=False)


def named(name: str) -> Path:
    """Return the bundle folder that a path or a name listed by `edgewise ls` means.

    Raises InputError ``input.bundle`` where there is none.
    """
    if is_hub_name(name):
        model = hub_model(name)
        raise InputError(
            f"{name} is no bundle: it lies in the hub's cache, for other programs as well.",
            remedy=f"Compile it: edgewise compile {name}. To delete what was fetched: "
            f"hf cache rm model/{model.repo}",
            code="input.bundle",
        )
    found = stored_bundle(Path(name))
    if found is None:
        raise InputError(
            f"There is no bundle {name}.",
            remedy="`edgewise ls` lists bundles; a path to one is fine too.",
            code="input.bundle",
        )
    return found


def _row(folder: Path, where: str) -> Row:
    """What a bundle says of itself, by the name of its folder: the one that commands take."""
    bundle = Bundle.open(folder, verify=False)
    facts = facts_of_bundle(folder.name, folder)
    return Row(
        folder.name,
        size(bundle.total_bytes),
        weights(facts.parameters),
        facts.quant,
        str(facts.context),
        ", ".join(one for one in facts.capabilities if one in TOLD),
        ", ".join(dict.fromkeys(program.target for program in bundle.manifest.programs)),
        where,
    )
