"""Whose native code may run here: what this user compiled, or what they explicitly trust.

A bundle's checksums show that it arrived intact, not who made it. So `compile` signs the sha256 of
each native library with HMAC-SHA256 under a random key that only this user can read; a library
without that signature is loaded only with ``trust=True``. The key never leaves its file:
``$XDG_DATA_HOME/edgewise/key`` or ``~/.local/share/edgewise/key``, 32 bytes, mode 0600.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from edgewise_runtime.errors import TrustError
from edgewise_runtime.files import data_folder, read_bytes, storage_errors
from edgewise_runtime.format.reading import HEX_SHA256, shorten

KEY_BYTES = 32
PURPOSE = b"edgewise native library v1\0"
"""Keeps these signatures apart from anything else the key might ever sign."""


def key_path() -> Path:
    """The file of this user's key."""
    return data_folder() / "key"


def sign(sha256: str) -> str:
    """Sign a library's sha256 (64 hexadecimal digits), creating the key on first use.

    Returns:
        HMAC-SHA256 as 64 hexadecimal digits.

    Raises:
        TrustError: ``trust.key`` where the key file is not this user's alone.
        StorageError: where it cannot be written.
    """
    path = key_path()
    key = _read_key(path)
    if key is None:
        _create_key(path)
        key = _read_key(path)
    if key is None:
        raise TrustError(f"The signing key {path} vanished.", code="trust.key")
    return _sign(key, sha256)


def verify(sha256: str, signature: str | None, *, what: str = "The library") -> None:
    """Check that this user signed a library with this sha256.

    Raises:
        TrustError: ``trust.unsigned`` without a signature, ``trust.foreign`` for one made with
            another key or over another file; `what` names the library in the message.
    """
    remedy = (
        "It would run native code with your rights. Compile the model yourself, or pass "
        "trust=True (--trust) if you trust whoever made this bundle."
    )
    if signature is None:
        message = f"{what} is native code and carries no signature."
        raise TrustError(message, remedy=remedy, code="trust.unsigned")
    key = _read_key(key_path())
    if key is not None:
        expected = _sign(key, sha256)
        if hmac.compare_digest(expected.encode(), signature.encode()):
            return
    message = f"{what} is native code that was not compiled by this user on this machine."
    raise TrustError(message, remedy=remedy, code="trust.foreign")


def key_id() -> str | None:
    """A public name for this user's key: 16 hexadecimal digits, None without a key."""
    key = _read_key(key_path())
    return None if key is None else hashlib.sha256(b"edgewise key id\0" + key).hexdigest()[:16]


def _sign(key: bytes, sha256: str) -> str:
    if not HEX_SHA256.fullmatch(sha256):
        raise TrustError(f"{shorten(sha256)} is not a sha256.", code="trust.digest")
    return hmac.new(key, PURPOSE + sha256.encode(), hashlib.sha256).hexdigest()


def _create_key(path: Path) -> None:
    """Create the key whole and once: of several processes at it, the first one's key stays."""
    temporary = path.with_name(f".key.{secrets.token_hex(6)}.tmp")
    with storage_errors("create the signing key", path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, refuses to replace a key that appeared meanwhile.
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink(missing_ok=True)


def _read_key(path: Path) -> bytes | None:
    """The key, None where there is none yet."""
    remedy = f"Remove {path}; a new key is made, and bundles need compiling again."
    with storage_errors("read the signing key", path):
        if not path.exists():
            return None
        status = path.stat()
    if os.name == "posix":
        if status.st_uid != os.geteuid():
            message = f"The signing key {path} belongs to user {status.st_uid}."
            raise TrustError(message, remedy=remedy, code="trust.key")
        if stat.S_IMODE(status.st_mode) & 0o077:
            message = f"Others can read or change the signing key {path}."
            raise TrustError(message, remedy=remedy, code="trust.key")
    key = read_bytes(path, KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        message = f"The signing key {path} has {len(key)} bytes, not {KEY_BYTES}."
        raise TrustError(message, remedy=remedy, code="trust.key")
    return key
