"""Who asks: the headers and the client certificate of a user, and how long they hold."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from urllib.parse import quote

from moorage.client.clock import Clock
from moorage.client.kubeconfig.entries import UserEntry
from moorage.client.kubeconfig.execplugin import ExecPlugin, Issued, is_word
from moorage.client.kubeconfig.files import FileEntry, KubeconfigError
from moorage.client.kubeconfig.proxies import basic
from moorage.client.kubeconfig.trust import BadKeyPair, KeyPair, Trust

_FILE_AGE = 60.0
"""After how many seconds token and certificate files are read again."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request shows."""

    headers: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """The TLS to connect with; None without TLS."""
    seconds: float = inf
    """For how long it may be used before it is asked for again."""


class UserCredentials:
    """The credentials of a user. Files are read again when they are old, plugins are run again at expiry."""

    def __init__(self, entry: FileEntry, user: UserEntry, trust: Trust, plugin: ExecPlugin | None) -> None:
        self._entry = entry
        self._user = user
        self._trust = trust
        self._plugin = plugin
        self._issued: Issued | None = None
        self._issued_until = inf
        self._issuing = asyncio.Lock()
        self._tls: tuple[KeyPair | None, ssl.SSLContext] | None = None
        _check(entry, user)
        token, pair = self.token(), self._pair()
        if plugin is None:
            self._proof(token, pair, inf)

    @property
    def is_renewable(self) -> bool:
        """Whether other credentials may come later."""
        user = self._user
        return bool(self._plugin or user.token_file or user.client_certificate or user.client_key)

    @property
    def has_plugin(self) -> bool:
        """Whether a command issues them."""
        return self._plugin is not None

    def token(self) -> str:
        """The bearer token of the kubeconfig, empty when there is none. Raises KubeconfigError."""
        if not self._user.token_file:
            return self._user.token
        path = self._entry.path(self._user.token_file)
        try:
            token = path.read_text().strip()
        except (OSError, UnicodeError) as error:
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else "is not text"
            raise KubeconfigError(f"{path}: {reason}") from None
        if not is_word(token):
            raise KubeconfigError(f"{path}: holds no bearer token")
        return token

    async def proof(self, clock: Clock, refused: Proof | None = None) -> Proof:
        """What to show now; other than what the server has refused, if possible. Raises KubeconfigError."""
        token, pair = self.token(), self._pair()
        seconds = _FILE_AGE if self.is_renewable else inf
        if self._plugin is not None and not token and not self._user.username:
            issued = await self._issue(self._plugin, clock, refused)
            token, pair = issued.token, pair or issued.pair
            seconds = min(seconds, self._issued_until - clock.monotonic())
        return self._proof(token, pair, seconds)

    async def _issue(self, plugin: ExecPlugin, clock: Clock, refused: Proof | None) -> Issued:
        async with self._issuing:
            known = self._issued
            if known is None or clock.monotonic() >= self._issued_until or (refused and self._is_of(known, refused)):
                known = self._issued = await plugin.issue(clock)
                self._issued_until = inf if known.seconds is None else clock.monotonic() + known.seconds
            return known

    def _is_of(self, issued: Issued, proof: Proof) -> bool:
        """Whether these credentials are what was shown, and not newer ones that somebody else has asked for."""
        shown = self._tls[1] if self._tls and self._tls[0] == issued.pair else None
        return self._headers(issued.token) == proof.headers and (issued.pair is None or shown is proof.tls)

    def _proof(self, token: str, pair: KeyPair | None, seconds: float) -> Proof:
        if self._tls is None or self._tls[0] != pair:
            try:
                self._tls = pair, self._trust.tls(pair)
            except BadKeyPair:
                certificate, key = self._bytes("client_certificate")[0], self._bytes("client_key")[0]
                if self._pair() is None:
                    self._entry.fail("exec", "the certificate that was printed is not in PEM form, or of another key")
                self._entry.fail(certificate, f"does not hold a certificate in PEM form that belongs to {key}")
        return Proof(self._headers(token), self._tls[1], seconds)

    def _headers(self, token: str) -> str:
        user = self._user
        if token:
            shown = f"Authorization: Bearer {token}\r\n"
        else:
            shown = f"Authorization: {basic(user.username, user.password)}\r\n" if user.username else ""
        return shown + "".join(f"{name}: {value}\r\n" for name, value in _impersonation(user))

    def _pair(self) -> KeyPair | None:
        name, certificate = self._bytes("client_certificate")
        key_name, key = self._bytes("client_key")
        if not certificate and not key:
            return None
        if not certificate or not key:
            missing = key_name if certificate else name
            self._entry.fail(missing, "is missing: a client certificate and its key come together")
        return KeyPair(certificate, key)

    def _bytes(self, attribute: str) -> tuple[str, bytes]:
        return content(self._entry, attribute, getattr(self._user, f"{attribute}_data"), getattr(self._user, attribute))


def content(entry: FileEntry, attribute: str, inline: str, path: str) -> tuple[str, bytes]:
    """The name and the content of the field that is set: one in base64, or one that names a file."""
    name = attribute.replace("_", "-")
    if not inline:
        return name, entry.content(name, path) if path else b""
    try:
        return f"{name}-data", base64.b64decode("".join(inline.split()), validate=True)
    except (binascii.Error, ValueError):
        return entry.fail(f"{name}-data", "is not base64")


def _check(entry: FileEntry, user: UserEntry) -> None:
    if user.auth_provider:
        entry.fail("auth-provider", "auth providers are not supported; an exec plugin, a token or a certificate is")
    if user.token and not is_word(user.token):
        entry.fail("token", "is no bearer token")
    if user.token and (user.username or user.password):
        entry.fail("", "has a token and a user name: only one of them can be shown")
    if not user.impersonate and (user.as_uid or user.as_groups or user.as_user_extra):
        entry.fail("as", "is missing: groups, uid and extras belong to a user")
    for name, value in _impersonation(user):
        if not value.isascii() or not value.isprintable():
            entry.fail("as", f"{name} cannot be {value!r}")


def _impersonation(user: UserEntry) -> Iterator[tuple[str, str]]:
    if user.impersonate:
        yield "Impersonate-User", user.impersonate
    if user.as_uid:
        yield "Impersonate-Uid", user.as_uid
    for group in user.as_groups or ():
        yield "Impersonate-Group", group
    for name, values in (user.as_user_extra or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(name, safe='')}", value
