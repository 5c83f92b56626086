"""``prefixes/<target>-<arithmetic>/index.json``: the prompts whose KV pages a bundle ships for its
programs of one target and arithmetic.

A page is a file beside it, ``<key>.kv``, the same that a disk keeps (`kv.page_file`). Its key says
all that its bytes depend on but who computed it, which the index says, for all of its pages alike.

Of a model with windows each state group has pages of its own, which are files of their own names
(`state.group_key`): of a group without a window all, of another those that the first token sees
which follows the prompt.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import TABLES
from edgewise_runtime.format.manifest import FileEntry, Program
from edgewise_runtime.format.reading import HEX_SHA256, ID, LIMIT, Fields, parse_json, shorten
from edgewise_runtime.format.state import group_key, pages_behind

VERSION = 1
WINDOWED = 2
"""The version of an index of a model with windows."""
MAX_BYTES = 1 << 24
MAX_PACKS, MAX_PAGES = 256, 1 << 16
"""Packs of an index, and pages of all of them, at most."""
MAX_PRODUCER = 1024

FOLDER = "prefixes"
_PAGE = re.compile(rf"{FOLDER}/[^/]+/[0-9a-f]{{64}}\.kv")


def place_of(program: Program) -> str:
    """The folder in a bundle of what is shipped for a program, and those that compute alike."""
    return f"{FOLDER}/{program.target}-{program.arithmetic}"


def index_path(place: str) -> str:
    """Where in a bundle the index of a folder is."""
    return f"{place}/index.json"


def page_path(place: str, key: bytes) -> str:
    """Where in a bundle the page with this key is."""
    return f"{place}/{key.hex()}.kv"


def is_page(path: str) -> bool:
    """Whether a file of a bundle is a page, which is hashed when it is read."""
    return _PAGE.fullmatch(path) is not None


def files_of(place: str, files: Iterable[str]) -> set[str]:
    """Those of a bundle's files that are in a folder of packs."""
    return {path for path in files if path.startswith(f"{place}/")}


def prompt_digest(tokens: Sequence[int]) -> str:
    """What a pack calls the tokens that it holds: the sha256 of their ids, each in four bytes."""
    return hashlib.sha256(np.array(tokens, "<u4").tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Pack:
    """One prompt's beginning.

    Attributes:
        name: for people.
        prompt: `prompt_digest` of its tokens.
        keys: of its pages, in order, the same for all state groups.
        prefill_tokens_per_s: how fast they were computed, where they were.
    """

    name: str
    prompt: str
    keys: tuple[bytes, ...]
    prefill_tokens_per_s: int

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "prompt": self.prompt,
            "keys": [key.hex() for key in self.keys],
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
        }


@dataclass(frozen=True, slots=True)
class PackIndex:
    """All packs of programs that compute alike, whose pages one of them has computed.

    Attributes:
        producer: its code and plans (`kv.keys.producer_of`).
        device: on what it ran, as far as that decides about bits (`Device.identity`).
        page_tokens: tokens of a page.
        file_bytes: bytes of a page's file.
        windows: of the model's state groups.
    """

    producer: str
    device: str
    page_tokens: int
    file_bytes: int
    packs: tuple[Pack, ...] = ()
    windows: tuple[int | None, ...] = (None,)

    @property
    def files(self) -> frozenset[bytes]:
        """What the files of all pages are called."""
        return frozenset(key for pack in self.packs for key in self.files_of(pack))

    def files_of(self, pack: Pack) -> tuple[bytes, ...]:
        """What the files of a pack's pages are called, those of a group in their order."""
        return tuple(
            group_key(key, group)
            for group, first in enumerate(self._firsts(pack))
            for key in pack.keys[first:]
        )

    def file_count(self, pack: Pack) -> int:
        """How many files a pack has."""
        return sum(len(pack.keys) - first for first in self._firsts(pack))

    def _firsts(self, pack: Pack) -> tuple[int, ...]:
        """The first page of each state group that a pack has."""
        tokens = len(pack.keys) * self.page_tokens
        return tuple(pages_behind(window, tokens, self.page_tokens) for window in self.windows)

    @property
    def computed_by(self) -> str:
        """What the files of its pages say of who computed them."""
        return f"{self.producer}/{self.device}"

    def with_pack(self, pack: Pack) -> PackIndex:
        """The same with a pack, in place of one of its name."""
        return replace(self, packs=(*self.without(pack.name).packs, pack))

    def without(self, name: str) -> PackIndex:
        """The same without the pack of a name."""
        return replace(self, packs=tuple(pack for pack in self.packs if pack.name != name))

    def to_json(self) -> dict[str, Any]:
        windowed = any(window is not None for window in self.windows)
        return {
            "version": WINDOWED if windowed else VERSION,
            "producer": self.producer,
            "device": self.device,
            "page_tokens": self.page_tokens,
            "file_bytes": self.file_bytes,
            **({"windows": list(self.windows)} if windowed else {}),
            "packs": [pack.to_json() for pack in self.packs],
        }


