"""Keys and certificates: created at the first start, kept in a directory, renewed before they expire."""

from __future__ import annotations

import base64
import ipaddress
import os
import secrets
import socket
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
SKEW = timedelta(hours=1)
"""Certificates are valid from this long before their creation: the clock of a client may be behind."""
KUBERNETES_NAMES = (
    "localhost", "127.0.0.1", "::1",
    "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
)  # fmt: skip
_WILDCARDS = frozenset(("0.0.0.0", "::"))

PrivateKey = ec.EllipticCurvePrivateKey


class CertificateError(Exception):
    """A key or a certificate cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as text."""
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as text. It is not encrypted."""
        return key_pem(self.key)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The keys and certificates of a server: its authority, its own, and the key that signs service account tokens."""

    directory: Path
    authority: Pair
    server: Pair
    service_account_key: PrivateKey

    def tls(self, client_authorities: Sequence[x509.Certificate] = ()) -> ssl.SSLContext:
        """The TLS settings of the server; it issues the certificates of clients itself unless others do."""
        authorities = client_authorities or (self.authority.certificate,)
        return server_context(self.directory / "apiserver.crt", self.directory / "apiserver.key", authorities)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the current server certificate into a context, for new connections."""
        context.load_cert_chain(self.directory / "apiserver.crt", self.directory / "apiserver.key")

    def client(self, user: str, groups: Sequence[str] = (), life: timedelta = LIFE) -> Pair:
        """A client certificate for a user."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        key = ec.generate_private_key(ec.SECP256R1())
        return leaf(self.authority, subject, key, ExtendedKeyUsageOID.CLIENT_AUTH, life)


def server_context(certificate: Path, key: Path, client_authorities: Iterable[x509.Certificate]) -> ssl.SSLContext:
    """TLS settings of a server: client certificates are requested, not required. Raises CertificateError, OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in client_authorities))
    context.verify_mode = ssl.CERT_OPTIONAL
    certificate_text, key_text = certificate.read_bytes(), key.read_bytes()
    try:
        shown = x509.load_pem_x509_certificate(certificate_text).public_key()
        if shown != load_pem_private_key(key_text, None).public_key():
            raise CertificateError(f"{certificate} does not belong to {key}: give the key that it was made for")
        context.load_cert_chain(certificate, key, password="")  # nobody is asked for a password
    except (ValueError, TypeError, ssl.SSLError):
        what = "hold no certificate and its key in PEM form without password"
        raise CertificateError(f"{certificate} and {key}: {what}") from None
    return context


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def prepare(
    directory: Path, bind: str = "127.0.0.1", names: Iterable[str] = (), now: datetime | None = None
) -> Certificates:
    """Create what a directory lacks, renew what expires soon, keep the rest. Raises CertificateError, OSError."""
    now = now or datetime.now(UTC)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    own_names = server_names(bind, names)
    authority = _authority(directory, now)
    return Certificates(directory, authority, _server(directory, authority, own_names, now), _signing_key(directory))


def server_names(bind: str, names: Iterable[str] = ()) -> tuple[str, ...]:
    """The names and addresses in the server's certificate."""
    own = (socket.gethostname(),) if bind in _WILDCARDS else (bind,)
    return tuple(dict.fromkeys((*own, *KUBERNETES_NAMES, *names)))


def kubeconfig(server: str, authority_pem: bytes, token: str, user: str = "admin", cluster: str = "moorage") -> str:
    """The text of a kubeconfig for one user. Without a certificate the system's authorities are trusted."""
    reach = {"server": server}
    if authority_pem:
        reach["certificate-authority-data"] = base64.b64encode(authority_pem).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": reach}],
            "users": [{"name": user, "user": {"token": token} if token else {}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
            "current-context": cluster,
        },
        sort_keys=False,
    )


