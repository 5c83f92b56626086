"""What a page of KV memory is called: a hash over everything that its contents depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from json import dumps

import numpy as np

from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.manifest import Program
from edgewise_runtime.trust import digest


def page_key(parent: bytes, tokens: Sequence[int], extras: bytes = b"") -> bytes:
    """The key of a page: SHA-256 of the key before it, what else it depends on, its token ids.

    Args:
        parent: 32 bytes: the key of the page before, `root_key` for a sequence's first page.
        tokens: ids of the page's tokens.
        extras: hashes of what a page depends on besides, such as the images in it.
    """
    ids = np.array(tokens, "<u4").tobytes()
    return sha256(parent + len(extras).to_bytes(4, "little") + extras + ids).digest()


class KeyChain:
    """The keys of a sequence's full pages, each computed when it is first asked for.

    As long as its tokens stay what they are: with other ones a sequence begins another chain.

    Attributes:
        root: the key before the first page.
        used: how many of the first pages others needed when last there was no room for the rest.
    """

    __slots__ = ("_keys", "root", "used")

    def __init__(self, root: bytes, keys: Iterable[bytes] = ()) -> None:
        """Begin with the `keys` of the first pages, as far as they are known."""
        self.root = root
        self.used = 0
        self._keys = list(keys)

    def before(self, nth: int) -> bytes:
        """The key before page `nth`; those of the pages before it are known."""
        return self._keys[nth - 1] if nth else self.root

    def key(self, nth: int, tokens: Sequence[int]) -> bytes:
        """The key of page `nth`, which holds these tokens; those of the pages before are known."""
        if nth == len(self._keys):
            self._keys.append(page_key(self.before(nth), tokens))
        return self._keys[nth]


def root_key(bundle: Bundle, program: Program) -> bytes:
    """The key before a sequence's first page: the weights that the program reads and the layout of
    its KV, which is what its state groups mean in this version of the format.

    Weights are known by what loading verifies, the hashes of their files, and by where in them each
    tensor lies. What a bundle calls its weights is a claim: another may make the same one.
    """
    manifest = bundle.manifest
    tensors = manifest.layouts[program.layout]
    described = {
        "version": manifest.version,
        "tensors": {name: [t.file, t.offset, t.dtype, t.shape] for name, t in tensors.items()},
        "files": {t.file: manifest.files[t.file].to_json() for t in tensors.values()},
        "state": [group.to_json() for group in manifest.state_groups],
        "dtype": program.state_dtype,
    }
    return sha256(dumps(described, sort_keys=True).encode()).digest()


def salted(root: bytes, extras: Sequence[str]) -> bytes:
    """A root key for sequences that also depend on `extras`: an adapter, a tenant's name."""
    return sha256(root + dumps(list(extras)).encode()).digest() if extras else root


def producer_of(bundle: Bundle, program: Program) -> str:
    """Which code and which plans wrote a page: its bits are those of another producer only by
    accident."""
    return f"{program.target}/{program.id}/{digest(bundle.manifest, program)}"
