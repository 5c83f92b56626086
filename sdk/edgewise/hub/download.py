"""Brings one file of a repository here: what has come is kept, and all of it is checked."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import httpx2
from huggingface_hub import constants, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import WeakFileLock, build_hf_headers, hf_raise_for_status

from edgewise.hub.listing import LIBRARY, HubFile
from edgewise_runtime.errors import HubError
from edgewise_runtime.installed import VERSION

PARTIAL = ".edgewise.incomplete"
"""What the name of a file in the cache ends with while it is not whole."""
RETRIES = 4
"""How often in a row nothing may come before it is given up."""
PAUSE_S = 1.0
"""Before the first of them; before each further one so much longer."""

_CHUNK = 1 << 20
_PASSING = {408, 429, 500, 502, 503, 504}
"""Statuses that another attempt may not meet."""


def partial_size(blob: Path) -> int:
    """Bytes that an earlier attempt left of a file."""
    with suppress(FileNotFoundError):
        return blob.with_name(blob.name + PARTIAL).stat().st_size
    return 0


def download(
    file: HubFile, repo: str, commit: str, blob: Path, lock: Path, tell: Callable[[int], None]
) -> None:
    """Write a file of a repository to `blob`, going on where an earlier attempt ended.

    `tell` hears of bytes as they come; of fewer than none where some have to come again. Who else
    downloads the file is waited for.

    Raises:
        HubError: ``hub.damaged`` where it is not what the hub said it would be.
        Exception: of the hub's library and of the disk, see `hub_errors`.
    """
    for path in (blob, lock):
        path.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            tell(file.size)
            return
        partial = blob.with_name(blob.name + PARTIAL)
        with partial.open("a+b") as out:
            received = _Received(file, out, tell)
            _receive(received, hf_hub_url(repo, file.name, revision=commit))
            out.flush()
            os.fsync(out.fileno())
        if received.digest.hexdigest() != file.digest:
            partial.unlink()
            raise _damaged(
                f"{file.name} of {repo} came damaged: its hash is "
                f"{received.digest.hexdigest()[:16]}…, and the hub says {file.digest[:16]}…."
            )
        os.replace(partial, blob)


class _Received:
    """What there is of a file, its hash so far, and where more goes."""

    def __init__(self, file: HubFile, out: BinaryIO, tell: Callable[[int], None]) -> None:
        self.file = file
        self.size = 0
        self.digest = _hash(file)
        self._out = out
        self._tell = tell
        out.seek(0)
        while piece := out.read(_CHUNK):
            self.digest.update(piece)
            self.size += len(piece)
        if self.size > file.size:
            self._begin_again()

    def add(self, piece: bytes) -> None:
        """Write more of it; HubError ``hub.damaged`` for more than the hub announced."""
        if self.size + len(piece) > self.file.size:
            self._begin_again()
            raise _damaged(
                f"{self.file.name} is longer than the {self.file.size} bytes that the hub says."
            )
        self._out.write(piece)
        self.digest.update(piece)
        self.size += len(piece)
        self._tell(len(piece))

    def continues(self, response: httpx2.Response) -> None:
        """Take note of where the answer begins: at the start if the server knows no ranges."""
        if self.size and response.status_code != HTTPStatus.PARTIAL_CONTENT:
            self._begin_again()

    def _begin_again(self) -> None:
        self._out.truncate(0)
        self._tell(-min(self.size, self.file.size))
        self.size, self.digest = 0, _hash(self.file)


def _damaged(message: str) -> HubError:
    return HubError(
        message,
        remedy=f"Try again; if it stays so, look at what is between here and {constants.ENDPOINT}.",
        code="hub.damaged",
    )


def _hash(file: HubFile) -> hashlib._Hash:
    """What a file's digest is made with; Git puts a header before what it hashes."""
    if len(file.digest) == 64:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)


def _receive(received: _Received, url: str) -> None:
    """Ask until all of it is there. Raises what the last attempt did."""
    failures = 0
    while received.size < received.file.size:
        before = received.size
        failed: Exception | None = None
        try:
            for piece in _pieces(received, url):
                received.add(piece)
        except httpx2.TransportError as error:
            failed = error
        except HfHubHTTPError as error:
            if error.response.status_code not in _PASSING:
                raise
            failed = error
        if received.size > before:
            failures = 0
            continue
        failures += 1
        if failures > RETRIES:
            raise failed or httpx2.RemoteProtocolError("the server sends nothing")
        time.sleep(failures * PAUSE_S)


def _pieces(received: _Received, url: str) -> Iterator[bytes]:
    """What one request brings."""
    headers = build_hf_headers(library_name=LIBRARY, library_version=VERSION)
    headers["Accept-Encoding"] = "identity"
    if received.size:
        headers["Range"] = f"bytes={received.size}-"
    with get_session().stream(
        "GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT
    ) as response:
        hf_raise_for_status(response)
        received.continues(response)
        # In pieces as they come: what is gathered for larger ones is lost if the connection breaks.
        yield from response.iter_bytes()
