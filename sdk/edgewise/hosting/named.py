"""Models that can be asked for, and where they are: clients say names, and never paths."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgewise.cache import find_model, is_bundle, is_checkpoint, model_name, stored_bundles
from edgewise.hub.names import PREFIX, hub_model, is_hub_name
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten


def named_models(given: Iterable[str]) -> dict[str, str]:
    """What was named on a command line, by the names that clients ask for it by.

    A bundle has the name of its folder, a checkpoint that of its folder, file or repository, and a
    model at a hub is ``ORG/REPO``, or what else follows ``hf:``.

    Raises:
        InputError: ``input.model`` for what is no model, and for two of one name.
    """
    found: dict[str, str] = {}
    for one in given:
        name, where = _named(one)
        if found.get(name, where) != where:
            raise InputError(
                f"Two models would be called {shorten(name)}: {shorten(found[name])} and "
                f"{shorten(where)}.",
                remedy="Rename one of them, or leave it out.",
                code="input.model",
            )
        found[name] = where
    return found


def listed_models() -> dict[str, str]:
    """What `edgewise ls` lists, by the names of the folders; of two of one name the first."""
    found: dict[str, str] = {}
    for folder in stored_bundles():
        found.setdefault(folder.name, str(folder))
    return found


def _named(given: str) -> tuple[str, str]:
    if is_hub_name(given):
        return str(hub_model(given)).removeprefix(PREFIX), given
    path = find_model(Path(given))
    if is_bundle(path):
        return path.resolve().name, str(path)
    if is_checkpoint(path):
        return model_name(path), str(path)
    raise InputError(
        f"{shorten(given)} is no model.",
        remedy="Name a bundle (`edgewise ls` lists them), a checkpoint folder, a GGUF file, or a "
        "model at a hub: hf:ORG/REPO.",
        code="input.model",
    )
