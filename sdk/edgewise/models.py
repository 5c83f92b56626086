"""What a person typed to name a model, as a path on this disk."""

from __future__ import annotations

from pathlib import Path

from edgewise.hub.names import hub_model, is_hub_name
from edgewise_runtime.format.bundle import Progress


def local_model(name: str | Path, progress: Progress | None = None) -> Path:
    """The path that a name means: of a model at a hub (``hf:ORG/REPO``) its files, which are
    fetched if they are not here yet; else the name itself.

    Raises:
        InputError: ``input.model`` for a name of a hub that is none.
        HubError, CheckpointError, UnsupportedError, StorageError: see `edgewise.hub.pull.pull`.
    """
    if not is_hub_name(str(name)):
        return Path(name)
    model = hub_model(str(name))
    # Only here: the hub's library takes a while to import.
    from edgewise.hub.pull import find

    return find(model, progress)
