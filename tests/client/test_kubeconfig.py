"""Kubeconfig files are read as kubectl reads them, and what is wrong is said in one sentence."""

from __future__ import annotations

import base64
import copy
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.api.meta import Data
from moorage.apiserver.access import certificates
from moorage.apiserver.access.certificates import Certificates
from moorage.client.kubeconfig import Kubeconfig, KubeconfigError, load


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.prepare(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def config(material: Certificates) -> Data:
    authority = base64.b64encode(material.authority.certificate_pem).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "here", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": authority}},
            {"name": "there", "cluster": {"server": "https://api.example.com/k8s/clusters/c-1/"}},
        ],
        "users": [{"name": "admin", "user": {"token": "secret"}}, {"name": "nobody", "user": {}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "here", "user": "admin", "namespace": "web"}},
            {"name": "other", "context": {"cluster": "there", "user": "nobody"}},
        ],
        "current-context": "main",
    }


def _written(directory: Path, data: Any) -> Path:
    file = directory / "config"
    file.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return file


def _token(known: Kubeconfig) -> str:
    assert known.credentials
    return known.credentials.token()


def _tls(known: Kubeconfig) -> ssl.SSLContext:
    assert known.trust
    return known.trust.tls()


def test_the_current_context_says_where_and_who(tmp_path: Path, config: Data) -> None:
    known = load(_written(tmp_path, config))
    assert (known.host, known.port, known.namespace, _token(known)) == ("10.0.0.1", 6443, "web", "secret")
    assert _tls(known).verify_mode is ssl.CERT_REQUIRED
    assert len(_tls(known).get_ca_certs()) == 1


def test_a_named_context_is_read_instead(tmp_path: Path, config: Data) -> None:
    known = load(_written(tmp_path, config), "other")
    assert known.url == "https://api.example.com:443/k8s/clusters/c-1"
    assert (known.namespace, _token(known), known.server_name) == ("default", "", "api.example.com")


