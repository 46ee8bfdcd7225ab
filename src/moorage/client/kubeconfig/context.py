"""The context of a kubeconfig, or of a pod, ready to connect with."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from moorage.api.meta import Data
from moorage.client.kubeconfig.credentials import UserCredentials, content
from moorage.client.kubeconfig.entries import ClusterEntry, ContextEntry, UserEntry
from moorage.client.kubeconfig.execplugin import ExecPlugin
from moorage.client.kubeconfig.files import FileEntry, KubeconfigError, Merged, found
from moorage.client.kubeconfig.proxies import Proxy, from_environment, is_loopback, read_proxy
from moorage.client.kubeconfig.trust import Trust

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token, its namespace and the certificate of the API server."""
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One context of a kubeconfig, ready to connect with."""

    host: str
    port: int
    base: str
    """The path that is put in front of every request's, mostly empty."""
    server_name: str
    """The name that the server's certificate must have."""
    namespace: str
    trust: Trust | None
    """How the server is verified; None without TLS."""
    credentials: UserCredentials | None = field(repr=False)
    """Who asks; None without TLS, where nothing secret is shown."""
    proxy: Proxy | None
    source: str
    """The files that it was read from, for messages."""

    @property
    def url(self) -> str:
        """The server's address."""
        return f"{'https' if self.trust else 'http'}://{self.authority}{self.base}"

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def trusted(self) -> str:
        """The certificate authorities of the server, in PEM form; empty when the system's are trusted."""
        return self.trust.authorities if self.trust else ""


def load(file: Path | None = None, context: str = "", environment: Mapping[str, str] = os.environ) -> Kubeconfig:
    """Read a context, the current one unless one is named. Raises KubeconfigError.

    Without a file those of KUBECONFIG are merged, else ~/.kube/config is read, else a pod's own account is used.
    """
    files = [file] if file else [each for each in found(environment) if _is_there(each)]
    merged = Merged(files)
    if file is None and merged.is_empty:
        return _in_cluster(context, environment)
    return _read(merged, context, environment)


def _is_there(file: Path) -> bool:
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass  # reading it says what is wrong
    return True


def _in_cluster(context: str, environment: Mapping[str, str]) -> Kubeconfig:
    """The API server of the cluster that this process is a pod of, as the pod's service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    looked = os.pathsep.join(str(each) for each in found(environment))
    if context or not host or not port or not (SERVICE_ACCOUNT / "token").is_file():
        raise KubeconfigError(f"there is no kubeconfig at {looked}: name one with --kubeconfig")
    try:
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        namespace = ""
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    file = str(SERVICE_ACCOUNT / "in-cluster")
    cluster = FileEntry(file, "cluster", {"server": server, "certificate-authority": "ca.crt"})
    user = FileEntry(file, "user", {"tokenFile": "token"})
    return _connection(cluster, user, environment.get("POD_NAMESPACE") or namespace, str(SERVICE_ACCOUNT), environment)


def _read(merged: Merged, context: str, environment: Mapping[str, str]) -> Kubeconfig:
    name = context or merged.current_context
    if not name:
        merged.fail("current-context", "is missing: name a context")
    entry = merged.entry("contexts", name)
    chosen = entry.read(ContextEntry)
    if not chosen.cluster:
        entry.fail("cluster", "is missing")
    cluster = merged.entry("clusters", chosen.cluster)
    user = merged.entry("users", chosen.user) if chosen.user else FileEntry(merged.name, "users", {})
    return _connection(cluster, user, chosen.namespace, merged.name, environment)


def _connection(
    entry: FileEntry, user_entry: FileEntry, namespace: str, source: str, environment: Mapping[str, str]
) -> Kubeconfig:
    cluster, user = entry.read(ClusterEntry), user_entry.read(UserEntry)
    scheme, host, port, base = _server(entry, cluster.server)
    proxy_url = cluster.proxy_url or from_environment(scheme, host, port, environment)
    try:
        proxy = read_proxy(proxy_url) if proxy_url else None
    except ValueError as error:
        entry.fail("proxy-url", str(error))
    trust = credentials = None
    if scheme == "https":
        trust = _trust(entry, cluster)
        plugin = ExecPlugin(user_entry, user.exec, _told(cluster, trust, proxy_url)) if user.exec else None
        credentials = UserCredentials(user_entry, user, trust, plugin)
    name = cluster.tls_server_name or host
    return Kubeconfig(host, port, base, name, namespace or "default", trust, credentials, proxy, source)


def _server(entry: FileEntry, server: str) -> tuple[str, str, int, str]:
    if not server:
        entry.fail("server", "is missing")
    try:
        address = urlsplit(server)
        host, port = address.hostname or "", address.port
    except ValueError as error:
        entry.fail("server", f"{server!r} is no address: {error}")
    if address.scheme not in ("https", "http") or not host or not server.isascii() or " " in server:
        entry.fail("server", f"expected https://host:port, got {server!r}")
    if address.scheme == "http" and not is_loopback(host):
        entry.fail("server", f"without TLS only this machine is asked, as with kubectl proxy, got {server!r}")
    return address.scheme, host, port or (443 if address.scheme == "https" else 80), address.path.rstrip("/")


def _trust(entry: FileEntry, cluster: ClusterEntry) -> Trust:
    name, authorities = content(
        entry, "certificate_authority", cluster.certificate_authority_data, cluster.certificate_authority
    )
    if cluster.insecure_skip_tls_verify and authorities:
        entry.fail("", f"insecure-skip-tls-verify and {name} exclude each other")
    try:
        trust = Trust(authorities.decode("ascii"), cluster.insecure_skip_tls_verify)
        trust.tls()
    except (ssl.SSLError, UnicodeError):
        entry.fail(name, "holds no certificate in PEM form")
    return trust


def _told(cluster: ClusterEntry, trust: Trust, proxy_url: str) -> Data:
    """What an exec plugin is told of the cluster when it asks for it."""
    told: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": trust.authorities.encode(),
        "proxy-url": proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": next((each.extension for each in cluster.extensions or () if each.name == _EXEC_EXTENSION), None),
    }
    return {name: value for name, value in told.items() if value or name == "config"}
