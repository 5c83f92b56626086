"""Changes to text that keep most of it, so that it is still read for a while."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

STRINGS = (
    *(
        "",
        " ",
        "a",
        "A",
        "é",
        "日本",
        "🙂",
        "\0",
        "\x1b]52;c;YQ==\x07",
        "\x1b[2J",
        "\u202e",
        "\x9b31m",
    ),
    *("..", "../x", "/etc/passwd", "a/b", "a\\b", "C:x", ".hidden", "~", "bundle.json"),
    *("x" * 200, "__proto__", "constructor", "toString", "__class__", "__len__", "length"),
    *("null", "nan", "-1", "1e9", "0x10", "%s%n", "{0}", "{{ x }}", "${x}", "\ud800", "\ufeff"),
    *("\n", "\r\n", "<|im_end|>", "<s>", "<unk>", "▁", "Ġ", "a" * 5000, "(" * 3000, "[" * 3000),
    *("a" * 200_000,),
)
NUMBERS = ("0", "-1", "1", "2", "3", "64", "255", "256", "65536", "2147483647", "2147483648")
HUGE = ("4294967296", "9007199254740993", "18446744073709551616", "9" * 400, "1e308", "0.1e-400")
MAX_LENGTH = 1 << 20
"""Characters that repeating makes at most."""

_NUMBER = re.compile(r"\d+")


def damaged(rng: Random, text: str, words: Sequence[str]) -> str:
    """The text with one to three changes.

    Args:
        words: what its language is made of: put in, and put around parts of it, many times over.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _damaged_once(rng, text, words)[:MAX_LENGTH]
    return text


def _damaged_once(rng: Random, text: str, words: Sequence[str]) -> str:
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    short = min(b, a + rng.choice((1, 2, 8, 40)))
    match rng.randrange(10):
        case 0:
            return text[:a] + text[short:]
        case 1:
            return text[:a] + text[b:]
        case 2 | 3:
            return text[:a] + rng.choice(words) + text[a:]
        case 4:
            return text[:a] + rng.choice(words) + text[short:]
        case 5:
            most = max(1, MAX_LENGTH // (len(text) + 1))
            times = min(rng.choice((2, 3, 50, 3000)), most)
            return text[:a] + text[a:short] * times + text[short:]
        case 6:
            times = rng.choice((1, 2, 30, 300, 3000))
            return (
                text[:a]
                + rng.choice(words) * times
                + text[a:b]
                + rng.choice(words) * times
                + text[b:]
            )
        case 7:
            return text[:a]
        case 8:
            return _with_number(rng, text)
        case _:
            return text[:a] + rng.choice(STRINGS) + text[short:]


def _with_number(rng: Random, text: str) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text + rng.choice(NUMBERS)
    chosen = rng.choice(found)
    number = rng.choice(NUMBERS if rng.random() < 0.7 else HUGE)
    return text[: chosen.start()] + number + text[chosen.end() :]
