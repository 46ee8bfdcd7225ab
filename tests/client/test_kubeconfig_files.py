"""Kubeconfig files are found and merged as kubectl finds and merges them."""

from __future__ import annotations

import base64
import itertools
import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from moorage.api.meta import Data
from moorage.apiserver.access import certificates
from moorage.client.kubeconfig import Kubeconfig, KubeconfigError, load
from tests.apiserver.kubectl import needs_kubectl


def _named(part: str, entries: Data) -> list[Data]:
    return [{"name": name, part: entry} for name, entry in entries.items()]


def _file(path: Path, current: str = "", **parts: Data) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data: Data = {f"{part}s": _named(part, entries) for part, entries in parts.items()}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **data, "current-context": current}))
    return path


def _context(cluster: str, user: str, namespace: str = "") -> Data:
    return {"cluster": cluster, "user": user, **({"namespace": namespace} if namespace else {})}


def _token(known: Kubeconfig) -> str:
    assert known.credentials
    return known.credentials.token()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files with the same names for different things, in folders of their own."""
    authority = certificates.prepare(tmp_path / "certificates").authority.certificate_pem
    one = _file(
        tmp_path / "one" / "config",
        cluster={"a": {"server": "https://one:1", "certificate-authority": "ca.crt"}},
        context={"left": _context("a", "u", "first")},
    )
    (one.parent / "ca.crt").write_bytes(authority)
    two = _file(
        tmp_path / "two" / "config", "right",
        cluster={"a": {"server": "https://two:2"}, "b": {"server": "https://two:3", "tls-server-name": "kube"}},
        user={"u": {"token": "two"}, "v": {"tokenFile": "token"}},
        context={"left": _context("b", "v", "second"), "right": _context("b", "v", "other")},
    )  # fmt: skip
    (two.parent / "token").write_text("from-a-file")
    three = _file(
        tmp_path / "three" / "config", "left",
        user={"u": {"token": "three"}, "w": {"token": "w"}},
        context={"right": _context("a", "w"), "third": _context("a", "w", "last")},
    )  # fmt: skip
    (tmp_path / "empty").write_text("")
    return [one, two, three, tmp_path / "none", tmp_path / "empty"]


def _environment(*files: Path) -> dict[str, str]:
    return {"KUBECONFIG": os.pathsep.join(map(str, files)), "HOME": "/none"}


@needs_kubectl
@pytest.mark.parametrize("order", [*itertools.permutations(range(3))], ids=str)
def test_several_files_are_one_as_for_kubectl(files: list[Path], order: tuple[int, ...]) -> None:
    chosen = [files[3], *(files[number] for number in order), files[4]]
    environment = _environment(*chosen)
    for context in ("", "left", "right", "third"):
        theirs = _kubectl(environment, context)
        ours = load(None, context, environment)
        cluster, user = theirs["clusters"][0]["cluster"], theirs["users"][0]["user"]
        assert ours.url == cluster["server"]
        assert ours.namespace == theirs["contexts"][0]["context"].get("namespace", "default")
        assert _token(ours) == ("from-a-file" if "tokenFile" in user else user["token"])
        assert ours.trusted.encode() == base64.b64decode(cluster.get("certificate-authority-data", ""))
        assert ours.server_name == cluster.get("tls-server-name", ours.host)


def _kubectl(environment: dict[str, str], context: str) -> Any:
    command = ["kubectl", "config", "view", "--flatten", "--minify", "--raw", "-o", "json", f"--context={context}"]
    return json.loads(
        subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True).stdout
    )


def test_the_home_folder_is_looked_at_when_nothing_is_named(tmp_path: Path, files: list[Path]) -> None:
    home = {"HOME": str(tmp_path)}
    files[1].parent.rename(tmp_path / ".kube")
    assert load(None, environment=home).namespace == "other"


def test_a_file_that_is_named_counts_alone(files: list[Path]) -> None:
    with pytest.raises(KubeconfigError, match="clusters: is missing"):
        load(files[2], "third", _environment(files[0]))
    with pytest.raises(KubeconfigError, match="No such file"):
        load(files[3], "", _environment(files[0]))


def test_nothing_anywhere_is_one_sentence(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError) as caught:
        load(None, "", _environment(files[3], files[4]))
    assert str(caught.value) == (
        f"there is no kubeconfig at {tmp_path}/none:{tmp_path}/empty: name one with --kubeconfig"
    )


def test_an_account_without_a_home_has_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> NoReturn:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(KubeconfigError, match=r"there is no kubeconfig at ~/\.kube/config"):
        load(None, "", {})


def test_a_bad_file_among_several_is_named(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("users: [")
    with pytest.raises(KubeconfigError, match=r"bad:1: not YAML"):
        load(None, "", _environment(files[0], tmp_path / "bad"))


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a pod's service account."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("of-the-pod")
    (folder / "namespace").write_text("web\n")
    (folder / "ca.crt").write_bytes(certificates.prepare(tmp_path / "certificates").authority.certificate_pem)
    monkeypatch.setattr("moorage.client.kubeconfig.context.SERVICE_ACCOUNT", folder)
    return folder


_POD = {"HOME": "/none", "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_asks_with_its_own_account(account: Path) -> None:
    known = load(None, "", _POD)
    assert (known.url, known.namespace, _token(known)) == ("https://[fd00::1]:443", "web", "of-the-pod")
    assert known.trusted == (account / "ca.crt").read_text()
    assert known.credentials
    assert known.credentials.is_renewable
    (account / "token").write_text("rotated")
    assert _token(known) == "rotated"


def test_a_pod_with_a_kubeconfig_uses_that(account: Path, files: list[Path]) -> None:
    assert load(None, "", {**_POD, "KUBECONFIG": str(files[1])}).namespace == "other"


def test_a_context_is_none_of_a_pod(account: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no kubeconfig at"):
        load(None, "left", _POD)
