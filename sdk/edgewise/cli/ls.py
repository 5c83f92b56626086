"""`edgewise ls`: bundles in ./dist and in the cache."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.table import Table
from rich.text import Text

from edgewise.cli.bundles import folders
from edgewise.cli.output import stdout_console
from edgewise.cli.sizes import size
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.bundle import Bundle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments: none."""


def run(args: argparse.Namespace) -> int:
    """Print a table, or how to get a bundle."""
    console = stdout_console()
    found = folders()
    if not found:
        console.print("No bundles in ./dist or the cache. Make one: edgewise compile PATH")
        return 0
    columns = ("name", "size", "weights", "context", "programs", "folder")
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for folder in found:
        table.add_row(*(Text(cell, overflow="fold") for cell in _row(folder)))
    console.print(table)
    return 0


def _row(folder: Path) -> list[str]:
    try:
        bundle = Bundle.open(folder, verify=False)
    except EdgewiseError as error:
        return [folder.name, "?", "?", "?", f"unusable: {error.message}", str(folder.parent)]
    programs = ", ".join(program.id for program in bundle.manifest.programs)
    model = bundle.model
    return [
        folder.name,
        size(bundle.total_bytes),
        model.quant,
        str(model.context),
        programs,
        str(folder.parent),
    ]
