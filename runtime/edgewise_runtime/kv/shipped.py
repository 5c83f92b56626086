"""Pages that a bundle ships, by their keys."""

from __future__ import annotations

import hashlib

from edgewise_runtime.errors import BundleError, StorageError
from edgewise_runtime.format.bundle import Bundle, Program
from edgewise_runtime.format.packs import (
    MAX_BYTES,
    PackIndex,
    index_path,
    page_path,
    parse_index,
    place_of,
)
from edgewise_runtime.format.state import footprint, paged_state
from edgewise_runtime.kv.page_file import HEADER, payload_of, producer_digest
from edgewise_runtime.kv.stored import stored_bytes


def read_index(bundle: Bundle, place: str) -> PackIndex | None:
    """What a bundle ships in a folder (`packs.place_of`); None for nothing.

    Raises:
        BundleError: a damaged or malformed index.
    """
    path = index_path(place)
    entry = bundle.manifest.files.get(path)
    if entry is None:
        return None
    if entry.bytes > MAX_BYTES:
        message = f"{path} has {entry.bytes:,} bytes; {MAX_BYTES:,} are read at most."
        raise BundleError(message, code="bundle.size")
    return parse_index(bundle.read(path), place, bundle.manifest.files)


def file_bytes(bundle: Bundle, program: Program) -> int:
    """Bytes of the file of a program's page."""
    page_tokens = paged_state(bundle.manifest).page_tokens
    return HEADER.size + stored_bytes(page_tokens, program.page_bytes[0])


def shipped_pages(bundle: Bundle, program: Program) -> ShippedPages | None:
    """The pages that a bundle ships for a program; None for none that fit it.

    Raises:
        BundleError: as `read_index` does.
    """
    index = read_index(bundle, place_of(program))
    if index is None:
        return None
    windows = footprint(bundle.manifest).windows
    if (index.file_bytes, index.windows) != (file_bytes(bundle, program), windows):
        return None
    return ShippedPages(bundle, place_of(program), index)


class ShippedPages:
    """The pages of an index, each read and verified when it is asked for.

    One thread at a time.

    Attributes:
        computed_by: see `PackIndex`.
        digest: of all there are.
        damaged: files that were not what ``bundle.json`` or their names say. Their pages are not
            there any more.
    """

    def __init__(self, bundle: Bundle, place: str, index: PackIndex) -> None:
        self.computed_by = index.computed_by
        self.damaged = 0
        self._bundle = bundle
        self._place = place
        self._producer = producer_digest(index.computed_by)
        self._keys = set(index.files)
        files = bundle.manifest.files
        listed = sorted(files[page_path(place, key)].sha256 for key in self._keys)
        self.digest = hashlib.sha256("\n".join(listed).encode()).hexdigest()

    def __contains__(self, key: bytes) -> bool:
        """Whether a page seems to be there."""
        return key in self._keys

    def get(self, key: bytes) -> bytes | None:
        """A page's bytes, as a store keeps them; None where it is not there or not whole."""
        if key not in self._keys:
            return None
        try:
            data = self._bundle.read(page_path(self._place, key))
        except (BundleError, StorageError):
            data = b""
        page = payload_of(self._producer, key, data)
        if page is None:
            self.damaged += 1
            self._keys.discard(key)
        return page
