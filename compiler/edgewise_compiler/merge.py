"""Adding a target's programs to a bundle that is already there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from edgewise_compiler.layouts.rows import GPU
from edgewise_runtime.errors import BundleError, StorageError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import Bundle, FileEntry, ModelInfo, Program, read_manifest
from edgewise_runtime.format.packs import files_of, place_of
from edgewise_runtime.format.proof import PROOF
from edgewise_runtime.format.seal import MANIFEST


def bounds_beside(destination: Path, targets: Sequence[str]) -> ModelInfo | None:
    """What the bundle at ``destination`` says of its model, where programs of it would stay.

    None where nothing does, or nothing can be read; `kept_programs` says what is wrong then.
    """
    if not (destination / MANIFEST).is_file():
        return None
    try:
        manifest = read_manifest(destination)
    except BundleError:
        return None
    return manifest.model if any(p.target not in targets for p in manifest.programs) else None


def kept_programs(
    destination: Path, targets: Sequence[str], model: ModelInfo, weights: str
) -> tuple[Bundle, tuple[Program, ...]] | None:
    """The bundle at ``destination`` and those of its programs that stay: other targets'.

    None where nothing stays: there is no bundle or one of another version, or every target of it is
    compiled again. Files that stay are whole: the new bundle would vouch for what they hold now.

    Raises:
        StorageError: ``storage.other_bundle`` where programs would stay that were compiled from
            another checkpoint or with other bounds, which cannot share a bundle with new ones.
        BundleError: where a file of theirs is missing or damaged, or bundle.json itself, which
            then does not say whose programs there are.
    """
    if not (destination / MANIFEST).is_file():
        return None
    try:
        manifest = read_manifest(destination)
    except BundleError as cause:
        if cause.code == "bundle.version":
            return None
        raise BundleError(
            cause.message,
            remedy="Compile into another folder with -o, or delete this one first if all of it can "
            f"go: rm -r {quote(str(destination))}",
            code=cause.code,
        ) from cause
    bundle = Bundle(destination.resolve(), manifest)
    staying = tuple(p for p in manifest.programs if p.target not in targets)
    if not staying:
        return None
    others = ",".join(dict.fromkeys([*(p.target for p in manifest.programs), *targets]))
    differing = _differences(bundle, model, weights)
    if differing:
        raise StorageError(
            f"{destination} has programs for {', '.join(sorted({p.target for p in staying}))} "
            f"that do not go with this compilation: {differing}.",
            remedy=f"Compile with the same options to add to it, with --target {others} to "
            "replace all of it, or into another folder with -o.",
            code="storage.other_bundle",
        )
    try:
        _verify(bundle, staying)
    except BundleError as cause:
        raise BundleError(
            cause.message,
            remedy=f"Compile all of it again, with --target {others}, or remove it first: "
            f"edgewise rm {quote(str(destination))}",
            code=cause.code,
        ) from cause
    return bundle, staying


def _verify(bundle: Bundle, programs: Sequence[Program]) -> None:
    """Compare every file that stays with its hash; of parameters, those that changed since."""
    for layout in {program.layout for program in programs}:
        bundle.verify_params(layout)
    for name in _files(bundle, programs) - _params(bundle, programs):
        bundle.read(name)


def _differences(bundle: Bundle, model: ModelInfo, weights: str) -> str:
    there = bundle.model
    names = {"stored": "quant", **{n: n for n in ("context", "max_batch", "prefill_chunk")}}
    found = [
        f"{called} is {getattr(there, name)} there and {getattr(model, name)} here"
        for name, called in names.items()
        if getattr(there, name) != getattr(model, name)
    ]
    if not found and (there != model or bundle.manifest.weights_id != weights):
        found = ["it was compiled from another checkpoint" + (" or recipe" if model.recipe else "")]
    return ", ".join(found)


def copy_programs(bundle: Bundle, programs: Sequence[Program], folder: Path) -> None:
    """Bring the files of programs, of their layouts, what they must answer and their packs into
    ``folder``, linked where possible.

    Raises:
        BundleError: a file is damaged.
        StorageError: it cannot be written.
    """
    for name in sorted(_files(bundle, programs)):
        target = folder / name
        with storage_errors("copy", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(bundle.file(name), target)
            except OSError:
                shutil.copyfile(bundle.file(name), target)


def check_kept(bundle: Bundle, programs: Sequence[Program], files: Mapping[str, FileEntry]) -> None:
    """Make sure that files which stay are listed as before: nothing happened to them meanwhile.

    Raises:
        BundleError: ``bundle.checksum``.
    """
    for name in sorted(_files(bundle, programs) - {PROOF}):
        if files[name] != bundle.manifest.files[name]:
            raise BundleError(
                f"{bundle.path / name} changed while the bundle was compiled.",
                remedy="Compile again.",
                code="bundle.checksum",
            )


def _files(bundle: Bundle, programs: Sequence[Program]) -> set[str]:
    """The files of programs, of their layouts, what they must answer, and their packs."""
    names = _params(bundle, programs).union(*(program.files for program in programs))
    for place in {place_of(program) for program in programs}:
        names |= files_of(place, bundle.manifest.files)
    proof = {PROOF} if any(program.layout == GPU.name for program in programs) else set()
    return names | proof & bundle.manifest.files.keys()


def _params(bundle: Bundle, programs: Sequence[Program]) -> set[str]:
    layouts = {program.layout for program in programs}
    return {t.file for name in layouts for t in bundle.manifest.layouts[name].values()}
