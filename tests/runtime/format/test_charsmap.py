"""SentencePiece's table of replacements is walked before the tokenizers package walks it."""

from __future__ import annotations

import base64
import struct
from random import Random

import pytest
from tokenizers.normalizers import Precompiled

from edgewise_runtime.format.charsmap import read_charsmap

REPLACED = {"ﬁ": "fi", "①": "1", "Å": "Å", "\u200b": "", "a\u0301": "á", "㎏": "kg"}
BLOCK = 256
LEAF = 1 << 8


def charsmap(replaced: dict[str, str], *, size: int | None = None) -> bytes:
    """A table as SentencePiece writes it, each node of its trie in a block of its own."""
    texts, starts = b"\0", {}
    for key, text in replaced.items():
        starts[key.encode()] = len(texts)
        texts += text.encode() + b"\0"
    prefixes = sorted({key[:n] for key in starts for n in range(len(key) + 1)})
    blocks = {prefix: (i + 1) * BLOCK for i, prefix in enumerate(prefixes)}
    units = [0] * (BLOCK * (len(prefixes) + 1))
    for prefix, base in blocks.items():
        place = blocks[prefix[:-1]] ^ prefix[-1] if prefix else 0
        label = prefix[-1] if prefix else 0
        units[place] = (place ^ base) << 10 | (LEAF if prefix in starts else 0) | label
        if prefix in starts:
            units[base] = 1 << 31 | starts[prefix]
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie) if size is None else size) + trie + texts


def read(table: bytes) -> tuple[int, int, bool]:
    found = read_charsmap(base64.b64encode(table).decode())
    return found.growth, found.longest_key, found.removes


def test_the_tables_of_this_test_are_what_the_package_reads() -> None:
    normalizer = Precompiled(charsmap(REPLACED))
    for key, text in REPLACED.items():
        assert normalizer.normalize_str(f"x{key}y") == f"x{text}y"


def test_a_table_says_how_long_texts_become() -> None:
    assert read(charsmap(REPLACED)) == (1, 3, True)
    assert read(charsmap({"a": "b"})) == (1, 1, False)
    assert read(charsmap({"a": "bcd", "é": "x" * 9})) == (5, 2, False)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (b"", "states a trie of 0"),
        (b"\xff\xff\xff\xffabcd", "states a trie of 4294967295"),
        (charsmap(REPLACED, size=2), "states a trie of 2"),
        (struct.pack("<II", 4, 7 << 10), "beyond its end"),
        (struct.pack("<I256I", 1024, *(i << 10 | i for i in range(BLOCK))), "no tree"),
        (charsmap({"a": "b"})[:-3], "begin where there are none"),
        (charsmap({"a": "b"}) + b"\xff", "invalid start byte"),
    ],
    ids=["nothing", "a huge trie", "half a unit", "out of it", "a circle", "no text", "no UTF-8"],
)
def test_a_damaged_table_is_refused(table: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(table)


def test_what_is_no_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="base64"):
        read_charsmap("!!")


def test_whatever_is_taken_the_package_can_walk() -> None:
    """A panic of the package's would end this test."""
    text = "".join(map(chr, range(1, 0x3000))) + "a\u0301" + "\U0010ffff"
    whole = charsmap(REPLACED)
    taken = 0
    for seed in range(300):
        rng = Random(seed)
        table = bytearray(whole)
        at = rng.randrange(len(table) // 4) * 4 if rng.random() < 0.5 else rng.randrange(len(table))
        table[at] ^= 1 << rng.randrange(8)
        try:
            growth, _, _ = read(bytes(table))
        except ValueError:
            continue
        taken += 1
        if seed % 10 == 0:
            longer = Precompiled(bytes(table)).normalize_str(text)
            assert len(longer.encode()) <= growth * len(text.encode())
    assert 0 < taken < 300
