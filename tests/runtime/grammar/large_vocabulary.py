"""Tokens as large vocabularies have them: the same in web/tests/grammar/large-vocabulary.ts."""

from __future__ import annotations

from collections.abc import Iterator

SIZE = 150_000
CONTROLS = 24
"""The last ids, which no text is made of."""
_SEED = 1
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_SIGNS = "\"{}[],:.\\/ ()-_=<>+*;'\n\t0"
_RUNS = ' \n\t=-*#]})"a0'
_BLOCKS = ((0xE0, 0xFF), (0x400, 0x45F), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F600, 0x1F64F))


class Draws:
    """Whole numbers at random (mulberry32, as web/tests/engine/random.ts has it)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, count: int) -> int:
        """The next number from 0 up to but not including `count`."""
        self._state = (self._state + 0x6D2B79F5) & 0xFFFFFFFF
        t = self._state
        t = ((t ^ (t >> 15)) * (t | 1)) & 0xFFFFFFFF
        t ^= (t + (t ^ (t >> 7)) * (t | 61)) & 0xFFFFFFFF
        return (t ^ (t >> 14)) * count >> 32


def large_tokens() -> list[bytes | None]:
    """The bytes of each token; None for the last ones. Some tokens are there twice."""
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    tokens += [(sign * count).encode() for sign in _RUNS for count in range(2, 97)]
    pieces = _pieces(Draws(_SEED))
    while len(tokens) < SIZE - CONTROLS:
        tokens.append(next(pieces))
    return tokens + [None] * CONTROLS


def _pieces(draws: Draws) -> Iterator[bytes]:
    while True:
        kind = draws.below(10)
        if kind < 6:
            letters = [
                _LETTERS[draws.below(1 + draws.below(26))] for _ in range(2 + draws.below(9))
            ]
            word = "".join(letters)
            yield (("", " ", '"', "_")[draws.below(4)] + word).encode()
        elif kind == 6:
            yield "".join(
                _SIGNS[draws.below(len(_SIGNS))] for _ in range(2 + draws.below(4))
            ).encode()
        elif kind == 7:
            yield str(draws.below(10_000)).encode()
        else:
            first, last = _BLOCKS[draws.below(len(_BLOCKS))]
            count = 1 + draws.below(3)
            text = "".join(
                chr(first + draws.below(last - first + 1)) for _ in range(count)
            ).encode()
            # Of one in two a byte is cut off at an end.
            yield text if kind == 8 else text[1:] if draws.below(2) else text[:-1]
