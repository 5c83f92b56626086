"""Serving by https: certificates that are made, ones that are given, and what they protect."""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from edgewise.server.app import make_app
from edgewise.server.check import fetch_app
from edgewise.server.resource import in_memory
from edgewise.server.run import in_background, listen
from edgewise.server.self_signed import self_signed
from edgewise.server.tls import Certificate, load
from edgewise_runtime.errors import InputError
from tests.sdk.server.client import SECONDS, Client

NAMES = ("localhost", "127.0.0.1", "[::1]", "my-box", "fd00::7", "bücher.example")
PAGE = b'<script type="module" src="/a.js"></script>'


@dataclass(frozen=True)
class Serving:
    client: Client
    certificate: Certificate


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    certificate = self_signed(NAMES)
    assets = {"": in_memory(PAGE, ".html"), "a.js": in_memory(b"run();", ".js")}
    app = make_app({}, assets, ["my-box"])
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening, certificate) as url,
    ):
        yield Serving(Client(url, certificate.client()), certificate)


def test_the_server_answers_by_https_only(serving: Serving) -> None:
    assert serving.client.url.startswith("https://127.0.0.1:")
    assert serving.client.get("/").body == PAGE
    with pytest.raises(ConnectionError):
        Client(serving.client.url).get("/")
    assert fetch_app(serving.client.url, serving.certificate.client()).scripts == len(b"run();")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_only_pages_that_came_by_https_are_its_own(serving: Serving, scheme: str) -> None:
    headers = {"Host": "my-box:8321", "Origin": f"{scheme}://my-box:8321"}
    assert serving.client.get("/", headers).status == (200 if scheme == "https" else 403)


def test_names_of_others_are_refused_as_without(serving: Serving) -> None:
    assert serving.client.get("/", {"Host": "evil.example"}).status == 421


def peer(serving: Serving, name: str) -> bytes:
    """The certificate the server shows under a name to who trusts it, and checks the name."""
    context = ssl.create_default_context(cadata=serving.certificate.pem)
    address = (serving.client.host, serving.client.port)
    with (
        socket.create_connection(address, timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return secure.getpeercert(binary_form=True) or b""


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1", "my-box", "bücher.example"])
def test_a_made_certificate_is_for_every_name_of_the_server(serving: Serving, name: str) -> None:
    digest = sha256(peer(serving, name)).hexdigest()
    assert serving.certificate.fingerprint.replace(":", "").lower() == digest
    assert serving.certificate.made_here


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.2"])
def test_it_is_for_no_other_name(serving: Serving, name: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        peer(serving, name)


def test_its_key_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert self_signed(["localhost"]).fingerprint != self_signed(["localhost"]).fingerprint
    assert list(tmp_path.iterdir()) == []


def test_a_client_accepts_one_certificate_and_no_other(serving: Serving) -> None:
    other = self_signed(NAMES).client()
    with pytest.raises(ssl.SSLCertVerificationError):
        Client(serving.client.url, other).get("/")


@pytest.mark.parametrize("name", ["a..b", "x" * 64])
def test_a_name_that_no_certificate_can_have_is_refused(name: str) -> None:
    with pytest.raises(InputError) as error:
        self_signed(["localhost", name])
    assert error.value.code == "serve.tls"
    assert repr(name) in error.value.message


@dataclass(frozen=True)
class Files:
    cert: Path
    key: Path


def write_key(path: Path, key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> None:
    locked = serialization.BestAvailableEncryption(password) if password else None
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            locked or serialization.NoEncryption(),
        )
    )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A certificate and its key as somebody else would have made them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody else")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    found = Files(tmp_path / "cert.pem", tmp_path / "key.pem")
    found.cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    write_key(found.key, key)
    return found


def test_a_given_certificate_is_the_first_of_its_file(files: Files) -> None:
    alone = load(files.cert, files.key)
    files.cert.write_text(f"some text\n{alone.pem}\n{self_signed(['my-box']).pem}\n")
    chained = load(files.cert, files.key)
    assert chained.fingerprint == alone.fingerprint
    assert not chained.made_here


def missing(files: Files) -> None:
    files.cert.unlink()


def foreign_key(files: Files) -> None:
    write_key(files.key, ec.generate_private_key(ec.SECP256R1()))


def locked_key(files: Files) -> None:
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    write_key(files.key, key, b"secret")


def no_certificate(files: Files) -> None:
    files.cert.write_text("hello")


def no_key(files: Files) -> None:
    files.key.write_bytes(b"")


def folder(files: Files) -> None:
    files.key.unlink()
    files.key.mkdir()


@pytest.mark.parametrize(
    "damage", [missing, foreign_key, locked_key, no_certificate, no_key, folder]
)
def test_files_that_are_no_certificate_and_key_are_named(
    files: Files, damage: Callable[[Files], None]
) -> None:
    damage(files)
    with pytest.raises(InputError, match="are no certificate and its key") as error:
        load(files.cert, files.key)
    assert error.value.code == "serve.tls"
    assert str(files.cert) in error.value.message
    assert str(files.key) in error.value.message
    assert "--tls alone" in error.value.remedy
