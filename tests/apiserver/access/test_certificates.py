"""Certificates are made once, believed by strangers, and renewed in time."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import shutil
import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from moorage.apiserver.access import certificates
from moorage.apiserver.access.certificates import CertificateError, kubeconfig, prepare, server_names, write_private
from moorage.apiserver.access.tokens import ADMIN
from moorage.apiserver.http.listener import Server
from tests.apiserver.edge import CLOSE, code, connected, echo, made, scenario, serving, trust

NOW = datetime.now(UTC)
FILES = {"ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "service-account.key"}


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_everything_is_made_private_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pki"
    prepare(folder)
    before = contents(folder)
    assert set(before) == FILES
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    prepare(folder)
    assert contents(folder) == before


def names(certificate: x509.Certificate) -> set[str]:
    held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in held}


def test_the_server_has_all_its_names(tmp_path: Path) -> None:
    everywhere = {
        "localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    }  # fmt: skip
    assert names(prepare(tmp_path).server.certificate) == everywhere
    assert names(prepare(tmp_path, "10.0.0.7", ["api.example.com"]).server.certificate) == everywhere | {
        "10.0.0.7",
        "api.example.com",
    }
    before = contents(tmp_path)
    prepare(tmp_path, "10.0.0.7")
    assert contents(tmp_path) == before
    assert "0.0.0.0" not in server_names("0.0.0.0")
    assert os.uname().nodename in server_names("::")


def test_what_expires_soon_is_renewed(tmp_path: Path) -> None:
    first = prepare(tmp_path)
    later = prepare(tmp_path, now=NOW + timedelta(days=330))
    assert later.server.certificate == first.server.certificate
    later = prepare(tmp_path, now=NOW + timedelta(days=336))
    assert later.authority.certificate == first.authority.certificate
    assert later.server.certificate.not_valid_after_utc > NOW + timedelta(days=600)
    assert later.server.key_pem == first.server.key_pem


def test_a_renewed_authority_is_believed_by_who_knew_the_old_one(tmp_path: Path) -> None:
    first = prepare(tmp_path)
    end = first.authority.certificate.not_valid_after_utc
    renewed = prepare(tmp_path, now=end - timedelta(days=29))
    assert renewed.authority.certificate != first.authority.certificate
    assert renewed.server.certificate != first.server.certificate
    renewed.server.certificate.verify_directly_issued_by(first.authority.certificate)
    first.client("ann").certificate.verify_directly_issued_by(renewed.authority.certificate)


def test_a_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    almost = NOW - certificates.AUTHORITY_LIFE + timedelta(days=40)
    pki = prepare(tmp_path, now=almost)
    pair = pki.client("ann")
    assert pair.certificate.not_valid_after_utc == pki.authority.certificate.not_valid_after_utc


def test_a_server_certificate_of_another_authority_is_replaced(tmp_path: Path) -> None:
    prepare(tmp_path / "a")
    prepare(tmp_path / "b")
    for name in ("ca.crt", "ca.key"):
        (tmp_path / "b" / name).replace(tmp_path / "a" / name)
    pki = prepare(tmp_path / "a")
    pki.server.certificate.verify_directly_issued_by(pki.authority.certificate)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_is_not_ours_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    prepare(tmp_path)
    (tmp_path / name).write_text("rubbish")
    with pytest.raises(CertificateError, match=name):
        prepare(tmp_path)


def test_a_certificate_without_its_key_is_an_error(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(CertificateError, match=r"ca.key is missing"):
        prepare(tmp_path)


def test_a_key_of_another_certificate_is_an_error(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "apiserver.key").replace(tmp_path / "ca.key")
    with pytest.raises(CertificateError, match=r"ca.crt does not belong to .*ca.key"):
        prepare(tmp_path)


def test_a_key_of_another_sort_is_an_error(tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "service-account.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(CertificateError, match="not an elliptic curve key"):
        prepare(tmp_path)


def test_a_signing_key_on_another_curve_is_an_error(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    (tmp_path / "service-account.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(CertificateError, match="on the curve secp384r1, not on P-256"):
        prepare(tmp_path)


def test_a_key_without_certificate_is_given_one(tmp_path: Path) -> None:
    """As after a crash between the two files."""
    prepare(tmp_path)
    for name in ("apiserver.crt", "ca.crt"):
        (tmp_path / name).unlink()
    pki = prepare(tmp_path)
    pki.server.certificate.verify_directly_issued_by(pki.authority.certificate)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    write_private(file, b"old")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_private(file, b"new")
    assert contents(tmp_path) == {"file": b"old"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")
def test_openssl_believes_it_all(tmp_path: Path) -> None:
    pki = prepare(tmp_path)
    client = tmp_path / "client.crt"
    client.write_bytes(pki.client("ann", ["dev"]).certificate_pem)
    for purpose, file in (("sslserver", tmp_path / "apiserver.crt"), ("sslclient", client)):
        command = [
            "openssl",
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            str(tmp_path / "ca.crt"),
            str(file),
        ]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
        command[4] = {"sslserver": "sslclient", "sslclient": "sslserver"}[purpose]
        assert subprocess.run(command, capture_output=True, check=False).returncode != 0


@scenario
async def test_an_independent_client_believes_the_server_under_each_name() -> None:
    async with serving() as server:
        for name in ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default.svc.cluster.local"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust(), server_hostname=name)
            writer.write(CLOSE)
            assert code(await reader.read()) == 200
            writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=trust(), server_hostname="example.com")
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", server.port, ssl=ssl.create_default_context())


@scenario
async def test_a_renewed_certificate_is_shown_to_new_connections(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("renewed")
    pki = prepare(folder)
    context = pki.tls()
    tls = ssl.create_default_context(cadata=pki.authority.certificate_pem.decode())

    async def shown() -> bytes:
        async with connected(running, tls) as client:
            found: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return found

    running = Server(echo, lambda _: ADMIN, context)
    await running.start()
    before = await shown()
    prepare(folder, names=["more"]).load_into(context)
    assert await shown() != before
    await running.stop(1)


def test_a_kubeconfig_holds_all_that_kubectl_needs() -> None:
    text = kubeconfig("https://127.0.0.1:6443", made().authority.certificate_pem, "secret")
    config = yaml.safe_load(text)
    (cluster,), (who,), (context,) = config["clusters"], config["users"], config["contexts"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    trusted = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    assert x509.load_pem_x509_certificate(trusted) == made().authority.certificate
    assert who["user"] == {"token": "secret"}
    assert context["context"] == {"cluster": cluster["name"], "user": who["name"]}
    assert config["current-context"] == context["name"]
    assert (config["apiVersion"], config["kind"]) == ("v1", "Config")
