"""Whose native code may run here: what this user compiled, or what they explicitly trust.

A bundle's checksums show that it arrived intact, not who made it. So `compile` signs each program
of a native target with HMAC-SHA256 under a random key that only this user can read; one without
that signature is loaded only with ``trust=True``. The key never leaves its file:
``$XDG_DATA_HOME/edgewise/key`` or ``~/.local/share/edgewise/key``, 32 bytes, mode 0600.

What is signed is a digest over the whole program (`digest`): its code, its plans, its parameters
and all that the manifest says about it. Code alone would not do, because native code keeps inside
no buffer by itself: plans say where it writes, and the manifest which file is which kernel, where
each tensor lies, how much there is of everything, and which machine it is for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from edgewise_runtime.errors import TrustError
from edgewise_runtime.files import (
    data_folder,
    read_bytes,
    remove_left,
    storage_errors,
    temporary_file,
)
from edgewise_runtime.format.manifest import BundleManifest, Program
from edgewise_runtime.format.reading import HEX_SHA256, shorten
from edgewise_runtime.format.targets import is_native

KEY_BYTES = 32
PURPOSE = b"edgewise native program v2\0"
"""Keeps these signatures apart from anything else the key might ever sign."""

Trust: TypeAlias = bool | Collection[str]
"""Which native programs run: all of them, those that this user compiled, or those and the programs
of these digests (see `digest`), which somebody on another machine vouches for."""


def key_path() -> Path:
    """The file of this user's key."""
    return data_folder() / "key"


def digest(manifest: BundleManifest, program: Program) -> str:
    """The sha256 of all that decides what a program's code does.

    That is its entry, the model, the tensors of its layout, the state that it keeps, and the hashes
    of every file of these. What other programs of the bundle add is not part of it: the scales of
    int8 state where this one has none.
    """
    tensors = manifest.layouts[program.layout]
    files = {*program.files, *(tensor.file for tensor in tensors.values())}
    groups = [
        group if program.state_dtype == "int8" else replace(group, scales=())
        for group in manifest.state_groups
    ]
    described = {
        "version": manifest.version,
        "model": manifest.model.to_json(),
        "state_groups": [group.to_json() for group in groups],
        "tensors": {name: tensor.to_json() for name, tensor in tensors.items()},
        "program": replace(program, signature=None).to_json(),
        "files": {path: manifest.files[path].sha256 for path in files},
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def sign_programs(manifest: BundleManifest) -> tuple[Program, ...]:
    """The programs of a manifest, those of native targets with this user's signature.

    Sign only what was just compiled, by the hashes of the files that were just written.

    Raises:
        TrustError, StorageError: as `sign` does.
    """
    return tuple(
        replace(program, signature=sign(digest(manifest, program)))
        if is_native(program.target)
        else program
        for program in manifest.programs
    )


def verify_program(manifest: BundleManifest, program: Program, trust: Trust = False) -> None:
    """Check that a program may run as the manifest has it, if its target is native.

    The manifest's hashes are what is checked: whoever loads a file compares it with them.

    Raises:
        TrustError: ``trust.digest`` for digests that are none; else as `verify` does.
    """
    known = frozenset[str]() if isinstance(trust, bool) else _digests(trust)
    if trust is True or not is_native(program.target):
        return
    found = digest(manifest, program)
    if found not in known:
        verify(found, program.signature, what=f"{manifest.name}/{program.id}")


def vouched(manifest: BundleManifest) -> tuple[str, ...]:
    """The digests of the native programs of a manifest that this user compiled.

    They are no secret: with them (`Trust`) another machine runs these programs and no others.

    Raises:
        TrustError, StorageError: ``trust.key`` where the key cannot be used.
    """
    found: list[str] = []
    for program in manifest.programs:
        if is_native(program.target):
            one = digest(manifest, program)
            try:
                verify(one, program.signature)
            except TrustError as error:
                if error.code == "trust.key":
                    raise
            else:
                found.append(one)
    return tuple(found)


def sign(sha256: str) -> str:
    """Sign a program's digest (64 hexadecimal digits), creating the key on first use.

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


def verify(sha256: str, signature: str | None, *, what: str = "The program") -> None:
    """Check that this user signed this digest.

    Raises:
        TrustError: ``trust.unsigned`` without a signature, ``trust.foreign`` for one made with
            another key or over another digest; `what` names the program in the message.
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


def _digests(given: Collection[str]) -> frozenset[str]:
    """Digests that somebody vouches for. A text would be a collection of its letters."""
    several = isinstance(given, list | tuple | set | frozenset)
    if not several or not all(isinstance(one, str) and HEX_SHA256.fullmatch(one) for one in given):
        raise TrustError(
            f"{shorten(given)} is no list of digests of programs.",
            remedy="Pass True, False, or what trust.vouched says where it was compiled.",
            code="trust.digest",
        )
    return frozenset(given)


def _sign(key: bytes, sha256: str) -> str:
    if not HEX_SHA256.fullmatch(sha256):
        raise TrustError(f"{shorten(sha256)} is not a sha256.", code="trust.digest")
    return hmac.new(key, PURPOSE + sha256.encode(), hashlib.sha256).hexdigest()


def _create_key(path: Path) -> None:
    """Create the key whole and once: of several processes at it, the first one's key stays."""
    with storage_errors("create the signing key", path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        remove_left(path)
        with temporary_file(path, 0o600) as (temporary, handle):
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, refuses to replace a key that appeared meanwhile.
            with suppress(FileExistsError):
                os.link(temporary, path)


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
