"""Origins of other servers whose pages may use this one, as `--allow-origin` names them."""

from __future__ import annotations

import re

from edgewise_runtime.errors import InputError

MAX_PORT = 65535
_ORIGIN = re.compile(r"(https?)://(?:[a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?")
_DEFAULT = {"http": "80", "https": "443"}


def allowed_origin(text: str) -> str:
    """An origin exactly as browsers send it (RFC 6454): they are compared as texts.

    Raises:
        InputError: ``serve.origin`` for anything else: a pattern, ``null``, a URL with a path, a
            port that its scheme has anyway.
    """
    if _is_exact(text):
        return text
    scheme, separator, rest = text.strip().lower().partition("://")
    meant = f"{scheme}{separator}{rest.partition('/')[0].removesuffix(f':{_DEFAULT.get(scheme)}')}"
    raise InputError(
        f"{text[:80]!r} is no origin that a browser names a page by.",
        remedy=f"Write {meant}."
        if _is_exact(meant)
        else "Give scheme, host and port of the pages, such as http://localhost:5173.",
        code="serve.origin",
    )


def _is_exact(text: str) -> bool:
    match = _ORIGIN.fullmatch(text)
    if match is None:
        return False
    scheme, port = match.groups()
    return port is None or (port != _DEFAULT[scheme] and int(port) <= MAX_PORT)
