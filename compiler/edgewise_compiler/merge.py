"""Adding a target's programs to a bundle that is already there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from edgewise_compiler.layouts.rows import GPU
from edgewise_runtime.errors import EdgewiseError, StorageError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import Bundle, ModelInfo, Program
from edgewise_runtime.format.proof import PROOF


def kept_programs(
    destination: Path, targets: Sequence[str], model: ModelInfo, weights: str
) -> tuple[Bundle, tuple[Program, ...]] | None:
    """The bundle at ``destination`` and those of its programs that stay: other targets'.

    None where nothing stays: there is no bundle, or every target of it is compiled again.

    Raises:
        StorageError: ``storage.other_bundle`` where programs would stay that were compiled from
            another checkpoint or with other bounds, which cannot share a bundle with new ones.
    """
    if not (destination / "bundle.json").is_file():
        return None
    try:
        bundle = Bundle.open(destination, verify=False)
    except EdgewiseError:
        # Damaged, or of another version: replaced as a whole.
        return None
    staying = tuple(p for p in bundle.manifest.programs if p.target not in targets)
    if not staying:
        return None
    differing = _differences(bundle, model, weights)
    if differing:
        others = ",".join(dict.fromkeys([*(p.target for p in bundle.manifest.programs), *targets]))
        raise StorageError(
            f"{destination} has programs for {', '.join(sorted({p.target for p in staying}))} "
            f"that do not go with this compilation: {differing}.",
            remedy=f"Compile with the same options to add to it, with --target {others} to "
            "replace all of it, or into another folder with -o.",
            code="storage.other_bundle",
        )
    return bundle, staying


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
    """Bring the files of programs, of their layouts and what they must answer into ``folder``,
    linked where possible.

    Raises:
        BundleError: a file is damaged.
        StorageError: it cannot be written.
    """
    layouts = {program.layout for program in programs}
    proof = {PROOF} if GPU.name in layouts else set()
    names = {t.file for name in layouts for t in bundle.manifest.layouts[name].values()}
    names |= proof & bundle.manifest.files.keys()
    for program in programs:
        names |= set(program.files)
    for name in sorted(names):
        target = folder / name
        with storage_errors("copy", target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(bundle.file(name), target)
            except OSError:
                shutil.copyfile(bundle.file(name), target)
