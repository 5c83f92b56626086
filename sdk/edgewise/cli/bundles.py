"""Finding bundles: those in ./dist and those that were compiled into the cache."""

from __future__ import annotations

from pathlib import Path

from edgewise.cache import bundles_folder, is_bundle
from edgewise_runtime.errors import InputError


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