def test_files_are_found_beside_the_kubeconfig(tmp_path: Path, config: Data, material: Certificates) -> None:
    pair = material.client("jane")
    for name, content in (
        ("ca.crt", material.authority.certificate_pem), ("jane.crt", pair.certificate_pem), ("jane.key", pair.key_pem),
        ("token", b"  from-a-file\n"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
    config["clusters"][0]["cluster"] = {"server": "https://[::1]:6443", "certificate-authority": "ca.crt"}
    config["users"][0]["user"] = {
        "client-certificate": "jane.crt", "client-key": str(tmp_path / "jane.key"), "tokenFile": "token",
        "token": "another",
    }  # fmt: skip
    known = load(_written(tmp_path, config))
    assert _token(known) == "from-a-file"
    assert known.authority == "[::1]:6443"
    (tmp_path / "token").write_text("renewed")
    assert _token(known) == "renewed"


def test_a_client_certificate_may_be_inline(tmp_path: Path, config: Data, material: Certificates) -> None:
    pair = material.client("jane")
    config["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(pair.certificate_pem).decode(),
        "client-key-data": base64.b64encode(pair.key_pem).decode(),
    }
    load(_written(tmp_path, config))


def test_verification_can_be_turned_off_and_names_replaced(tmp_path: Path, config: Data) -> None:
    config["clusters"][0]["cluster"] = {
        "server": "https://10.0.0.1", "insecure-skip-tls-verify": True, "tls-server-name": "kubernetes",
    }  # fmt: skip
    known = load(_written(tmp_path, config))
    assert (known.port, known.server_name, _tls(known).verify_mode) == (443, "kubernetes", ssl.CERT_NONE)


_CLUSTER, _USER = ("clusters", 0, "cluster"), ("users", 0, "user")


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("current-context",), "", "current-context: is missing: name a context"),
        (("current-context",), "nowhere", "contexts: there is no context named 'nowhere'"),
        (("contexts",), None, "contexts: is missing"),
        (("contexts", 0, "context", "cluster"), "gone", "clusters: there is no cluster named 'gone'"),
        (("contexts", 0, "context", "cluster"), "", "contexts[main].context.cluster: is missing"),
        (("contexts", 0, "context", "user"), "gone", "users: there is no user named 'gone'"),
        ((*_CLUSTER, "server"), "", "clusters[here].cluster.server: is missing"),
        (
            (*_CLUSTER, "server"), "http://10.0.0.1",
            "clusters[here].cluster.server: without TLS only this machine is asked, as with kubectl proxy, "
            "got 'http://10.0.0.1'",
        ),
        (
            (*_CLUSTER, "server"), "10.0.0.1:6443",
            "clusters[here].cluster.server: expected https://host:port, got '10.0.0.1:6443'",
        ),
        (
            (*_CLUSTER, "server"), "https://h:99999",
            "clusters[here].cluster.server: 'https://h:99999' is no address: Port out of range 0-65535",
        ),
        (
            (*_CLUSTER, "certificate-authority-data"), "###",
            "clusters[here].cluster.certificate-authority-data: is not base64",
        ),
        (
            (*_CLUSTER, "certificate-authority-data"), "YWJj",
            "clusters[here].cluster.certificate-authority-data: holds no certificate in PEM form",
        ),
        (
            (*_CLUSTER, "insecure-skip-tls-verify"), True,
            "clusters[here].cluster: insecure-skip-tls-verify and certificate-authority-data exclude each other",
        ),
        (
            (*_CLUSTER, "insecure-skip-tls-verify"), "yes, please",
            "clusters[here].cluster.insecure-skip-tls-verify: expected true or false, got a string",
        ),
        (
            (*_CLUSTER, "proxy-url"), "ftp://p",
            "clusters[here].cluster.proxy-url: expected http://, https:// or socks5://host:port, got 'ftp://p'",
        ),
        ((*_USER, "token"), 12345, "users[admin].user.token: expected a string, got an integer: put it in quotes"),
        ((*_USER, "token"), "two words", "users[admin].user.token: is no bearer token"),
        (
            (*_USER, "exec"), {"command": "aws"},
            "users[admin].user.exec.apiVersion: expected client.authentication.k8s.io/v1 or "
            "client.authentication.k8s.io/v1beta1, got ''",
        ),
        (
            (*_USER, "exec"), {"command": "true", "apiVersion": "client.authentication.k8s.io/v1"},
            "users[admin].user.exec.interactiveMode: expected Never, IfAvailable, Always, got ''",
        ),
        (
            (*_USER, "exec"),
            {"command": "no-such-program", "apiVersion": "client.authentication.k8s.io/v1beta1",
             "installHint": "It comes with\nthe cloud's tools."},
            "users[admin].user.exec.command: there is no program 'no-such-program': It comes with the cloud's tools.",
        ),
        (
            (*_USER, "auth-provider"), {"name": "gcp"},
            "users[admin].user.auth-provider: auth providers are not supported; "
            "an exec plugin, a token or a certificate is",
        ),
        ((*_USER, "as-groups"), ["a"], "users[admin].user.as: is missing: groups, uid and extras belong to a user"),
        ((*_USER, "as"), "a\r\nb", "users[admin].user.as: Impersonate-User cannot be 'a\\r\\nb'"),
        (("contexts",), [{"context": {}}], "contexts: every entry is a map with a name and a context"),
        (("users",), [{"name": "a"}, {"name": "a"}], "users: 'a' is given twice"),
        (
            (*_USER, "username"), "jane",
            "users[admin].user: has a token and a user name: only one of them can be shown",
        ),
        (
            (*_USER, "client-key-data"), "YWJj",
            "users[admin].user.client-certificate: is missing: a client certificate and its key come together",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_and_field(
    tmp_path: Path, config: Data, place: tuple[str | int, ...], value: Any, sentence: str
) -> None:
    data: Any = copy.deepcopy(config)
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    file = _written(tmp_path, data)
    with pytest.raises(KubeconfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {sentence}"


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (("clusters", "cluster", "certificate-authority"), "clusters[here].cluster.certificate-authority"),
        (("users", "user", "client-certificate"), "users[admin].user.client-certificate"),
    ],
)
def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, config: Data, field: tuple[str, str, str], sentence: str
) -> None:
    part, inner, name = field
    config[part][0][inner].pop(f"{name}-data", None)
    config[part][0][inner][name] = "none.pem"
    file = _written(tmp_path, config)
    with pytest.raises(KubeconfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {sentence}: {tmp_path / 'none.pem'}: No such file or directory"


def test_a_certificate_of_another_key_is_refused(tmp_path: Path, config: Data, material: Certificates) -> None:
    config["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(material.client("jane").certificate_pem).decode(),
        "client-key-data": base64.b64encode(material.client("joe").key_pem).decode(),
    }
    with pytest.raises(KubeconfigError, match=r"client-certificate-data: does not hold .* belongs to client-key-data"):
        load(_written(tmp_path, config))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clusters: []\nusers: [", r"config:2: not YAML: did not find expected node content"),
        ("clusters:\n\t- name: x", r"config:2: not YAML: a tab stands where the line is indented"),
        ("users: []\nusers: []", r"config:2: not YAML: key 'users' is given twice"),
        ("", "current-context: is missing: name a context"),
        ("- 1", "is no kubeconfig"),
        ("contexts: 1\ncurrent-context: x", "contexts: expected a list"),
    ],
)
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(KubeconfigError, match=problem):
        load(_written(tmp_path, text))


def test_a_kubeconfig_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"users: []\n\xff")
    with pytest.raises(KubeconfigError, match="config:2: not YAML: not text in UTF-8"):
        load(tmp_path / "config")


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="No such file or directory"):
        load(tmp_path / "none")


@pytest.mark.parametrize("content", ["", "two words", "\x00"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, config: Data, content: str) -> None:
    (tmp_path / "token").write_text(content)
    config["users"][0]["user"] = {"tokenFile": "token"}
    with pytest.raises(KubeconfigError, match="token: holds no bearer token"):
        load(_written(tmp_path, config))


def test_secrets_are_not_shown(tmp_path: Path, config: Data) -> None:
    config["users"][0]["user"]["token"] = "hush-hush"
    assert "hush-hush" not in repr(load(_written(tmp_path, config)))
