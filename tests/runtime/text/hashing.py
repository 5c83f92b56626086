"""A short hash of token ids or bytes: four characters each, packed end to end in the goldens."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

WIDTH = 4
"""Characters that one hash takes."""


def packed(numbers: Sequence[int]) -> str:
    """Return 24 bits of the numbers' SHA-256 as four characters."""
    digest = hashlib.sha256(" ".join(map(str, numbers)).encode()).digest()
    return base64.b64encode(digest[:3]).decode()
