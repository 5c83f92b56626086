"""Packs in a bundle's folder: it is replaced by one that also has them, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise_runtime.devices.base import Device
from edgewise_runtime.errors import InputError, StorageError
from edgewise_runtime.files import storage_errors, write_bytes, write_json
from edgewise_runtime.folders import new_folder
from edgewise_runtime.format.bundle import Bundle, Program, describe_files, write_manifest
from edgewise_runtime.format.packs import (
    FOLDER,
    Pack,
    PackIndex,
    files_of,
    index_path,
    page_path,
    place_of,
)
from edgewise_runtime.format.seal import MANIFEST
from edgewise_runtime.format.state import footprint
from edgewise_runtime.kv.keys import producer_of
from edgewise_runtime.kv.page_file import header_of, producer_digest
from edgewise_runtime.kv.shipped import file_bytes, read_index

Told = Callable[[str, int, int], object]


@dataclass(frozen=True)
class Change:
    """A pack that a program has computed on a device.

    Attributes:
        producer: the program's (`keys.producer_of`).
        pages: the bytes of its files but for their headers, by what they are called.
    """

    program: Program
    producer: str
    device: Device
    pack: Pack
    pages: Mapping[bytes, bytes]

    def file_of(self, key: bytes) -> bytes:
        """A page as a file."""
        page = self.pages[key]
        digest = producer_digest(f"{self.producer}/{self.device.identity}")
        return header_of(digest, key, page) + page


@dataclass
class _Folder:
    """What is to become of one folder of packs: its index, and the files that are new."""

    index: PackIndex
    files: dict[str, bytes] = field(default_factory=dict)


def packs_of(bundle: Bundle) -> dict[str, PackIndex]:
    """The indices of a bundle, by the folder that each is in.

    Raises:
        BundleError: a malformed one.
    """
    places = dict.fromkeys(place_of(program) for program in bundle.manifest.programs)
    found = {place: read_index(bundle, place) for place in places}
    return {place: index for place, index in found.items() if index is not None}


def index_for(bundle: Bundle, program: Program, device: Device) -> PackIndex:
    """The index that packs of a program on a device are added to.

    Raises:
        InputError: ``input.device`` where another program or device has computed those there.
    """
    producer, place = producer_of(bundle, program), place_of(program)
    sizes = footprint(bundle.manifest)
    empty = PackIndex(
        producer,
        device.identity,
        sizes.page_tokens,
        file_bytes(bundle, program),
        windows=sizes.windows,
    )
    index = read_index(bundle, place)
    if index is None or not index.packs:
        return empty
    if replace(index, packs=()) != empty:
        names = ", ".join(pack.name for pack in index.packs)
        raise InputError(
            f"The packs for {place.removeprefix(f'{FOLDER}/')} in {bundle.name!r} ({names}) were "
            f"computed by another program or device than {program.id} on {device.name}.",
            remedy="Remove them first: edgewise prefix BUNDLE --remove NAME.",
            code="input.device",
        )
    return index


def add_packs(path: Path, changes: Sequence[Change], told: Told) -> None:
    """Add packs to the bundle at a path, in place of those of their names.

    Raises:
        InputError: as `index_for` does.
        StorageError: ``storage.other_bundle`` where there is another bundle by now, and what
            writing raises.
    """

    def changed(bundle: Bundle) -> dict[str, _Folder]:
        folders: dict[str, _Folder] = {}
        for change in changes:
            place, program = place_of(change.program), change.program
            if (
                program not in bundle.manifest.programs
                or producer_of(bundle, program) != change.producer
            ):
                raise StorageError(
                    f"{path} was replaced while the pages were computed.",
                    remedy="Compute them again.",
                    code="storage.other_bundle",
                )
            index = index_for(bundle, program, change.device).with_pack(change.pack)
            files = {
                page_path(place, key): change.file_of(key) for key in index.files_of(change.pack)
            }
            folders[place] = _Folder(index, files)
        return folders

    _rewrite(path, changed, told)


def remove_pack(path: Path, name: str, told: Told) -> int:
    """Remove the packs of a name from the bundle at a path; for how many programs there were any.

    Raises:
        InputError: ``input.prefix`` where there is none.
        StorageError: what writing raises.
    """
    found: dict[str, _Folder] = {}

    def changed(bundle: Bundle) -> dict[str, _Folder]:
        there = packs_of(bundle)
        for place, index in there.items():
            if index.without(name) != index:
                found[place] = _Folder(index.without(name))
        if not found:
            names = sorted({pack.name for index in there.values() for pack in index.packs})
            raise InputError(
                f"Bundle {bundle.name!r} has no pack {name!r}.",
                remedy=f"It has {', '.join(names) or 'none'}.",
                code="input.prefix",
            )
        return found

    _rewrite(path, changed, told)
    return len(found)


def _rewrite(path: Path, changed: Callable[[Bundle], dict[str, _Folder]], told: Told) -> None:
    """Put a folder in place of a bundle's that has the same files, linked, but for some packs."""
    path = path.resolve()

    def waiting(done: int, total: int) -> None:
        told("Waiting for another process", done, total)

    with (
        new_folder(path, replace=True, waiting=waiting) as folder,
        closing(Bundle.open(path, verify=False)) as bundle,
    ):
        folders = changed(bundle)
        listed = bundle.manifest.files
        gone = {name for place in folders for name in files_of(place, listed)}
        stays = {page_path(place, key) for place, one in folders.items() for key in one.index.files}
        new = {name: data for one in folders.values() for name, data in one.files.items()}
        kept = {
            name: entry
            for name, entry in listed.items()
            if name not in new and (name not in gone or name in stays)
        }
        _link(bundle, [*kept, *_unlisted(bundle)], folder)
        for name, data in new.items():
            _parent(folder / name)
            write_bytes(folder / name, data)
        for place, one in folders.items():
            if one.index.packs:
                _parent(folder / index_path(place))
                write_json(folder / index_path(place), one.index.to_json())
        made = describe_files(folder, [*kept, *_unlisted(bundle)])
        write_manifest(folder, replace(bundle.manifest, files=kept | made))


def _unlisted(bundle: Bundle) -> list[str]:
    """Files beside a bundle's own, which stay where they are."""
    found = (p.relative_to(bundle.folder) for p in bundle.folder.rglob("*") if p.is_file())
    names = (name.as_posix() for name in found)
    return [
        name
        for name in names
        if name != MANIFEST
        and name not in bundle.manifest.files
        and not name.startswith(f"{FOLDER}/")
    ]


def _link(bundle: Bundle, names: Sequence[str], folder: Path) -> None:
    for name in names:
        source, target = bundle.folder / name, folder / name
        with storage_errors("copy", target):
            _parent(target)
            try:
                if source.is_symlink():
                    raise OSError
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)


def _parent(path: Path) -> None:
    with storage_errors("create", path):
        path.parent.mkdir(parents=True, exist_ok=True)
