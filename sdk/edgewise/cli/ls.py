"""`edgewise ls`: bundles in ./dist and in the cache, and which of them a name means."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.table import Table
from rich.text import Text

from edgewise.cache import bundles_folder, is_bundle
from edgewise.cli.output import size, stdout_console
from edgewise_runtime.errors import EdgewiseError, InputError
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


def folders() -> list[Path]:
    """Return every folder with a bundle.json in ./dist and in the cache, by name."""
    homes = [Path("dist"), bundles_folder()]
    return [
        folder
        for home in homes
        if home.is_dir()
        for folder in sorted(home.iterdir())
        if is_bundle(folder)
    ]


def named(name: str) -> Path:
    """Return the bundle folder that a path or a name listed by `edgewise ls` means.

    Raises InputError ``input.bundle`` where there is none.
    """
    if is_bundle(Path(name)):
        return Path(name)
    for folder in folders():
        if folder.name == name:
            return folder
    raise InputError(
        f"There is no bundle {name}.",
        remedy="`edgewise ls` lists bundles; a path to one is fine too.",
        code="input.bundle",
    )


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
        model.stored,
        str(model.context),
        programs,
        str(folder.parent),
    ]
