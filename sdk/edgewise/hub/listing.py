"""What a hub says about a repository: its name now, its newest commit, and the files in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from huggingface_hub import constants, get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from edgewise.console import show_warnings
from edgewise.hub.failures import NO_HUB, hub_answers
from edgewise.hub.names import DIGEST, REPO, HubModel
from edgewise_runtime.errors import HubError
from edgewise_runtime.format.reading import parse_json, shorten
from edgewise_runtime.installed import VERSION

LIBRARY = "edgewise"
"""Who asks, as requests say it."""
MAX_BYTES = 32 << 20
"""Of what a hub says of a repository."""
MAX_VALUES = 1 << 20
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

    The hub's library would read an answer of any length.

    Raises:
        HubError: ``hub.answer`` where what answers is no hub.
        Exception: of the hub's library, see `hub_errors`.
    """
    headers = build_hf_headers(library_name=LIBRARY, library_version=VERSION)
    headers["Accept-Encoding"] = "identity"
    with (
        hub_answers(),
        get_session().stream(
            "GET",
            f"{constants.ENDPOINT}/api/models/{model.repo}",
            params={"blobs": True},
            headers=headers,
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        ) as response,
    ):
        hf_raise_for_status(response)
        data = _whole(response)
        where = f"{constants.ENDPOINT} does not answer as a hub of models does: what it says"
        told = parse_json(data, where, HubError, what="answer", remedy=NO_HUB, most=MAX_VALUES)
        return _checked(told["id"], told["sha"], told["siblings"])


def _whole(response: httpx2.Response) -> bytes:
    data = bytearray()
    for piece in response.iter_bytes():
        data += piece
        if len(data) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES} bytes")
    return bytes(data)


def _checked(repo: Any, commit: Any, siblings: Any) -> Listing:
    """The answer, which anybody may have given. Raises ValueError, TypeError or LookupError."""
    if not REPO.fullmatch(repo):
        raise ValueError(f"a repository is called {shorten(repo)}")
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"a commit is {shorten(commit)}")
    if not 0 <= len(siblings) <= MAX_FILES:
        raise ValueError(f"{len(siblings)} files")
    files: dict[str, HubFile] = {}
    for sibling in siblings:
        name, lfs = sibling["rfilename"], sibling.get("lfs")
        size = lfs["size"] if lfs else sibling.get("size")
        digest = lfs["sha256"] if lfs else sibling.get("blobId")
        if type(size) is not int or size < 0 or not DIGEST.fullmatch(digest):
            raise ValueError(f"no size or hash of {shorten(name)}")
        # What is named in another way than a file in a folder is nothing that a compile reads.
        plain = "\\" not in name and not _FOLDERS_ABOVE & set(name.split("/"))
        if plain and len(name) <= MAX_NAME:
            files[name] = HubFile(name, size, digest)
    return Listing(repo, commit, files)
