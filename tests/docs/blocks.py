"""The code blocks of the pages that people read: what language each is in, and what it needs.

An indented block is shell commands. A fenced one says its language, and in the rest of its info
string ``not-run: why`` where nothing can be made of it here. A comment before a Python block binds
the names that it leaves to the reader: ``<!-- given: questions = ["A fox", "An owl"] -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "web/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
SHELL = "sh"
NOT_RUN = "not-run:"
_FENCE = re.compile(r"( *)(`{3,})(.*)")
_GIVEN = "<!-- given:"
_INDENT = "    "


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        page: relative to the repository.
        line: where it begins, from 1.
        language: the first word of its info string; of an indented block `SHELL`.
        reason: why it is not run, empty where it is.
        given: statements that bind names for it.
        text: its lines, without indentation.
    """

    page: str
    line: int
    language: str
    reason: str
    given: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks(language: str | None = None) -> tuple[Block, ...]:
    """Every block of all pages, or those of a language that are run."""
    found = [
        block
        for page in PAGES
        for block in blocks_of(page.read_text("utf-8"), page.relative_to(ROOT).as_posix())
    ]
    if language is None:
        return tuple(found)
    return tuple(block for block in found if block.language == language and not block.reason)


def blocks_of(text: str, page: str) -> Iterator[Block]:
    """The blocks of one page, in order.

    Raises ValueError for a fence that is not closed.
    """
    lines = text.splitlines()
    at, given = 0, ""
    while at < len(lines):
        line, start = lines[at], at
        fence = _FENCE.fullmatch(line)
        if fence is not None:
            at = _end(lines, start, fence)
            language, _, note = fence[3].strip().partition(" ")
            reason = note.strip().removeprefix(NOT_RUN).strip()
            body = dedent("\n".join(lines[start + 1 : at - 1]))
            yield Block(page, start + 2, language, reason, given, body)
            given = ""
        elif line.startswith(_GIVEN):
            while "-->" not in lines[at]:
                at += 1
            at += 1
            given = "\n".join(lines[start:at]).removeprefix(_GIVEN).removesuffix("-->").strip()
        elif line.startswith(_INDENT) and (start == 0 or not lines[start - 1].strip()):
            while at < len(lines) and (lines[at].startswith(_INDENT) or not lines[at].strip()):
                at += 1
            body = dedent("\n".join(lines[start:at])).strip()
            yield Block(page, start + 1, SHELL, "", "", body)
        else:
            given = given if not line.strip() else ""
            at += 1


def _end(lines: list[str], start: int, fence: re.Match[str]) -> int:
    """The line after the one that closes a fence."""
    for at in range(start + 1, len(lines)):
        if lines[at].strip() == fence[2]:
            return at + 1
    raise ValueError(f"The block that begins in line {start + 1} has no end.")
