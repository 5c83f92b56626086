"""Whose native code may run: signatures by a key only this user has."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise_runtime import trust
from edgewise_runtime.errors import StorageError, TrustError

LIBRARY = "ab" * 32
OTHER = "cd" * 32


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder without a key, and where its key will be."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data/edgewise/key"


def test_what_this_user_signed_is_trusted(own_key: Path) -> None:
    signature = trust.sign(LIBRARY)
    assert len(signature) == 64
    assert trust.sign(LIBRARY) == signature
    trust.verify(LIBRARY, signature)


def test_the_key_is_this_users_alone(own_key: Path) -> None:
    trust.sign(LIBRARY)
    assert trust.key_path() == own_key
    assert stat.S_IMODE(own_key.stat().st_mode) == 0o600
    assert stat.S_IMODE(own_key.parent.stat().st_mode) == 0o700
    assert len(own_key.read_bytes()) == 32
    assert [path.name for path in own_key.parent.iterdir()] == ["key"]


@pytest.mark.parametrize(
    ("sha256", "signature", "code"),
    [
        (LIBRARY, None, "trust.unsigned"),
        (LIBRARY, "0" * 64, "trust.foreign"),
        (LIBRARY, "", "trust.foreign"),
        (LIBRARY, "é", "trust.foreign"),
        (OTHER, "sign", "trust.foreign"),
    ],
)
def test_anything_else_is_not(sha256: str, signature: str | None, code: str) -> None:
    signed = trust.sign(LIBRARY)
    with pytest.raises(TrustError, match=r"tiny/kernels\.so is native code") as error:
        trust.verify(sha256, signed if signature == "sign" else signature, what="tiny/kernels.so")
    assert error.value.code == code
    assert "trust=True" in error.value.remedy


def test_another_users_signature_is_foreign(
    own_key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = trust.sign(LIBRARY)
    mine = trust.key_id()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another"))
    assert trust.key_id() is None
    for _ in range(2):
        with pytest.raises(TrustError) as error:
            trust.verify(LIBRARY, signature)
        assert error.value.code == "trust.foreign"
        # The second time, the other user has a key too.
        trust.sign(LIBRARY)
    assert trust.key_id() not in {None, mine}


def test_checking_makes_no_key(own_key: Path) -> None:
    with pytest.raises(TrustError):
        trust.verify(LIBRARY, "0" * 64)
    assert not own_key.exists()


def test_the_public_name_of_a_key_does_not_tell_the_key(own_key: Path) -> None:
    trust.sign(LIBRARY)
    name = trust.key_id()
    assert name is not None
    assert len(name) == 16
    assert name not in own_key.read_bytes().hex()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_others_can_reach_is_refused(own_key: Path, mode: int) -> None:
    signature = trust.sign(LIBRARY)
    own_key.chmod(mode)
    for use in (lambda: trust.sign(LIBRARY), lambda: trust.verify(LIBRARY, signature)):
        with pytest.raises(TrustError) as error:
            use()
        assert error.value.code == "trust.key"
        assert str(own_key) in error.value.remedy


def test_another_users_key_is_refused(own_key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust.sign(LIBRARY)
    monkeypatch.setattr(os, "geteuid", lambda: own_key.stat().st_uid + 1)
    with pytest.raises(TrustError, match="belongs to user") as error:
        trust.sign(LIBRARY)
    assert error.value.code == "trust.key"


@pytest.mark.parametrize("size", [0, 31, 33, 100])
def test_a_key_of_the_wrong_length_is_refused(own_key: Path, size: int) -> None:
    trust.sign(LIBRARY)
    own_key.write_bytes(bytes(size))
    with pytest.raises((TrustError, StorageError)):
        trust.sign(LIBRARY)


@pytest.mark.parametrize("digest", ["", "AB" * 32, "ab" * 31, "zz" * 32])
def test_only_a_sha256_is_signed(digest: str) -> None:
    with pytest.raises(TrustError) as error:
        trust.sign(digest)
    assert error.value.code == "trust.digest"


def test_a_data_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="signing key"):
        trust.sign(LIBRARY)


def test_processes_that_race_for_the_key_agree_on_one(own_key: Path) -> None:
    code = f"from edgewise_runtime.trust import sign; print(sign({LIBRARY!r}))"
    racers = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    signatures = {racer.communicate(timeout=60)[0] for racer in racers}
    assert signatures == {trust.sign(LIBRARY) + "\n"}
    assert [path.name for path in own_key.parent.iterdir()] == ["key"]
