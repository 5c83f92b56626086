"""Asking a running server for what a browser asks for first."""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from edgewise.server.assets import BUILD
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


def fetch_app(url: str, context: ssl.SSLContext | None = None) -> Fetched:
    """Fetch the app's page, its scripts, the list of bundles and the start of each one's weights.

    Args:
        context: for https, which certificate is right.

    Raises:
        InputError: ``serve.check`` naming the first address that did not answer as it should.
    """
    # Without whatever proxy the environment names.
    direct = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    page = _get(direct, url)
    scripts = [urljoin(url, path) for path in _SCRIPT.findall(page.decode())]
    if not scripts:
        raise InputError(
            f"{url} answers without the chat app.",
            remedy=f"To build it, {BUILD}.",
            code="serve.check",
        )
    code = sum(len(_get(direct, script)) for script in scripts)
    listed = _json(direct, urljoin(url, "/api/bundles"))["bundles"]
    for bundle in listed:
        base = urljoin(url, bundle["url"])
        manifest = _json(direct, urljoin(base, "bundle.json"))
        layout = next(p["layout"] for p in manifest["programs"] if p["id"] in bundle["programs"])
        tensor = next(iter(manifest["layouts"][layout]["tensors"].values()))
        weights = urljoin(base, tensor["file"])
        if len(_get(direct, weights, first=FIRST)) != FIRST:
            raise InputError(f"{weights} does not answer ranges.", code="serve.check")
    return Fetched(len(page), code, tuple(bundle["name"] for bundle in listed))


def _json(direct: OpenerDirector, url: str) -> Any:
    return json.loads(_get(direct, url))


def _get(direct: OpenerDirector, url: str, first: int = 0) -> bytes:
    headers = {"Range": f"bytes=0-{first - 1}"} if first else {}
    try:
        with direct.open(Request(url, headers=headers), timeout=TIMEOUT) as response:
            data: bytes = response.read()
    except (OSError, HTTPException) as cause:
        if isinstance(cause, HTTPError):
            cause.close()  # it is the response, too
        raise InputError(f"{url} does not answer: {cause}.", code="serve.check") from cause
    return data
