"""Who may use the page: tokens that are exchanged once for a secret, which a page sends with every request."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Annotated

import msgspec

from moorage.logs import Log

_LOG = Log(__name__)
TOKENS_MAX = 16
"""How many tokens wait to be exchanged; the oldest makes room for a new one."""
SESSIONS_MAX = 256
"""How many pages are open; the one that was opened first makes room for a new one."""


class Kept(msgspec.Struct):
    """What a page's server keeps in a file, so that pages that are open go on after a restart."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    key: str = ""
    """Whoever can read the file may ask for new tokens with it."""
    tokens: list[str] = []
    """The hashes of the tokens that were not exchanged yet."""
    sessions: list[str] = []
    """The hashes of the secrets of the pages that are open."""


def read(file: Path) -> Kept:
    """What was kept; nothing when there is no such file, or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return Kept()


class Sessions:
    """The tokens in addresses that were printed, and the secrets of the pages that are open.

    No cookie: cookies do not know ports, and every other program's page on this machine is the same site.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.kept = read(file) if file else Kept()
        self.kept.key = self.kept.key or secrets.token_urlsafe(32)
        self.is_kept = True
        """Whether the file says the same: on a full disk it does not."""

    def begin(self, port: int) -> None:
        """Serve on a port.

        What was sent to it while nobody served may have come to another program: the key is a new one, and pages that
        are open go on only where they were.
        """
        if port != self.kept.port:
            self.kept.sessions = []
        self.kept.port, self.kept.key = port, secrets.token_urlsafe(32)
        self.keep()

    def token(self) -> str:
        """A new token, which one page may exchange."""
        token = secrets.token_urlsafe(32)
        self.kept.tokens = [*self.kept.tokens[-(TOKENS_MAX - 1) :], _hash(token)]
        self.keep()
        return token

    def exchange(self, token: str) -> str | None:
        """The secret of a new page; None when the token was exchanged already, or never was one."""
        if _hash(token) not in self.kept.tokens:
            return None
        self.kept.tokens.remove(_hash(token))
        secret = secrets.token_urlsafe(32)
        self.kept.sessions = [*self.kept.sessions[-(SESSIONS_MAX - 1) :], _hash(secret)]
        self.keep()
        return secret

    def knows(self, secret: str) -> bool:
        """Whether a request comes from a page that is open."""
        return _hash(secret) in self.kept.sessions

    def is_starter(self, key: str) -> bool:
        """Whether somebody has read the file of this server."""
        return _hash(key) == _hash(self.kept.key)

    def keep(self) -> None:
        """Write what a restart must know; only the user may read it."""
        if self._file is None:
            return
        new = self._file.with_suffix(".new")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
                stream.write(msgspec.json.encode(self.kept))
            new.replace(self._file)
            self.is_kept = True
        except OSError as error:
            self.is_kept = False
            new.unlink(missing_ok=True)
            _LOG.warning("Who may use the page is not known after a restart", file=self._file, err=error.strerror)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
