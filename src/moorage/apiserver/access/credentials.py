"""What a server shows, trusts and signs with: from its data directory, or from files that several servers share."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key, load_pem_public_key

from moorage.apiserver.access import certificates, tokens
from moorage.apiserver.access.accounttokens import SigningKey, VerifyingKey, algorithm, key_id
from moorage.apiserver.access.certificates import CertificateError, issued_by, server_context
from moorage.apiserver.base.users import MASTERS, User

_BLOCK = re.compile(rb"-----BEGIN (?P<kind>[A-Z0-9 ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """Files of an operator, each in place of what the data directory holds."""

    tls_certificate: Path | None = None
    """The server's certificate, with those of its issuers after it."""
    tls_key: Path | None = None
    client_authorities: Path | None = None
    """Who may issue the certificates of clients."""
    signing_key: Path | None = None
    verifying_keys: tuple[Path, ...] = ()
    """Keys with which tokens of service accounts may be signed, public or private."""
    tokens: Path | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server shows, trusts and signs with."""

    tls: ssl.SSLContext
    trusted: str
    """The certificate by which clients know this server; empty when only the system's authorities may know it."""
    client_authorities: tuple[x509.Certificate, ...]
    signing_key: SigningKey
    verifying_keys: tuple[VerifyingKey, ...]
    users: Mapping[str, User]
    """Users by token."""

    @property
    def admin_token(self) -> str:
        """The token of the first user who may do everything; empty when there is none."""
        return next((token for token, user in self.users.items() if MASTERS in user.groups), "")


def prepare(directory: Path, bind: str, advertise: str, files: SharedFiles) -> Credentials:
    """Read the files, and create what neither they nor the directory hold.

    Raises CertificateError, TokenError, OSError.
    """
    own = certificates.prepare(directory, bind, (advertise,) if advertise else ())
    authorities = _certificates(files.client_authorities) if files.client_authorities else (own.authority.certificate,)
    certificate, key = files.tls_certificate, files.tls_key
    if certificate and key:
        tls, trusted = server_context(certificate, key, authorities), _trusted(_certificates(certificate), authorities)
    else:
        tls, trusted = own.tls(authorities), own.authority.certificate_pem.decode()
    signing_key, verifying_keys = _account_keys(files) if files.signing_key else (own.service_account_key, ())
    tokens_file = files.tokens
    if tokens_file is None:
        tokens.prepare(directory)
        tokens_file = directory / tokens.FILE
    return Credentials(tls, trusted, authorities, signing_key, verifying_keys, tokens.load(tokens_file))


def _certificates(file: Path) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    except ValueError:
        raise CertificateError(f"{file}: holds no certificate in PEM form") from None


def _trusted(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> str:
    """The authority at the end of a chain, as far as it is known."""
    last, known = chain[0], {*chain[1:], *authorities} - {chain[0]}
    found = issued_by(last, last)
    while issuer := next((each for each in known if issued_by(last, each)), None):
        last, known, found = issuer, known - {issuer}, True
    return last.public_bytes(Encoding.PEM).decode() if found else ""


def _account_keys(files: SharedFiles) -> tuple[SigningKey, tuple[VerifyingKey, ...]]:
    assert files.signing_key
    signing_key = _signing_key(files.signing_key)
    verifying_keys = [key for file in files.verifying_keys for key in _verifying_keys(file)]
    if key_id(signing_key.public_key()) not in map(key_id, verifying_keys):
        raise CertificateError(
            f"{files.signing_key} is not among the keys of --service-account-key-file: "
            "tokens that are signed with it would not be accepted"
        )
    return signing_key, tuple(verifying_keys)


def _signing_key(file: Path) -> SigningKey:
    for kind, block in _blocks(file):
        if kind.endswith("PRIVATE KEY"):
            try:
                key = load_pem_private_key(block, None)
            except (ValueError, TypeError):
                break
            if isinstance(key, SigningKey) and algorithm(key.public_key()):
                return key
    raise CertificateError(f"{file}: holds no RSA or ECDSA private key in PEM form without password")


def _verifying_keys(file: Path) -> list[VerifyingKey]:
    try:
        keys = [key for kind, block in _blocks(file) if (key := _public_key(kind, block))]
    except (ValueError, TypeError):
        keys = []
    if not keys:
        raise CertificateError(f"{file}: holds no RSA or ECDSA key in PEM form")
    return keys


def _public_key(kind: str, block: bytes) -> VerifyingKey | None:
    key: object = None
    if kind == "CERTIFICATE":
        key = x509.load_pem_x509_certificate(block).public_key()
    elif kind.endswith("PRIVATE KEY"):
        key = load_pem_private_key(block, None).public_key()
    elif kind.endswith("PUBLIC KEY"):
        key = load_pem_public_key(block)
    return key if isinstance(key, VerifyingKey) and algorithm(key) else None


def _blocks(file: Path) -> Iterator[tuple[str, bytes]]:
    for block in _BLOCK.finditer(file.read_bytes()):
        yield block["kind"].decode(), block[0]
