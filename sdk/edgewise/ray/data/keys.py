"""What a row is known by, which of them are done, and the random numbers that are a row's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

DIGEST = 16
"""Bytes of a row's key: two of 2**40 rows share one with a probability of 2**-48."""
_PURPOSE = b"edgewise row\0"
_SEED = b"edgewise seed of a row\0"
_RECENT = 1 << 15

Digests = npt.NDArray[np.bytes_]


def digest_of(row: Mapping[str, Any], key: str | None) -> bytes:
    """What a row is known by: `DIGEST` bytes of its key's SHA-256.

    Args:
        row: its columns by name, as Python values.
        key: the column that tells rows apart; None, and a row that has none there, to go by all
            that is in it.
    """
    own = None if key is None else row.get(key)
    value = dict(row) if own is None else own
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_written)
    return hashlib.sha256(_PURPOSE + text.encode()).digest()[:DIGEST]


def seed_of(seed: int, digest: bytes) -> int:
    """A row's own seed, 0 to 2**63 - 1: rows differ, and a row has the same in every run."""
    data = hashlib.sha256(_SEED + f"{seed}\0".encode() + digest).digest()
    return int.from_bytes(data[:8], "big") >> 1


def sorted_digests(digests: Iterable[bytes]) -> Digests:
    """Digests as an array of 16 bytes each, in order, none of them twice."""
    return np.unique(np.frombuffer(b"".join(digests), f"S{DIGEST}"))


def among(digests: Sequence[bytes], known: Digests) -> npt.NDArray[np.bool_]:
    """Which of these are among those that are known, which are in order."""
    asked = np.frombuffer(b"".join(digests), f"S{DIGEST}")
    if not len(known):
        return np.zeros(len(asked), bool)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.asarray(known[at] == asked)


class Seen:
    """Digests that have been seen: 16 bytes for each, and a few MiB."""

    def __init__(self, known: Digests) -> None:
        """`known`: those to begin with, in order."""
        self._known = known
        self._recent: set[bytes] = set()

    def new(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Which of these had not been seen before; they have been now."""
        found = ~among(digests, self._known)
        for at in np.flatnonzero(found).tolist():
            found[at] = digests[at] not in self._recent
            self._recent.add(digests[at])
        if len(self._recent) > _RECENT:
            self._known = np.union1d(self._known, sorted_digests(self._recent))
            self._recent = set()
        return found


def _written(value: Any) -> Any:
    """What JSON has no word for, such as bytes, dates, decimals and arrays."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return {type(value).__name__: str(value)}
