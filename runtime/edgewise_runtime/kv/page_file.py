"""A page as a file, which says what it is and is believed only if it is whole.

It begins with `HEADER`, little-endian: the magic, the version, the sha256 of the producer, the
page's key, its bytes, and the sha256 of all that and the payload; then the payload.
"""

from __future__ import annotations

import hashlib
import struct

MAGIC = b"EWKV"
VERSION = 1
HEADER = struct.Struct("<4sI32s32sQ32s")
_SIGNED = HEADER.size - 32


def producer_digest(producer: str) -> bytes:
    """What a file says of who computed its page: 32 bytes."""
    return hashlib.sha256(producer.encode()).digest()


def header_of(producer: bytes, key: bytes, payload: bytes | memoryview) -> bytes:
    """What stands before the payload of a page that this producer (its digest) has computed."""
    signed = HEADER.pack(MAGIC, VERSION, producer, key, len(payload), bytes(32))[:_SIGNED]
    digest = hashlib.sha256(signed)
    digest.update(payload)
    return signed + digest.digest()


def payload_of(producer: bytes, key: bytes, file: bytes) -> bytes | None:
    """The payload of a file; None where it is not whole, or not that page of this producer."""
    header, payload = file[: HEADER.size], file[HEADER.size :]
    # Whatever the header may say of itself, there is only one that is right.
    return payload if header == header_of(producer, key, payload) else None
