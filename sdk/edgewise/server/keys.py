"""The key that whoever uses the APIs sends, where the server wants one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

from edgewise_runtime.errors import InputError

VARIABLE = "EDGEWISE_API_KEY"
LEAST, MOST = 16, 256
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class Key:
    """A key, kept as its digest: what is compared has the same length always."""

    digest: bytes = field(repr=False)

    @staticmethod
    def of(text: str) -> Key:
        """The key that somebody chose. Raises InputError ``serve.key``, which does not quote it."""
        if not LEAST <= len(text) <= MOST or not _KEY.fullmatch(text):
            raise InputError(
                f"The API key has {len(text)} characters, or some that no header has.",
                remedy=f"Choose {LEAST} to {MOST} of letters, digits and signs: "
                'python -c "import secrets; print(secrets.token_urlsafe())" makes one.',
                code="serve.key",
            )
        return Key(_digest(text))

    def is_in(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has it, as ``Authorization: Bearer KEY`` or ``x-api-key: KEY``."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        sent = (bearer.strip() if scheme.lower() == "bearer" else "", headers.get("x-api-key", ""))
        # Both are compared always: how long it takes tells nothing of either.
        matches = [compare_digest(_digest(one), self.digest) for one in sent]
        return any(matches)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
