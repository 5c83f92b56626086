"""A page as a store keeps it: what it holds, then its state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgewise_runtime.format.abi import PAGE_TOKENS

_IDS = np.dtype("<u4")
HEADER_BYTES = (1 + PAGE_TOKENS) * _IDS.itemsize
"""Bytes before a page's own: how many of its tokens are exact, and its token ids."""


def pack(tokens: Sequence[int], exact: int, state: bytes) -> bytes:
    """What to store of a full page whose first `exact` tokens prefill has written."""
    return np.array([exact, *tokens], _IDS).tobytes() + state


def unpack(data: bytes, tokens: Sequence[int], page_bytes: int) -> tuple[int, bytes] | None:
    """How many tokens of a page are exact, and its state; None where it is not that of `tokens`."""
    if len(data) != HEADER_BYTES + page_bytes:
        return None
    exact, *ids = np.frombuffer(data, _IDS, count=1 + PAGE_TOKENS).tolist()
    if ids != list(tokens) or exact > PAGE_TOKENS:
        return None
    return exact, data[HEADER_BYTES:]
