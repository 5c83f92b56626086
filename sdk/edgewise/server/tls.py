"""What `edgewise serve` shows by https who it is: a certificate and its key.

Browsers have WebGPU only on pages that came by https or from the machine itself, so a phone needs
a certificate, if only one that it warns of.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from edgewise_runtime.errors import InputError

MAX_FILE = 1 << 20  # bytes
_FIRST = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True)
class Certificate:
    """A certificate that a server can use.

    Attributes:
        context: the server's, with certificate and key.
        pem: the certificate itself, without those that vouch for it.
        made_here: for this run, so that browsers warn of it.
    """

    context: ssl.SSLContext
    pem: str
    made_here: bool

    @property
    def fingerprint(self) -> str:
        """sha256 of the certificate, as browsers show it: pairs of digits with colons."""
        digest = sha256(ssl.PEM_cert_to_DER_cert(self.pem))
        return ":".join(f"{byte:02X}" for byte in digest.digest())

    def client(self) -> ssl.SSLContext:
        """For a client that accepts this certificate and no other, under any name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=self.pem)
        return context


def load(cert: Path, key: Path, *, made_here: bool = False) -> Certificate:
    """A certificate and its key from PEM files; the first may hold those that vouch for it, too.

    Raises:
        InputError: ``serve.tls`` for files that cannot be read, hold no certificate or no key
            without a password, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        with cert.open(encoding="ascii", errors="replace") as file:
            first = _FIRST.search(file.read(MAX_FILE))
        # Without one OpenSSL would ask for a password at the terminal.
        context.load_cert_chain(cert, key, password="")
        if first is None:
            raise ValueError(f"it is not in the first {MAX_FILE} bytes")
        return Certificate(context, first[0], made_here)
    except (OSError, ValueError) as cause:  # an ssl.SSLError is an OSError
        raise InputError(
            f"{str(cert)[:200]!r} and {str(key)[:200]!r} are no certificate and its key: {cause}.",
            remedy="Give PEM files, the key without a password; or --tls alone, which makes both.",
            code="serve.tls",
        ) from cause
