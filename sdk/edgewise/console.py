"""Where the library and the commands say something: foreign text gives no terminal orders."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from edgewise_runtime.shown import shown


class ShownConsole(Console):
    """A console that sends no control character but its own; text means nothing else to it."""

    def __init__(self, **options: Any) -> None:
        """`options`: rich's. Emoji, markup and numbers in names and texts mean nothing."""
        super().__init__(emoji=False, highlight=False, markup=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the pieces that are written, of which rich's own orders are left alone."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=shown(piece.text))


def stderr_console(*, soft_wrap: bool = True) -> Console:
    """The console of what is said beside a result."""
    return ShownConsole(stderr=True, soft_wrap=soft_wrap)


class _Shown(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))


def show_warnings(library: str) -> None:
    """Have what a library logs to a terminal by itself shown as other foreign text is."""
    for handler in logging.getLogger(library).handlers:
        handler.setFormatter(_Shown())
