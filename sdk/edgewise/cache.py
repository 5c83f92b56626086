"""Bundles that have a name here: those in ./dist, and those in the cache, which are compiled when a
checkpoint is used directly and kept for the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from edgewise.hub.names import DIGEST, REPO, HubModel, hub_model, is_hub_name, repo_of
from edgewise_runtime import installed
from edgewise_runtime.cpuid import cpu_arch, cpu_features
from edgewise_runtime.errors import BundleError, InputError
from edgewise_runtime.files import cache_folder
from edgewise_runtime.folders import remove_folder
from edgewise_runtime.format import bundle as bundles
from edgewise_runtime.format.bundle import read_manifest
from edgewise_runtime.format.seal import VERSION

_FILES = ("*.json", "*.safetensors", "*.jinja", "params_shard_*.bin")

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


def stored_bundles() -> dict[Path, str]:
    """The bundles that `edgewise ls` lists, and of each where it is: ``dist`` or ``cache``."""
    homes = {"dist": Path("dist"), "cache": bundles_folder()}
    return {
        folder: where
        for where, home in homes.items()
        if home.is_dir()
        for folder in sorted(home.glob("[!.]*"))  # what is being written begins with a dot
        if is_bundle(folder)
    }


def stored_bundle(name: Path) -> Path | None:
    """The bundle that a path leads to, or else the one that `edgewise ls` lists by this name."""
    if is_bundle(name):
        return name
    named = (folder for folder in stored_bundles() if folder.name == str(name))
    return next(named, None)


def find_model(
    name: Path, progress: Progress | None = None, *, targets: Sequence[str | None] = ()
) -> Path:
    """The path that a person means by a name: of a bundle, a checkpoint folder or a GGUF file.

    That is a path as it is, the bundle that `edgewise ls` lists by the name, or of a model at a hub
    (``hf:ORG/REPO``, see `edgewise.hub.names`) its files, which are fetched if they are not here
    yet. A name that is none of these is returned as it is.

    Args:
        progress: told about fetching.
        targets: what it is to be compiled for, None for the CPU: before it is fetched, what that
            needs is looked for.

    Raises:
        CompileError: something that compiling needs is missing, and would be found out later.
        InputError: ``input.model`` for a name that begins as a hub's and is none, and for one that
            only a hub may have, without ``hf:``.
        HubError, CheckpointError, UnsupportedError, StorageError: see `edgewise.hub.pull.pull`.
    """
    if is_hub_name(str(name)):
        model = hub_model(str(name))
        # Only here: the hub's library takes a while to import.
        from edgewise.hub.pull import find
        from edgewise_compiler.apart import check_installed

        return find(model, progress, before=partial(check_installed, targets))
    if is_bundle(name) or is_checkpoint(name):
        return name
    found = stored_bundle(name)
    if found is None and REPO.fullmatch(str(name)) and not name.exists():
        raise InputError(
            f"{str(name)!r} is no model: there is no such folder or file.",
            remedy=f"Check the path, or what `edgewise ls` lists. The model of that name at the "
            f"hub is {HubModel(str(name))}.",
            code="input.model",
        )
    return found or name


def is_checkpoint(path: Path) -> bool:
    """Whether a path looks like a checkpoint: a folder in Hugging Face layout or of MLC LLM, or a
    GGUF file."""
    from edgewise_compiler.mlc.names import is_mlc

    return is_gguf(path) or (path / "config.json").is_file() or is_mlc(path)


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file."""
    from edgewise_compiler.gguf import names

    return names.is_gguf(path)


def keeps_codes(path: Path) -> bool:
    """Whether a path is of a checkpoint that is quantized, and stays so unless told otherwise."""
    from edgewise_compiler import keeps

    return keeps.keeps_codes(path)


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


def cached_bundle(checkpoint: Path, quant: str | None = None, context: int | None = None) -> Path:
    """Return where the bundle of a checkpoint is kept, whether it is there yet or not.

    The name changes with the checkpoint's files, the quantization, the machine's CPU, the version
    of edgewise and that of its format, so a bundle found there is what `compile` would make now. It
    changes with a context that is longer than what is compiled unless asked for; one that is
    shorter needs no bundle of its own.
    """
    from edgewise_compiler.quantize import DEFAULT_QUANT
    from edgewise_compiler.targets.table import DEFAULT_CONTEXT

    path = _place(checkpoint)
    if quant is None and not keeps_codes(path):
        quant = DEFAULT_QUANT
    files = sorted((file.name, file.stat().st_size, _version(file)) for file in _files(path))
    made_by = [installed.VERSION, VERSION, cpu_arch(), sorted(cpu_features())]
    longer = _longer(context)
    bound = longer or DEFAULT_CONTEXT
    what = [repo_of(path) or str(path), files, quant, bound, *made_by]
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]
    # What becomes of a quantized file unless told otherwise is known once it is read.
    parts = [model_name(path), quant, f"c{longer}" if longer else None, key]
    return bundles_folder() / "-".join(filter(None, parts))


def _longer(context: int | None) -> int | None:
    """A context that has to be asked for when compiling; None where the default will do."""
    from edgewise_compiler.targets.table import DEFAULT_CONTEXT

    return None if context is None or context <= DEFAULT_CONTEXT else context


def has_programs(bundle: Path, target: str | None, context: int | None = None) -> bool:
    """Whether there is a bundle with programs for a target, None for the CPU, and with room for so
    many tokens of context.

    A bundle that cannot be read has none: what is kept in the cache is made again then, unless
    programs of other targets would have to stay in it.
    """
    return bundles.has_programs(bundle, _targets(target), context or 0)


def _targets(target: str | None) -> Sequence[str]:
    from edgewise_compiler.targets.table import DEFAULT

    return DEFAULT if target is None else (target,)


def _let_damaged_go(bundle: Path) -> None:
    """Make room where a bundle of the cache does not say any more what it holds."""
    try:
        if is_bundle(bundle):
            read_manifest(bundle)
    except BundleError:
        remove_folder(bundle)


def find_bundle(
    path: Path,
    *,
    quant: str | None = None,
    target: str | None = None,
    context: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return a bundle for `path`: itself, the one of that name, or what its checkpoint compiles to.

    A checkpoint is compiled once: who asks for it while another process compiles it waits for that.
    What is asked for besides is for compiling: a bundle stays as it is.

    Args:
        path: as for `find_model`.
        quant: how weights are stored; None for the default.
        target: what a program is needed for; None for the CPU. It is added to what is kept.
        context: tokens of prompt and answer that there must be room for.
        progress: told about phases of fetching and compiling; None for bars in a terminal.

    Raises:
        InputError: ``input.model`` where it is none of these.
        UnsupportedError: ``unsupported.weights`` where it is known what it is instead.
        EdgewiseError: what compiling raises.
    """
    if is_bundle(path):
        return path
    # rich takes a while to import, which loading a bundle should not wait for.
    from edgewise.phases import told

    with told(progress, f"Fetching {path}") as tell:
        path = find_model(path, tell, targets=[target])
    if is_bundle(path):
        return path
    if not is_checkpoint(path):
        from edgewise_compiler.foreign import foreign_model

        raise foreign_model(path) or InputError(
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
    cached = cached_bundle(path, quant, context)
    if not has_programs(cached, target, context):
        from edgewise_compiler.apart import compile_apart

        _let_damaged_go(cached)
        with told(progress, f"Compiling {path} once, to {cached}") as tell:
            compile_apart(
                path,
                cached,
                targets=_targets(target),
                quant=quant,
                context=_longer(context),
                least_context=2 if context is None else context,
                once=True,
                progress=tell,
            )
    return cached
