"""Files that several servers share take the place of what a data directory holds."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from moorage.apiserver.access import certificates, credentials
from moorage.apiserver.access.accounttokens import (
    KubernetesClaims,
    Reference,
    ServiceAccountTokens,
    SigningKey,
    UntrustedError,
)
from moorage.apiserver.access.certificates import CertificateError, Pair
from moorage.apiserver.access.credentials import Credentials, SharedFiles
from moorage.client.kubeconfig import load

ABOUT = KubernetesClaims("ci", Reference("bot", "uid-bot"))
RSA = rsa.generate_private_key(65537, 2048)
SIGNING_KEYS: dict[str, SigningKey] = {
    "RSA": RSA,
    "P-256": ec.generate_private_key(ec.SECP256R1()),
    "P-384": ec.generate_private_key(ec.SECP384R1()),
    "P-521": ec.generate_private_key(ec.SECP521R1()),
}


@pytest.fixture
def authority(tmp_path: Path) -> Pair:
    return certificates.prepare(tmp_path / "authority").authority


@pytest.fixture
def server(tmp_path: Path, authority: Pair) -> SharedFiles:
    """A certificate and its key, as files."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")])
    key = ec.generate_private_key(ec.SECP256R1())
    life = timedelta(days=2)
    pair = certificates.leaf(authority, subject, key, ExtendedKeyUsageOID.SERVER_AUTH, life, ("api.example.com",))
    (tmp_path / "tls.crt").write_bytes(pair.certificate_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    return SharedFiles(tls_certificate=tmp_path / "tls.crt", tls_key=tmp_path / "tls.key")


def prepared(tmp_path: Path, files: SharedFiles, advertise: str = "") -> Credentials:
    return credentials.prepare(tmp_path / "data", "127.0.0.1", advertise, files)


def pem(key: SigningKey, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def public_pem(key: SigningKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signing(tmp_path: Path, key: bytes, *verifying: bytes) -> SharedFiles:
    (tmp_path / "sa.key").write_bytes(key)
    files = [tmp_path / f"sa-{index}.pub" for index in range(len(verifying))]
    for file, content in zip(files, verifying, strict=True):
        file.write_bytes(content)
    return SharedFiles(signing_key=tmp_path / "sa.key", verifying_keys=tuple(files))


def tokens_of(own: Credentials) -> ServiceAccountTokens:
    return ServiceAccountTokens(own.signing_key, lambda *_: True, others=own.verifying_keys)


def test_the_advertised_address_is_in_the_certificate(tmp_path: Path) -> None:
    prepared(tmp_path, SharedFiles(), "192.0.2.7")
    certificate = x509.load_pem_x509_certificate((tmp_path / "data" / "apiserver.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "192.0.2.7" in map(str, names.get_values_for_type(x509.IPAddress))


def test_a_server_that_is_given_nothing_trusts_and_shows_its_own(tmp_path: Path) -> None:
    own = prepared(tmp_path, SharedFiles())
    assert own.trusted == (tmp_path / "data" / "ca.crt").read_text()
    assert own.admin_token in (tmp_path / "data" / "tokens.csv").read_text()


def test_clients_trust_the_authority_at_the_end_of_the_chain(
    tmp_path: Path, server: SharedFiles, authority: Pair
) -> None:
    assert prepared(tmp_path, server).trusted == ""  # nobody said who issued it: the system's authorities may know
    assert server.tls_certificate
    with server.tls_certificate.open("ab") as chain:
        chain.write(authority.certificate_pem)
    assert prepared(tmp_path, server).trusted == authority.certificate_pem.decode()


def test_clients_trust_the_authority_of_clients_when_it_issued_the_certificate(
    tmp_path: Path, server: SharedFiles, authority: Pair
) -> None:
    bundle = tmp_path / "clients.crt"
    other = certificates.prepare(tmp_path / "other").authority
    bundle.write_bytes(other.certificate_pem + authority.certificate_pem)
    files = SharedFiles(server.tls_certificate, server.tls_key, bundle)
    own = prepared(tmp_path, files)
    assert own.trusted == authority.certificate_pem.decode()
    assert own.client_authorities == (other.certificate, authority.certificate)
    assert len(own.tls.get_ca_certs()) == 2


def test_a_certificate_that_signed_itself_is_trusted_itself(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "api")]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, now - timedelta(days=1), now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    (tmp_path / "tls.crt").write_bytes(certificate)
    (tmp_path / "tls.key").write_bytes(pem(key, PrivateFormat.TraditionalOpenSSL))
    files = SharedFiles(tls_certificate=tmp_path / "tls.crt", tls_key=tmp_path / "tls.key")
    assert prepared(tmp_path, files).trusted == certificate.decode()


@pytest.mark.parametrize("name", SIGNING_KEYS)
def test_a_token_of_one_server_is_accepted_by_the_other(tmp_path: Path, name: str) -> None:
    key = SIGNING_KEYS[name]
    files = signing(tmp_path, b"some words\n" + pem(key, PrivateFormat.TraditionalOpenSSL), public_pem(key))
    first, second = (credentials.prepare(tmp_path / each, "127.0.0.1", "", files) for each in ("a", "b"))
    token = tokens_of(first).issue(ABOUT).text
    assert tokens_of(second).verify(token).name == "system:serviceaccount:ci:bot"


def test_tokens_of_an_earlier_key_stay_valid_while_it_is_given(tmp_path: Path) -> None:
    older, newer = SIGNING_KEYS["P-256"], RSA
    token = tokens_of(prepared(tmp_path, signing(tmp_path, pem(older), pem(older)))).issue(ABOUT).text
    both = prepared(tmp_path, signing(tmp_path, pem(newer), public_pem(newer) + b"\n" + public_pem(older)))
    assert tokens_of(both).verify(token)
    assert tokens_of(both).issue(ABOUT).text != token
    with pytest.raises(UntrustedError, match="a key that is not known here"):
        tokens_of(prepared(tmp_path, signing(tmp_path, pem(newer), public_pem(newer)))).verify(token)


def test_a_signature_must_be_made_in_the_way_of_its_key(tmp_path: Path) -> None:
    """A token that says it is signed with a shared secret, the public key, is not accepted."""
    import jwt

    own = prepared(tmp_path, signing(tmp_path, pem(RSA), public_pem(RSA)))
    token = tokens_of(own).issue(ABOUT).text
    header = {**jwt.get_unverified_header(token), "alg": "HS256"}
    forged = jwt.encode(jwt.decode(token, options={"verify_signature": False}), "x" * 32, "HS256", header)
    with pytest.raises(UntrustedError, match="signed in another way"):
        tokens_of(own).verify(forged)


def test_the_first_user_who_may_do_everything_is_in_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text('one,ann,1,dev\ntwo,bob,2,"dev,system:masters"\nthree,eve,3,system:masters\n')
    own = prepared(tmp_path, SharedFiles(tokens=file))
    assert own.admin_token == "two"
    assert not (tmp_path / "data" / "tokens.csv").exists()
    file.write_text("one,ann,1,dev\n")
    assert prepared(tmp_path, SharedFiles(tokens=file)).admin_token == ""


def test_a_kubeconfig_without_token_and_certificate_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(certificates.kubeconfig("https://api.example.com:6443", b"", ""))
    known = load(tmp_path / "kubeconfig")
    assert (known.url, known.trusted) == ("https://api.example.com:6443", "")


def _other_key(files: SharedFiles) -> None:
    assert files.tls_key
    files.tls_key.write_bytes(pem(RSA))


def _locked_key(files: SharedFiles) -> None:
    assert files.tls_key
    locked = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    files.tls_key.write_bytes(locked)


def _words(files: SharedFiles) -> None:
    assert files.tls_certificate
    files.tls_certificate.write_text("words")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_other_key, "tls.crt does not belong to .*tls.key: give the key that it was made for"),
        (_locked_key, "tls.key: hold no certificate and its key in PEM form without password"),
        (_words, "tls.key: hold no certificate and its key in PEM form without password"),
    ],
)
def test_files_that_do_not_fit_are_named(
    tmp_path: Path, server: SharedFiles, spoil: Callable[[SharedFiles], None], sentence: str
) -> None:
    spoil(server)
    with pytest.raises(CertificateError, match=sentence):
        prepared(tmp_path, server)


@pytest.mark.parametrize(
    ("key", "verifying", "sentence"),
    [
        (b"words", public_pem(RSA), "sa.key: holds no RSA or ECDSA private key in PEM form without password"),
        (public_pem(RSA), public_pem(RSA), "sa.key: holds no RSA or ECDSA private key"),
        (pem(RSA), b"words", "sa-0.pub: holds no RSA or ECDSA key in PEM form"),
        (pem(RSA), b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "sa-0.pub: holds no RSA or ECDSA"),
        (
            pem(RSA),
            public_pem(SIGNING_KEYS["P-256"]),
            "sa.key is not among the keys of --service-account-key-file: tokens that are signed with it would not be",
        ),
    ],
)
def test_keys_that_cannot_sign_or_verify_are_named(tmp_path: Path, key: bytes, verifying: bytes, sentence: str) -> None:
    with pytest.raises(CertificateError, match=sentence):
        prepared(tmp_path, signing(tmp_path, key, verifying))


def test_a_key_of_another_kind_is_named(tmp_path: Path) -> None:
    other = ed25519.Ed25519PrivateKey.generate()
    content = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(CertificateError, match=r"sa\.key: holds no RSA or ECDSA private key"):
        prepared(tmp_path, signing(tmp_path, content, content))


def test_an_authority_of_clients_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "clients.crt").write_text("words")
    with pytest.raises(CertificateError, match=r"clients.crt: holds no certificate in PEM form"):
        prepared(tmp_path, SharedFiles(client_authorities=tmp_path / "clients.crt"))


def test_tls_is_spoken_with_the_given_certificate(tmp_path: Path, server: SharedFiles, authority: Pair) -> None:
    own = prepared(tmp_path, server)
    client = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="api.example.com")
    answering = own.tls.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert asking.getpeercert()
