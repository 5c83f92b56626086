"""docs/quantization.md repeats figures of docs/quality.md, and says the same."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def rows(text: str) -> dict[str, list[str]]:
    """Cells of the tables' rows that begin with a name as code, by that name."""
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if (name := re.fullmatch(r"\*{0,2}`([\w+]+)`\*{0,2}", cells[0])) and len(cells) > 3:
            found[name[1]] = cells[1:]
    return found


def test_figures_are_those_of_the_page_they_come_from() -> None:
    smollm2, _, _ = (DOCS / "quality.md").read_text("utf-8").partition("## The demo model")
    measured = rows(smollm2)
    told = rows((DOCS / "quantization.md").read_text("utf-8"))
    assert {"balanced", "small", "q8"} <= told.keys()
    for name, (bits, mebibytes, divergence, same) in told.items():
        theirs_mebibytes, theirs_bits, _, _, mean, _, _, top1 = measured[name]
        assert (bits, mebibytes) == (theirs_bits, theirs_mebibytes), name
        assert (divergence, same) == (mean, top1), name
