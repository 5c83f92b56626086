"""How a person names a model at a hub: ``hf:ORG/REPO``, and which of its GGUF files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

PREFIX = "hf:"
DOWNLOADING = "Downloading"
"""The phase that progress hears of while files come; its numbers are bytes."""
_PART = r"[a-z0-9_](?:[\w.-]{0,94}[a-z0-9_])?"
REPO = re.compile(f"{_PART}/{_PART}", re.ASCII | re.IGNORECASE)
"""Two names of up to 96 characters with a slash between them."""
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""What the hub's cache calls the contents of a file: a hash of them."""
_WANTED = re.compile(r"[^\0-\x1f\x7f\\]{1,200}")


@dataclass(frozen=True)
class HubModel:
    """A model at a hub; as a string what a person types to name it.

    Attributes:
        repo: its repository, ``ORG/REPO``.
        wanted: which of the GGUF files in it: the name of one, or a quantization such as
            ``Q4_K_M``. Empty for what the repository is.
    """

    repo: str
    wanted: str = ""

    def __str__(self) -> str:
        return PREFIX + self.repo + (f":{self.wanted}" if self.wanted else "")


def is_hub_name(text: str) -> bool:
    """Whether a text asks for a model at a hub, and not for a file or a bundle."""
    return text.startswith(PREFIX)


def hub_model(text: str) -> HubModel:
    """Read ``ORG/REPO``, ``ORG/REPO:FILE`` or ``ORG/REPO:QUANT``, with or without ``hf:`` before.

    Raises InputError ``input.model`` for anything else.
    """
    repo, colon, wanted = text.removeprefix(PREFIX).partition(":")
    plain = REPO.fullmatch(repo) and not re.search(r"--|\.\.|\.git$", repo)
    if not plain or (colon and not _WANTED.fullmatch(wanted)):
        raise InputError(
            f"{shorten(text)} names no model at a hub.",
            remedy=f"Write {PREFIX}ORG/REPO, and behind it :FILE.gguf or a quantization such as "
            ":Q4_K_M where it has several.",
            code="input.model",
        )
    return HubModel(repo, wanted)


def repo_of(path: Path) -> str:
    """The repository that a path in the hub's cache is of, ``ORG/REPO``; empty for other paths."""
    for folder in (path, *path.parents):
        kind, *names = folder.parent.parent.name.split("--")
        if folder.parent.name == "snapshots" and kind == "models" and len(names) == 2:
            return "/".join(names)
    return ""
