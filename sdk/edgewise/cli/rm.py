"""`edgewise rm BUNDLE…`: delete bundles, and nothing else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from shlex import quote

from edgewise.cli.ls import named
from edgewise.cli.output import stdout_console
from edgewise.units import size
from edgewise_runtime.errors import BundleError, InputError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import read_manifest
from edgewise_runtime.format.seal import MANIFEST
from edgewise_runtime.shown import shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("bundles", metavar="BUNDLE", nargs="+", help="a path, or a name from ls")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Delete each bundle once it is confirmed; 1 where one was kept."""
    console = stdout_console()
    kept = False
    for folder in dict.fromkeys(named(name) for name in args.bundles):
        files = _listed(folder)
        total = sum(path.stat().st_size for path in files if path.is_file())
        if not args.yes and not _confirmed(folder, total):
            kept = True
            continue
        _delete(folder, files)
        if folder.exists():
            console.print(f"{folder} also holds files that are not the bundle's; they are kept.")
        else:
            console.print(f"Deleted {folder} ({size(total)}).")
    return 1 if kept else 0


def _listed(folder: Path) -> list[Path]:
    """The files that the bundle says are its own; names with path parts are refused on reading."""
    if folder.is_symlink():
        raise InputError(
            f"{folder} is a link to {folder.resolve()}.",
            remedy="Name the folder itself.",
            code="input.bundle",
        )
    try:
        manifest = read_manifest(folder)
    except BundleError as error:
        raise BundleError(
            f"Which files in {folder} are the bundle's is not known: {error.message}",
            remedy=f"Delete the folder yourself if all of it can go: rm -r {quote(str(folder))}",
            code=error.code,
        ) from error
    return [*(folder / name for name in manifest.files), folder / MANIFEST]


def _confirmed(folder: Path, total: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(
            f"Nobody is there to confirm deleting {folder}.",
            remedy="Pass --yes.",
            code="input.confirm",
        )
    asked = shown(f"Delete {folder} ({size(total)})? [y/N] ")
    return input(asked).strip().lower() in ("y", "yes")


def _delete(folder: Path, files: list[Path]) -> None:
    """Delete the files, the manifest last, then every folder that this left empty."""
    with storage_errors("delete", folder):
        for path in files:
            # A folder inside the bundle that is a link leads to files that are not the bundle's.
            if path.parent.resolve().is_relative_to(folder.resolve()):
                path.unlink(missing_ok=True)
        inner = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
        for path in [*sorted(inner, reverse=True), folder]:
            if not any(path.iterdir()):
                path.rmdir()