def parse_index(data: bytes, place: str, files: Mapping[str, FileEntry]) -> PackIndex:
    """Read an index that nobody vouches for, of a bundle that lists these files.

    Raises:
        BundleError: whatever is wrong with it.
    """
    value = parse_json(data, index_path(place), BundleError)
    return index_from(value, place, {path: entry.bytes for path, entry in files.items()})


def index_from(value: object, place: str, sizes: Mapping[str, int]) -> PackIndex:
    """`parse_index` of parsed JSON, with the bytes of each file of the bundle."""
    where = index_path(place)
    fields = Fields(value, where, BundleError)
    windowed = fields.get("version") == WINDOWED
    fields.version(WINDOWED if windowed else VERSION)
    windows = _read_windows(fields) if windowed else (None,)
    listed = fields.items("packs", most=MAX_PACKS)
    index = PackIndex(
        producer=fields.text("producer", most=MAX_PRODUCER),
        device=fields.text("device", most=MAX_PRODUCER),
        page_tokens=fields.integer("page_tokens", 1, 2**12),
        file_bytes=fields.integer("file_bytes", 1, LIMIT - 1),
        packs=tuple(_read_pack(Fields(one, f"{where}, a pack", BundleError)) for one in listed),
        windows=windows,
    )
    fields.done()
    if len({pack.name for pack in index.packs}) < len(index.packs):
        raise fields.fail("duplicate", "two packs have one name")
    if sum(map(index.file_count, index.packs)) > MAX_PAGES:
        raise fields.fail("range", f"more than {MAX_PAGES} pages")
    for key in index.files:
        path = page_path(place, key)
        if path not in sizes:
            raise fields.fail("unknown_name", f"'files' does not list {path!r}")
        if sizes[path] != index.file_bytes:
            message = f"{path!r} has {sizes[path]} bytes, not {index.file_bytes}"
            raise fields.fail("size", message)
    return index


def _read_windows(fields: Fields) -> tuple[int | None, ...]:
    windows = fields.items("windows", most=len(TABLES))
    if not any(window is not None for window in windows):
        raise fields.fail("range", "'windows' has none")
    for window in windows:
        if window is not None and (type(window) is not int or not 1 <= window < LIMIT):
            raise fields.fail("range", f"'windows' holds {shorten(window)}")
    return tuple(windows)


def _read_pack(fields: Fields) -> Pack:
    keys = fields.items("keys", most=MAX_PAGES)
    if not keys or not all(isinstance(key, str) and HEX_SHA256.fullmatch(key) for key in keys):
        raise fields.fail("name", "'keys' holds something that is no key of a page")
    pack = Pack(
        name=fields.text("name", ID),
        prompt=fields.text("prompt", HEX_SHA256),
        keys=tuple(bytes.fromhex(key) for key in keys),
        prefill_tokens_per_s=fields.integer("prefill_tokens_per_s", 0, LIMIT - 1),
    )
    fields.done()
    return pack