def write_private(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read: all of it or nothing, even when the machine stops.

    Raises OSError with the name of the file.
    """
    scratch = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        _replace(file, scratch, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def _replace(file: Path, scratch: Path, content: bytes) -> None:
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(file)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def key_pem(key: PrivateKey) -> bytes:
    """A private key as text. It is not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _authority(directory: Path, now: datetime) -> Pair:
    pair = _load(directory, "ca")
    if pair is not None and not expires_soon(pair.certificate, now):
        return pair
    # The key stays, so that certificates it has signed and kubeconfigs with the older certificate remain valid.
    renewed = self_signed(pair.key if pair else ec.generate_private_key(ec.SECP256R1()), now)
    _store(directory, "ca", renewed)
    return renewed


def _server(directory: Path, authority: Pair, names: tuple[str, ...], now: datetime) -> Pair:
    pair = _load(directory, "apiserver")
    if pair and issued_by(pair.certificate, authority.certificate) and covers(pair.certificate, names, now):
        return pair
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "moorage-apiserver")])
    # The key stays here too: only one file changes, so that a crash cannot leave a pair that does not match.
    key = pair.key if pair else ec.generate_private_key(ec.SECP256R1())
    pair = leaf(authority, subject, key, ExtendedKeyUsageOID.SERVER_AUTH, LIFE, names, now)
    _store(directory, "apiserver", pair)
    return pair


def _signing_key(directory: Path) -> PrivateKey:
    file = directory / "service-account.key"
    if file.exists():
        key = _key(file)
        if not isinstance(key.curve, ec.SECP256R1):
            raise CertificateError(f"{file} is a key on the curve {key.curve.name}, not on P-256: {_REMEDY}")
        return key
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(file, key_pem(key))
    return key


def _load(directory: Path, name: str) -> Pair | None:
    """The pair in the directory; None when there is no certificate. A certificate without its key is an error."""
    certificate_file, key_file = directory / f"{name}.crt", directory / f"{name}.key"
    if not key_file.exists() and not certificate_file.exists():
        return None
    key = _key(key_file)
    if not certificate_file.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
    except ValueError:
        raise CertificateError(f"{certificate_file} is not a certificate: {_REMEDY}") from None
    if _public(certificate) != _public(key):
        raise CertificateError(f"{certificate_file} does not belong to {key_file}: {_REMEDY}")
    return Pair(certificate, key)


_REMEDY = "restore it, or remove both files to have them made anew"


def _key(file: Path) -> PrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), None)
    except FileNotFoundError:
        raise CertificateError(f"{file} is missing: {_REMEDY}") from None
    except (ValueError, TypeError):
        raise CertificateError(f"{file} is not a private key without password: {_REMEDY}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{file} is not an elliptic curve key: {_REMEDY}")
    return key


def _public(source: x509.Certificate | PrivateKey) -> bytes:
    return source.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _store(directory: Path, name: str, pair: Pair) -> None:
    """Write the key first: after a crash, a key without certificate gets one, but not the other way round."""
    write_private(directory / f"{name}.key", pair.key_pem)
    write_private(directory / f"{name}.crt", pair.certificate_pem)


def expires_soon(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is time to renew a certificate."""
    return certificate.not_valid_after_utc - now < RENEW_BEFORE


def covers(certificate: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    """Whether a certificate holds all of some names, and does not expire soon."""
    try:
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(map(_general_name, names)) <= set(held) and not expires_soon(certificate, now)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def self_signed(key: PrivateKey, now: datetime) -> Pair:
    """An authority."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "moorage-ca")])
    usage = _usage(key_cert_sign=True, crl_sign=True, digital_signature=True)
    builder = (
        _builder(name, name, key, now, now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def leaf(
    authority: Pair,
    subject: x509.Name,
    key: PrivateKey,
    purpose: x509.ObjectIdentifier,
    life: timedelta,
    names: tuple[str, ...] = (),
    now: datetime | None = None,
) -> Pair:
    """A certificate for one purpose, signed by an authority and valid no longer than that is."""
    now = now or datetime.now(UTC)
    issuer = authority.certificate
    end = min(now + life, issuer.not_valid_after_utc)
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(subject, issuer.subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, digital_signature: bool, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
