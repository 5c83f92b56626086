"""Names of GGUF files. A large model is split: ``name-00001-of-00003.gguf`` and so on."""

from __future__ import annotations

import re
from pathlib import Path

SUFFIX = ".gguf"

_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})", re.DOTALL)


def is_gguf(path: Path) -> bool:
    """Whether ``path`` is a file that calls itself GGUF."""
    return path.suffix == SUFFIX and path.is_file()


def parts(path: Path) -> tuple[Path, ...]:
    """Every part of the model that ``path`` belongs to by its name; itself for a whole one."""
    named = _PART.fullmatch(path.stem)
    if named is None:
        return (path,)
    name, _, count = named.groups()
    return tuple(
        path.with_name(f"{name}-{number:05}-of-{count}{SUFFIX}")
        for number in range(1, int(count) + 1)
    )


def model_name(path: Path) -> str:
    """The name of the model in a file: without the suffix, and without the part's number."""
    named = _PART.fullmatch(path.stem)
    return path.stem if named is None else named[1]
