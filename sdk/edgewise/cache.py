"""Bundles that are compiled when a checkpoint is used directly, and kept for the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from edgewise_runtime.cpuid import cpu_arch, cpu_features
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import cache_folder
from edgewise_runtime.format.manifest import VERSION

DEFAULT_QUANT = "q4"
_FILES = ("*.json", "*.safetensors", "*.jinja")

Progress = Callable[[str, int, int], None]
"""Told the phase, and how much of how much of it is done."""


def bundles_folder() -> Path:
    """Where compiled checkpoints are kept: ``$XDG_CACHE_HOME/edgewise/bundles``."""
    return cache_folder() / "bundles"


def prefixes_folder() -> Path:
    """Where KV pages of prefixes are kept: ``$XDG_CACHE_HOME/edgewise/prefixes``."""
    return cache_folder() / "prefixes"


def is_bundle(path: Path) -> bool:
    """Whether a folder claims to be a bundle."""
    return (path / "bundle.json").is_file()


def is_checkpoint(path: Path) -> bool:
    """Whether a folder looks like a checkpoint in Hugging Face layout."""
    return (path / "config.json").is_file()


def cached_bundle(checkpoint: Path, quant: str = DEFAULT_QUANT) -> Path:
    """Return where the bundle of a checkpoint is kept, whether it is there yet or not.

    The name changes with the checkpoint's files, the quantization, the machine's CPU, the version
    of edgewise and that of its format, so a bundle found there is what `compile` would make now.
    """
    folder = checkpoint.resolve()
    files = sorted(
        (path.name, status.st_size, status.st_mtime_ns)
        for pattern in _FILES
        for path in folder.glob(pattern)
        if (status := path.stat())
    )
    made_by = [version("edgewise"), VERSION, cpu_arch(), sorted(cpu_features())]
    what = [str(folder), files, quant, *made_by]
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]
    return bundles_folder() / f"{folder.name}-{quant}-{key}"


def find_bundle(
    path: Path, *, quant: str = DEFAULT_QUANT, progress: Progress | None = None
) -> Path:
    """Return a bundle for `path`: itself, or what its checkpoint compiles to, once.

    Raises InputError ``input.model`` where it is neither, and what compiling raises.
    """
    if is_bundle(path):
        return path
    if not is_checkpoint(path):
        raise InputError(
            f"{str(path)!r} is no model: "
            + (
                "it has neither a bundle.json nor a config.json."
                if path.is_dir()
                else "it is a file, not a folder."
                if path.exists()
                else "there is no such folder."
            ),
            remedy="Name a bundle (`edgewise ls` lists them) or a checkpoint folder.",
            code="input.model",
        )
    cached = cached_bundle(path, quant)
    if not is_bundle(cached):
        from edgewise_compiler.compile import compile_model

        cached.parent.mkdir(parents=True, exist_ok=True)
        compile_model(path, cached, quant=quant, progress=progress)
    return cached
