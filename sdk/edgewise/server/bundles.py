"""Bundles offered to browsers: which of their files, under which URLs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.server.resource import Resource, StoredFile, in_memory
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import read_bytes, storage_errors
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.format.packs import files_of, place_of
from edgewise_runtime.format.proof import PROOF
from edgewise_runtime.format.seal import MANIFEST, MAX_BYTES

TARGET = "webgpu"
TEXTS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
    PROOF,
)


@dataclass(frozen=True)
class Offer:
    """A bundle that browsers may load.

    Attributes:
        name: its part of the URL.
        files: what may be fetched, by path in the bundle.
        download: bytes a browser fetches, by program.
    """

    name: str
    bundle: Bundle
    files: Mapping[str, Resource]
    download: Mapping[str, int]

    @property
    def url(self) -> str:
        return f"/bundles/{self.name}/"

    def to_json(self) -> dict[str, Any]:
        """What ``/api/bundles`` says about it."""
        model, tokenizer = self.bundle.model, self.bundle.manifest.files.get("tokenizer.json")
        return {
            "name": self.name,
            "url": self.url,
            "family": model.family,
            "quant": model.stored,
            "context": model.context,
            **({} if tokenizer is None else {"tokenizer": tokenizer.sha256}),
            "bytes": dict(self.download),
            "programs": list(self.download),
        }


def offer(folder: Path) -> Offer:
    """Open a bundle and list what a browser may fetch of it: never native code.

    Raises:
        BundleError: a bundle that is damaged or malformed.
        InputError: ``input.program`` for one without a WebGPU program.
    """
    bundle = Bundle.open(folder)
    programs = [p for p in bundle.manifest.programs if p.target == TARGET]
    if not programs:
        raise InputError(
            f"Bundle {bundle.name!r} has no {TARGET} program, so no browser can run it.",
            remedy=f"Add one: edgewise compile MODEL --target {TARGET} -o {folder}.",
            code="input.program",
        )
    listed = bundle.manifest.files
    texts = [name for name in TEXTS if name in listed]
    needed = {program.id: {*texts, *_files(bundle, program)} for program in programs}
    # What is fetched only where a prompt begins so is no part of the download.
    packs = set().union(*(files_of(place_of(program), listed) for program in programs))
    files = {name: _stored(bundle, name) for name in sorted(packs.union(*needed.values()))}
    files[MANIFEST] = in_memory(read_bytes(bundle.folder / MANIFEST, MAX_BYTES), ".json")
    download = {
        program: sum(listed[name].bytes for name in names) for program, names in needed.items()
    }
    return Offer(bundle.name, bundle, files, download)


def offers(folders: Iterable[Path]) -> dict[str, Offer]:
    """Several bundles by their names.

    Raises:
        InputError: ``input.duplicate`` for two of one name, and as `offer` does.
    """
    found: dict[str, Offer] = {}
    for folder in folders:
        one = offer(folder)
        if one.name in found:
            raise InputError(
                f"Two bundles are called {one.name!r}: {found[one.name].bundle.path} and {folder}.",
                remedy="Compile one of them into a folder of another name.",
                code="input.duplicate",
            )
        found[one.name] = one
    return found


def for_browsers(folders: Iterable[Path], all_of_them: bool) -> list[Path]:
    """The bundles that have a WebGPU program; or all, where nobody else is served."""
    return [one for one in folders if all_of_them or _has_program(one)]


def _has_program(folder: Path) -> bool:
    bundle = Bundle.open(folder, verify=False)
    try:
        return any(program.target == TARGET for program in bundle.manifest.programs)
    finally:
        bundle.close()


def _stored(bundle: Bundle, name: str) -> Resource:
    """A listed file, which `Bundle.open` found to lie inside the folder.

    It is not immutable: the next compilation gives its URL other contents.
    """
    entry = bundle.manifest.files[name]
    with storage_errors("read", bundle.path / name):
        source = StoredFile.of(bundle.file(name))
    return Resource(source, Path(name).suffix, entry.bytes, entry.sha256)


def _files(bundle: Bundle, program: Program) -> list[str]:
    tensors = bundle.manifest.layouts[program.layout].values()
    return [
        *program.plans.values(),
        *program.shaders.values(),
        *(tensor.file for tensor in tensors),
    ]
