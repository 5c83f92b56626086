"""The digest that ``bundle.json`` carries of itself.

The file begins with ``{"digest":"<64 hexadecimal digits>",``, which is the SHA-256 of all bytes
that follow, so that nothing of it changes unnoticed: neither a bit that a disk lost nor a number
that somebody put right by hand. Whoever writes the file can write the digest, too: it finds damage,
not attackers. For those see `trust`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edgewise_runtime.errors import BundleError
from edgewise_runtime.files import sha256_bytes
from edgewise_runtime.format.reading import Fields, parse_json

MANIFEST = "bundle.json"

VERSION = 4
"""Of the whole format: of ``bundle.json`` and of plans."""

MAX_BYTES = 1 << 24
"""Bytes of ``bundle.json`` at most."""

MAX_VALUES = 1 << 18
"""Values in it at most, as `reading.count_values` counts them."""

KEY = "digest"
_BEGINS, _ENDS = b'{"%s":"' % KEY.encode(), b'",'
_HEAD = len(_BEGINS) + 64 + len(_ENDS)


def seal(value: Mapping[str, Any]) -> bytes:
    """The file of a manifest in its JSON form; a digest that it has already is left out."""
    inside = {name: item for name, item in value.items() if name != KEY}
    text = json.dumps(inside, indent=1, separators=(",", ": "), allow_nan=False)
    rest = text.removeprefix("{").encode() + b"\n"
    return _BEGINS + sha256_bytes(rest).encode() + _ENDS + rest


def digest_of(data: bytes) -> str:
    """The digest that the file of a manifest begins with, which `unseal` checks."""
    return data[len(_BEGINS) : len(_BEGINS) + 64].decode("ascii", "replace")


def unseal(data: bytes) -> Any:
    """What the file of a manifest says, without its digest, once that proved right.

    Raises:
        BundleError: ``bundle.checksum`` for another digest or none, ``bundle.version`` for a file
            of another version that has none, ``bundle.json`` and ``bundle.size`` for what is no
            JSON or has too many values.
    """
    if len(data) > MAX_BYTES:
        message = f"{MANIFEST} has {len(data):,} bytes; {MAX_BYTES:,} are read at most."
        raise BundleError(message, code="bundle.size")
    rest = data[_HEAD:]
    digest = sha256_bytes(rest).encode()
    if data[:_HEAD] != _BEGINS + digest + _ENDS:
        if not data.startswith(_BEGINS):
            check_version(_parse(data))
        raise BundleError(
            f"{MANIFEST} is damaged: its sha256 is not the one that it begins with.",
            remedy="Copy or compile the bundle again.",
            code="bundle.checksum",
        )
    return _parse(b"{" + rest)


def check_version(value: object) -> Fields:
    """A manifest's fields, if its version is the one that is read here.

    Raises:
        BundleError: ``bundle.version``, and for what is no object or has none.
    """
    fields = Fields(value, MANIFEST, BundleError)
    fields.version(VERSION)
    return fields


def _parse(data: bytes) -> Any:
    return parse_json(data, MANIFEST, BundleError, most=MAX_VALUES)
