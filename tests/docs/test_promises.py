"""What pages say that a test holds, a test holds: the files they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED = re.compile(r"\b(?:web/)?tests/[\w./-]*\w\.(?:py|ts|json|toml|c|mjs)\b")
BULLET = re.compile(r"^- .*(?:\n  .*)*", re.MULTILINE)
EXAMPLE = "tests/one_file.py"

NO_PROMISES = (
    "`edgewise eval` hands",
    "That a text cannot end its turn",
    "The prompt of `generate`",
    "With `special_tokens=",
)
"""Beginnings of what docs/security.md says is not promised, or what follows from something else."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = set(NAMED.findall(page.read_text())) - {EXAMPLE}
    # Pages about web/ name files from there.
    there = {name for name in named if (ROOT / name).exists() or (ROOT / "web" / name).exists()}
    assert sorted(named - there) == []


def test_every_promise_names_the_test_that_holds_it() -> None:
    bullets = BULLET.findall((ROOT / "docs/security.md").read_text())
    unheld = [
        bullet.splitlines()[0]
        for bullet in bullets
        if not re.search(r"\btests/", bullet)
        and not bullet.removeprefix("- ").startswith(NO_PROMISES)
    ]
    assert len(bullets) > 30
    assert unheld == []
