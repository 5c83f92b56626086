"""What is printed gives a terminal no orders but rich's own."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable

import pytest
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from edgewise.console import ShownConsole, show_warnings
from edgewise.phases import Phases
from tests.runtime.test_shown import CLIPBOARD, TITLE, orders

FOREIGN = f"[bold]{CLIPBOARD}{TITLE}[/]:smile:"
STYLES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def written(write: Callable[[Console], object], *, terminal: bool = True) -> str:
    """What is written to a console, without the orders for styles and for moving about."""
    file = io.StringIO()
    write(ShownConsole(file=file, force_terminal=terminal, width=200))
    return STYLES.sub("", file.getvalue()).replace("\r", "")


def table() -> Table:
    rows = Table(FOREIGN, title=FOREIGN)
    rows.add_row(Text(FOREIGN))
    return rows


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize(
    "what", [FOREIGN, Text(FOREIGN, style="bold"), table()], ids=["text", "styled", "table"]
)
def test_what_is_printed_is_shown(what: RenderableType, terminal: bool) -> None:
    found = written(lambda console: console.print(what, style="dim"), terminal=terminal)
    assert orders(found) == []
    assert "[bold]" in found
    assert ":smile:" in found


def test_words_beside_a_bar_are_shown() -> None:
    def fetch(console: Console) -> None:
        with Phases(console) as phases:
            phases(FOREIGN, 1, 2)
            phases(FOREIGN, 2, 2)

    found = written(fetch)
    assert orders(found) == []
    assert "[bold]" in found


def test_what_a_library_warns_of_is_shown() -> None:
    file = io.StringIO()
    logger = logging.getLogger("tests.sdk.library")
    logger.propagate = False
    logger.addHandler(logging.StreamHandler(file))
    show_warnings(logger.name)
    logger.warning("a hub says %s", FOREIGN)
    assert orders(file.getvalue()) == []
    assert file.getvalue().startswith("a hub says [bold]")
