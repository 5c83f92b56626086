"""Pages of prompts on a disk, which others may have written to, of a model with windows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.state import Footprint, group_key
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.page_disk import DiskStore
from edgewise_runtime.kv.page_file import HEADER
from edgewise_runtime.kv.stored import Elsewhere, pack, stored_bytes
from edgewise_runtime.kv.windowed import WindowedMemory
from tests.fuzz.case import Files, Format, WrongAnswerError, read_files
from tests.fuzz.mutate import raw

STATE = 4096
LIMIT = 1 << 20
WINDOWS = (None, 20)
COUNT = 3
TOKENS = tuple(range(COUNT * PAGE_TOKENS))
SIZES = Footprint(WINDOWS, PAGE_TOKENS, PAGE_TOKENS)
ROOT = bytes(32)
PAGE = stored_bytes(PAGE_TOKENS, STATE)


def _names() -> dict[bytes, tuple[int, int]]:
    """What pages are called, and the group and the number in the text of each."""
    chain = KeyChain(ROOT)
    keys = [chain.key(nth, _tokens(nth)) for nth in range(COUNT)]
    return {
        group_key(key, group): (group, nth)
        for nth, key in enumerate(keys)
        for group in range(len(WINDOWS))
    }


def _tokens(nth: int) -> tuple[int, ...]:
    return TOKENS[nth * PAGE_TOKENS : (nth + 1) * PAGE_TOKENS]


def _state(group: int, nth: int) -> bytes:
    return bytes([group, nth]) * (STATE // 2)


def _page(key: bytes) -> bytes:
    group, nth = NAMES[key]
    return pack(_tokens(nth), PAGE_TOKENS, _state(group, nth))


NAMES = _names()
KEYS = tuple(NAMES)


class Pages:
    """A device's pages."""

    page_bytes = STATE

    def __init__(self) -> None:
        self.data: dict[int, bytes] = {}

    def copy_page(self, source: int, target: int) -> None:
        raise WrongAnswerError("nothing is to be copied")

    def read_page(self, page: int) -> bytes:
        return self.data[page]

    def write_page(self, page: int, data: bytes) -> None:
        self.data[page] = data


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
    begun = _begin(_open(copy))
    store = _open(copy)
    found = {key: store.get(key) for key in KEYS}
    for key, page in found.items():
        if page is not None and page != _page(key):
            raise WrongAnswerError(f"another page than was put there under {key.hex()}")
    store.close()
    whole = {place for key, place in NAMES.items() if found[key] is not None}
    possible = [count for count in range(COUNT + 1) if whole.issuperset(_needed(count))]
    if begun != max(possible):
        raise WrongAnswerError(f"a text that begins with {begun} pages, not {max(possible)}")


def _needed(count: int) -> list[tuple[int, int]]:
    """The pages with which a text goes on after so many, by their groups and their numbers."""
    behind = [SIZES.behind(window, count * PAGE_TOKENS) for window in WINDOWS]
    return [(group, nth) for group, first in enumerate(behind) for nth in range(first, count)]


def _begin(store: DiskStore) -> int:
    """Begin a text with what there is of it; with how many pages."""
    device = Pages()
    memory = WindowedMemory(Elsewhere(device, store), 12, footprint=SIZES, inexact=False)
    holding = memory.acquire(KeyChain(ROOT), (*TOKENS, 0), len(TOKENS) + 1, later=True)
    if holding is None or memory.check([holding]):
        raise WrongAnswerError("pages that are not whose they are said to be")
    count = holding.found.total // PAGE_TOKENS
    for group, nth in _needed(count):
        if device.data[holding.rows[group][nth]] != _state(group, nth):
            raise WrongAnswerError(f"page {nth} of group {group} is another one")
    store.close()
    return count


PAGES = Format(_seeds, _mutate, _use)
