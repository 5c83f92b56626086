"""A certificate made for one run of the server, which nobody but its key vouches for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgewise.server.tls import Certificate, load
from edgewise_runtime.errors import InputError
from edgewise_runtime.files import temporary_folder
from edgewise_runtime.folders import passing_folder

NAME = "edgewise serve"
VALID = timedelta(days=365)  # iOS accepts no more than 825
SKEW = timedelta(days=1)  # clocks of other machines may be behind


def self_signed(names: Iterable[str]) -> Certificate:
    """A certificate for names and addresses, with a key that stays in this process.

    Raises:
        InputError: ``serve.tls`` for a name that no certificate can have.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = _signed(key, names).public_bytes(serialization.Encoding.PEM)
    # OpenSSL takes both from files only; the folder is this user's own, and gone at once.
    with passing_folder(temporary_folder()) as folder:
        cert_file, key_file = folder / "cert.pem", folder / "key.pem"
        cert_file.write_bytes(public)
        key_file.write_bytes(private)
        return load(cert_file, key_file, made_here=True)


def _signed(key: ec.EllipticCurvePrivateKey, names: Iterable[str]) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([_named(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(authority, critical=False)
        .sign(key, hashes.SHA256())
    )


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return x509.DNSName(host.encode("idna").decode("ascii"))
    except ValueError as cause:
        raise InputError(
            f"{host[:80]!r} is no name that a certificate can have.",
            remedy="Write it as it stands in URLs.",
            code="serve.tls",
        ) from cause
