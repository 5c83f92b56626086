"""Asking a running server for what a browser asks for first."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from edgewise_runtime.errors import InputError

TIMEOUT = 30  # seconds
FIRST = 64  # bytes of each bundle's weights
_SCRIPT = re.compile(r'<script[^>]+src="([^"]+)"')


@dataclass(frozen=True)
class Fetched:
    """What arrived: bytes of the app's page, of its scripts, and the bundles that answered."""

    page: int
    scripts: int
    bundles: tuple[str, ...]


def fetch_app(url: str) -> Fetched:
    """Fetch the app's page, its scripts, the list of bundles and the start of each one's weights.

    Raises:
        InputError: ``serve.check`` naming the first address that did not answer as it should.
    """
    page = _get(url)
    scripts = [urljoin(url, path) for path in _SCRIPT.findall(page.decode())]
    if not scripts:
        raise InputError(
            f"{url} answers without the chat app.",
            remedy="Build it: make web.",
            code="serve.check",
        )
    code = sum(len(_get(script)) for script in scripts)
    names = []
    for bundle in json.loads(_get(urljoin(url, "/api/bundles")))["bundles"]:
        base = urljoin(url, bundle["url"])
        manifest = json.loads(_get(urljoin(base, "bundle.json")))
        layout = next(p["layout"] for p in manifest["programs"] if p["id"] in bundle["programs"])
        tensor = next(iter(manifest["layouts"][layout]["tensors"].values()))
        if len(_get(urljoin(base, tensor["file"]), first=FIRST)) != FIRST:
            raise InputError(f"{base} does not answer ranges.", code="serve.check")
        names.append(bundle["name"])
    return Fetched(len(page), code, tuple(names))


def _get(url: str, first: int = 0) -> bytes:
    headers = {"Range": f"bytes=0-{first - 1}"} if first else {}
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
            data: bytes = response.read()
    except (HTTPError, URLError, OSError) as cause:
        raise InputError(f"{url} does not answer: {cause}.", code="serve.check") from cause
    return data
