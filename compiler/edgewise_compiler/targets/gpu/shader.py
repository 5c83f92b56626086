"""A kernel as a program holds it: its code, and what plans must know of that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shader:
    """A kernel in a GPU language.

    Attributes:
        source: the kernel's text; empty where its language has none.
        entry: the function in it that is launched.
        workgroup: threads of a workgroup in x, y and z.
        access: ``read`` or ``read_write`` for each argument, in order.
        binary: the content of its file where that is not the text.
    """

    source: str
    entry: str
    workgroup: tuple[int, int, int]
    access: tuple[str, ...]
    binary: bytes | None = None

    @property
    def file(self) -> bytes:
        """The content of its file."""
        return self.source.encode() if self.binary is None else self.binary
