"""Changes to bytes: flips, numbers that may be lengths, parts that are gone or come twice."""

from __future__ import annotations

from random import Random

_SIZES = (1, 2, 4, 8)
_HOSTILE = (0, 1, 2, 3, 16, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62)


def changed(rng: Random, data: bytes, head: int | None = None) -> bytes:
    """The bytes with one to three changes.

    Args:
        head: most changes are in so many bytes at the beginning; None for anywhere.
    """
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(rng, raw, min(head or len(raw), len(raw)))
    return bytes(raw)


def _change(rng: Random, raw: bytearray, head: int) -> None:
    at = rng.randrange(head + 1)
    match rng.randrange(9):
        case 0 | 1:
            if raw:
                raw[min(at, len(raw) - 1)] ^= 1 << rng.randrange(8)
        case 2 | 3:
            size = rng.choice(_SIZES)
            number = rng.choice(_HOSTILE) if rng.random() < 0.8 else -rng.choice(_HOSTILE)
            raw[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
        case 4:
            raw[at:at] = rng.randbytes(rng.choice((1, 2, 8, 64)))
        case 5:
            del raw[at : at + rng.choice((1, 2, 8, 64))]
        case 6:
            del raw[rng.randrange(len(raw) + 1) :]
        case 7:
            raw += rng.randbytes(rng.choice((1, 32, 1000)))
        case _:
            raw[at:at] = raw[at : at + rng.choice((1, 8, 64, 1000))]
