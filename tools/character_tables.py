"""Reads off the tokenizers package which characters are in its classes, as the tab has them.

    python -m tools.character_tables        # says which tables of web/engine differ

The package's tables are of several Unicodes; a tokenizer's ids follow them, not a browser's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers

WRITTEN = Path(__file__).parents[1] / "web/engine/tokenizing/characters.ts"
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _bert(*, clean: bool = False, accents: bool = False) -> Callable[[str], str]:
    step = normalizers.BertNormalizer(
        clean_text=clean, handle_chinese_chars=False, strip_accents=accents, lowercase=False
    )
    return step.normalize_str


def tables() -> dict[str, str]:
    """Each class by its name: ranges, as characters.ts writes them."""
    marks, cuts = normalizers.StripAccents(), pre_tokenizers.BertPreTokenizer()

    def vanishing(normalized: Callable[[str], str]) -> list[int]:
        return [ord(c) for c in CHARACTERS if normalized(f"a{c}b") == "ab"]

    return {
        "CONTROL": ranges(vanishing(_bert(clean=True))),
        "MARK": ranges(vanishing(marks.normalize_str)),
        "NONSPACING": ranges(vanishing(_bert(accents=True))),
        "PUNCTUATION": ranges(
            ord(c) for c in CHARACTERS if len(cuts.pre_tokenize_str(f"a{c}b")) == 3
        ),
    }


def ranges(codes: Iterable[int]) -> str:
    """How far each range begins after the last one's end and, past a +, how long it goes on."""
    found: list[list[int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    parts, end = [], 0
    for first, last in found:
        parts.append(_base36(first - end) + (f"+{_base36(last - first)}" if last > first else ""))
        end = last
    return " ".join(parts)


def _base36(number: int) -> str:
    text = _DIGITS[number % 36]
    while number := number // 36:
        text = _DIGITS[number % 36] + text
    return text


def written() -> dict[str, str]:
    """The tables that the tab has."""
    found = re.findall(r"const (\w+) = classOf\(\n(.*?),\n\);", WRITTEN.read_text(), re.DOTALL)
    return {name: "".join(re.findall(r'"([^"]*)"', body)) for name, body in found}


def main() -> None:
    ours = written()
    for name, table in tables().items():
        print(name, "as written" if ours[name] == table else f"is {table}")


if __name__ == "__main__":
    main()
