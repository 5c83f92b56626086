"""What a hub says about a repository: its name now, its newest commit, and the files in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import HfApi, constants

from edgewise.console import show_warnings
from edgewise.hub.failures import hub_answers
from edgewise.hub.names import DIGEST, REPO, HubModel
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.installed import VERSION

LIBRARY = "edgewise"
"""Who asks, as requests say it."""
MAX_FILES = 100_000
MAX_NAME = 400
"""Characters of a file's path: others are not seen, and errors quote some."""
COMMIT = re.compile(r"[0-9a-f]{40}")

_FOLDERS_ABOVE = {"", ".", ".."}

show_warnings("huggingface_hub")  # which hubs may send in their headers


@dataclass(frozen=True)
class HubFile:
    """A file of a repository.

    Attributes:
        name: its path in the repository.
        size: bytes.
        digest: SHA-256 in 64 hexadecimal digits; of small files Git's own SHA-1 in 40. The hub's
            cache calls the file so.
    """

    name: str
    size: int
    digest: str


@dataclass(frozen=True)
class Listing:
    """A repository at one commit.

    Attributes:
        repo: what it is called now, which differs from what was asked for where it was renamed.
        commit: 40 hexadecimal digits.
        files: what is in it, by path.
    """

    repo: str
    commit: str
    files: Mapping[str, HubFile]


def list_files(model: HubModel) -> Listing:
    """Ask the hub for a repository.

    Raises:
        HubError: ``hub.answer`` where what answers is no hub.
        Exception: of the hub's library, see `hub_errors`.
    """
    api = HfApi(library_name=LIBRARY, library_version=VERSION)
    with hub_answers():
        info = api.model_info(
            model.repo, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT
        )
        return _checked(info.id, info.sha, info.siblings)


def _checked(repo: Any, commit: Any, siblings: Any) -> Listing:
    """The answer, which anybody may have given. Raises ValueError or TypeError."""
    if not REPO.fullmatch(repo):
        raise ValueError(f"a repository is called {shorten(repo)}")
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"a commit is {shorten(commit)}")
    if not 0 <= len(siblings) <= MAX_FILES:
        raise ValueError(f"{len(siblings)} files")
    files: dict[str, HubFile] = {}
    for sibling in siblings:
        name, lfs = sibling.rfilename, sibling.lfs
        size, digest = (lfs.size, lfs.sha256) if lfs else (sibling.size, sibling.blob_id)
        if type(size) is not int or size < 0 or not DIGEST.fullmatch(digest):
            raise ValueError(f"no size or hash of {shorten(name)}")
        # What is named in another way than a file in a folder is nothing that a compile reads.
        plain = "\\" not in name and not _FOLDERS_ABOVE & set(name.split("/"))
        if plain and len(name) <= MAX_NAME:
            files[name] = HubFile(name, size, digest)
    return Listing(repo, commit, files)
