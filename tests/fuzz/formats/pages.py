"""Pages of prompts on a disk, which others may have written to."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from edgewise_runtime.kv.page_disk import DiskStore
from edgewise_runtime.kv.page_file import HEADER
from tests.fuzz.case import Files, Format, WrongAnswerError, read_files
from tests.fuzz.mutate import raw

PAGE = 4096
LIMIT = 1 << 20
KEYS = tuple(bytes([number]) * 32 for number in range(3))


def _page(key: bytes) -> bytes:
    return key * (PAGE // len(key))


def _open(folder: Path, producer: str = "me") -> DiskStore:
    return DiskStore(folder, LIMIT, producer, PAGE)


def _seeds() -> Sequence[Files]:
    """Pages of two producers, so that those of one may come to lie where the other's are."""
    with TemporaryDirectory() as place:
        for producer in ("me", "another"):
            store = _open(Path(place), producer)
            for key in KEYS:
                store.put(key, _page(key)[::-1] if producer == "another" else _page(key))
        return [read_files(Path(place))]


def _mutate(rng: Random, files: Files) -> Files:
    """Damages one file, or puts one in the place of another."""
    name, other = rng.choice(sorted(files)), rng.choice(sorted(files))
    if rng.random() < 0.2:
        return {**files, name: files[other]}
    data = raw.changed(rng, files[name], head=HEADER.size if rng.random() < 0.5 else None)
    if rng.random() < 0.2:
        # The header of one page before the bytes of another.
        data = files[other][: HEADER.size] + data[HEADER.size :]
    return {**files, name: data}


def _use(folder: Path, files: Files) -> None:
    copy = folder.parent / "pages"
    # A store removes what is damaged, and the next case counts on what is there.
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    for path in (copy, *copy.iterdir()):
        path.chmod(0o700)
    store = _open(copy)
    for key in KEYS:
        found = store.get(key)
        if found is not None and found != _page(key):
            raise WrongAnswerError(f"another page than was put there under {key.hex()}")
    store.close()


PAGES = Format(_seeds, _mutate, _use)
