"""A page as a store keeps it: what it holds, then its state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_IDS = np.dtype("<u4")


def stored_bytes(page_tokens: int, page_bytes: int) -> int:
    """Bytes of a full page as it is stored: how many of its tokens are exact, its token ids, and
    its state."""
    return (1 + page_tokens) * _IDS.itemsize + page_bytes


def pack(tokens: Sequence[int], exact: int, state: bytes) -> bytes:
    """What to store of a full page whose first `exact` tokens prefill has written."""
    return np.array([exact, *tokens], _IDS).tobytes() + state


def unpack(data: bytes, tokens: Sequence[int], page_bytes: int) -> tuple[int, bytes] | None:
    """How many tokens of a page are exact, and its state; None where it is not that of `tokens`."""
    if len(data) != stored_bytes(len(tokens), page_bytes):
        return None
    exact, *ids = np.frombuffer(data, _IDS, count=1 + len(tokens)).tolist()
    if ids != list(tokens) or exact > len(tokens):
        return None
    return exact, data[len(data) - page_bytes :]
