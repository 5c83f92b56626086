"""Bundles that are compiled when a checkpoint is used directly, and kept for the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from edgewise.hub.names import DIGEST, repo_of
from edgewise.models import local_model
from edgewise_runtime.cpuid import cpu_arch, cpu_features
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import cache_folder
from edgewise_runtime.format.manifest import VERSION

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
    """Whether a path looks like a checkpoint: a folder in Hugging Face layout, or a GGUF file."""
    return is_gguf(path) or (path / "config.json").is_file()


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file."""
    from edgewise_compiler.gguf import names

    return names.is_gguf(path)


def model_name(checkpoint: Path) -> str:
    """What a checkpoint is called: its folder or repository, or its file without the suffix."""
    from edgewise_compiler.gguf import names

    path = _place(checkpoint)
    if names.is_gguf(path):
        return names.model_name(path)
    return repo_of(path).rpartition("/")[2] or path.name


def _place(checkpoint: Path) -> Path:
    """Where a checkpoint lies. A file keeps its name: in the hub's cache it is a link."""
    if checkpoint.is_dir():
        return checkpoint.resolve()
    return checkpoint.parent.resolve() / checkpoint.name


def _files(checkpoint: Path) -> list[Path]:
    """What a checkpoint consists of."""
    from edgewise_compiler.gguf import names

    if names.is_gguf(checkpoint):
        return [part for part in names.parts(checkpoint) if part.is_file()]
    return [file for pattern in _FILES for file in checkpoint.glob(pattern)]


def _version(file: Path) -> int | str:
    """What changes with a file: its time, or the hash that a link in the hub's cache leads to."""
    target = file.readlink().name if file.is_symlink() else ""
    return target if DIGEST.fullmatch(target) else file.stat().st_mtime_ns


def cached_bundle(checkpoint: Path, quant: str | None = None) -> Path:
    """Return where the bundle of a checkpoint is kept, whether it is there yet or not.

    The name changes with the checkpoint's files, the quantization, the machine's CPU, the version
    of edgewise and that of its format, so a bundle found there is what `compile` would make now.
    """
    from edgewise_compiler.quantize import DEFAULT_QUANT

    path = _place(checkpoint)
    if quant is None and not is_gguf(path):
        quant = DEFAULT_QUANT
    files = sorted((file.name, file.stat().st_size, _version(file)) for file in _files(path))
    made_by = [version("edgewise"), VERSION, cpu_arch(), sorted(cpu_features())]
    what = [repo_of(path) or str(path), files, quant, *made_by]
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]
    # What becomes of a GGUF file unless told otherwise is known once it is read.
    parts = [model_name(path), quant, key]
    return bundles_folder() / "-".join(filter(None, parts))


def find_bundle(path: Path, *, quant: str | None = None, progress: Progress | None = None) -> Path:
    """Return a bundle for `path`: itself, or what its checkpoint compiles to, once.

    ``hf:ORG/REPO`` stands for a checkpoint at a hub, see `edgewise.models`.

    Raises InputError ``input.model`` where it is neither, and what compiling raises.
    """
    path = local_model(path, progress)
    if is_bundle(path):
        return path
    if not is_checkpoint(path):
        raise InputError(
            f"{str(path)!r} is no model: "
            + (
                "it has neither a bundle.json nor a config.json."
                if path.is_dir()
                else "it is a file, and no GGUF."
                if path.exists()
                else "there is no such folder or file."
            ),
            remedy="Name a bundle (`edgewise ls` lists them), a checkpoint folder, a GGUF "
            "file, or a model at a hub: hf:ORG/REPO.",
            code="input.model",
        )
    cached = cached_bundle(path, quant)
    if not is_bundle(cached):
        from edgewise_compiler.compile import compile_model

        cached.parent.mkdir(parents=True, exist_ok=True)
        compile_model(path, cached, quant=quant, progress=progress)
    return cached
