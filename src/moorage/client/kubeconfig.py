"""Kubeconfig files: the address of an API server, the authority to trust, and the credentials to show."""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from moorage.api.decode import DecodeError, convert
from moorage.api.meta import Data
from moorage.api.yamltext import YAMLFileError, read_file

_S = TypeVar("_S", bound=msgspec.Struct)


class KubeconfigError(Exception):
    """A kubeconfig cannot be used; the sentence names the file and the field."""


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
    tls: ssl.SSLContext = field(repr=False)
    _token: str = field(repr=False)
    _token_file: Path | None
    trusted: str = field(default="", repr=False)
    """The certificate authorities of the server, in PEM form; empty when the system's are trusted."""

    @property
    def url(self) -> str:
        """The server's address."""
        return f"https://{self.authority}{self.base}"

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def token_changes(self) -> bool:
        """Whether the token is in a file of its own, where a newer one may appear."""
        return self._token_file is not None

    def token(self) -> str:
        """The bearer token, empty when there is none. Raises KubeconfigError when its file cannot be read."""
        if self._token_file is None:
            return self._token
        try:
            token = self._token_file.read_text().strip()
        except (OSError, UnicodeError) as error:
            raise KubeconfigError(f"{self._token_file}: {_reason(error)}") from None
        if not _is_token(token):
            raise KubeconfigError(f"{self._token_file}: holds no bearer token")
        return token


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")


class _Context(msgspec.Struct, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


_SUPPORTED = "a token or a client certificate is"
_UNSUPPORTED = {
    "exec": f"exec plugins are not supported; {_SUPPORTED}",
    "auth-provider": f"auth providers are not supported; {_SUPPORTED}",
    "username": f"user names with passwords are not supported; {_SUPPORTED}",
    "as": "acting as somebody else is not supported",
    "proxy-url": "proxies are not supported",
}


def load(file: Path, context: str = "") -> Kubeconfig:
    """Read a context of a kubeconfig, the current one unless one is named. Raises KubeconfigError."""
    return _Reader(file).kubeconfig(context)


class _Reader:
    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            data = read_file(file)
        except YAMLFileError as error:
            raise KubeconfigError(str(error)) from None
        if not isinstance(data, dict):
            raise KubeconfigError(f"{file}: is no kubeconfig: expected a map with clusters, users and contexts")
        self._data: Data = data

    def kubeconfig(self, context: str) -> Kubeconfig:
        name = context or self._data.get("current-context")
        if not isinstance(name, str) or not name:
            self._fail("current-context", "is missing: name a context")
        chosen = self._entry("contexts", name, _Context)
        at = f"contexts[{name}].context"
        if not chosen.cluster:
            self._fail(f"{at}.cluster", "is missing")
        cluster = self._entry("clusters", chosen.cluster, _Cluster)
        user = self._entry("users", chosen.user, _User) if chosen.user else _User()
        host, port, base = self._server(f"clusters[{chosen.cluster}].cluster.server", cluster.server)
        tls, trusted = self._trust(f"clusters[{chosen.cluster}].cluster", cluster)
        self._prove(f"users[{chosen.user}].user", user, tls)
        known = Kubeconfig(
            host, port, base, cluster.tls_server_name or host, chosen.namespace or "default", tls, user.token,
            self._path(user.token_file) if user.token_file else None, trusted,
        )  # fmt: skip
        if user.token and not _is_token(user.token):
            self._fail(f"users[{chosen.user}].user.token", "is no bearer token")
        known.token()
        return known

    def _fail(self, where: str, problem: str) -> NoReturn:
        raise KubeconfigError(f"{self._file}: {where}: {problem}")

    def _entry(self, part: str, name: str, struct: type[_S]) -> _S:
        entries = self._data.get(part)
        if not isinstance(entries, list):
            self._fail(part, "is missing" if entries is None else "expected a list")
        inner = part.removesuffix("s")
        for entry in entries:
            if isinstance(entry, Mapping) and entry.get("name") == name:
                return self._read(f"{part}[{name}].{inner}", entry.get(inner) or {}, struct)
        return self._fail(part, f"there is no {inner} named {name!r}")

    def _read(self, where: str, data: Any, struct: type[_S]) -> _S:
        if isinstance(data, Mapping):
            for name, problem in _UNSUPPORTED.items():
                if data.get(name):
                    self._fail(f"{where}.{name}", problem)
        try:
            return convert(data, struct)
        except DecodeError as error:
            return self._fail(f"{where}.{error.path}" if error.path else where, error.message)

    def _server(self, where: str, server: str) -> tuple[str, int, str]:
        if not server:
            self._fail(where, "is missing")
        try:
            address = urlsplit(server)
            host, port = address.hostname or "", address.port or 443
        except ValueError as error:
            self._fail(where, f"{server!r} is no address: {error}")
        if address.scheme != "https" or not host or not server.isascii() or " " in server:
            self._fail(where, f"expected https://host:port, got {server!r}")
        return host, port, address.path.rstrip("/")

    def _trust(self, where: str, cluster: _Cluster) -> tuple[ssl.SSLContext, str]:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        name, trusted = self._bytes(where, cluster, "certificate_authority")
        if cluster.insecure_skip_tls_verify:
            if trusted:
                self._fail(where, f"insecure-skip-tls-verify and {name} exclude each other")
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        elif trusted:
            try:
                tls.load_verify_locations(cadata=trusted.decode("ascii"))
            except (ssl.SSLError, UnicodeError):
                self._fail(f"{where}.{name}", "holds no certificate in PEM form")
        else:
            tls.load_default_certs()
        return tls, trusted.decode("ascii")

    def _prove(self, where: str, user: _User, tls: ssl.SSLContext) -> None:
        name, certificate = self._bytes(where, user, "client_certificate")
        key_name, key = self._bytes(where, user, "client_key")
        if not certificate and not key:
            return
        if not certificate or not key:
            missing = key_name if certificate else name
            self._fail(f"{where}.{missing}", "is missing: a client certificate and its key come together")
        # Python loads these from files only; this one is readable by its owner only, and removed at once.
        with tempfile.NamedTemporaryFile() as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            try:
                tls.load_cert_chain(both.name, password="")
            except (ssl.SSLError, ValueError):
                self._fail(f"{where}.{name}", f"does not hold a certificate in PEM form that belongs to {key_name}")

    def _bytes(self, where: str, part: msgspec.Struct, attribute: str) -> tuple[str, bytes]:
        """The name and the content of the field that is set: one in base64, or one that names a file."""
        name = attribute.replace("_", "-")
        inline: str = getattr(part, f"{attribute}_data")
        if inline:
            try:
                return f"{name}-data", base64.b64decode("".join(inline.split()), validate=True)
            except (binascii.Error, ValueError):
                self._fail(f"{where}.{name}-data", "is not base64")
        path: str = getattr(part, attribute)
        if not path:
            return name, b""
        try:
            return name, self._path(path).read_bytes()
        except OSError as error:
            return self._fail(f"{where}.{name}", f"{self._path(path)}: {_reason(error)}")

    def _path(self, path: str) -> Path:
        return self._file.parent / path


def _is_token(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _reason(error: OSError | UnicodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "is not text"
