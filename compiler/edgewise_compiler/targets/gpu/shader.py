"""A kernel as a program holds it: its text, and what plans must know of that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shader:
    """A kernel in a GPU language.

    Attributes:
        source: the text of its file.
        entry: the function in it that is launched.
        workgroup: threads of a workgroup in x, y and z.
        access: ``read`` or ``read_write`` for each argument, in order.
    """

    source: str
    entry: str
    workgroup: tuple[int, int, int]
    access: tuple[str, ...]
