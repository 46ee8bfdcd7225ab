"""TLS towards an API server: whom to trust, and the certificate to show."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from typing import NamedTuple


class KeyPair(NamedTuple):
    """A client certificate and its key, in PEM form."""

    certificate: bytes
    key: bytes


class BadKeyPair(Exception):
    """A certificate and a key are none, or do not belong together."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How the certificate of a server is verified."""

    authorities: str = field(default="", repr=False)
    """Certificate authorities in PEM form; empty when the system's are trusted."""
    is_blind: bool = False
    """Whether any certificate will do."""

    def tls(self, pair: KeyPair | None = None) -> ssl.SSLContext:
        """A context to connect with. Raises SSLError for bad authorities, BadKeyPair for a bad client certificate."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.is_blind:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        elif self.authorities:
            tls.load_verify_locations(cadata=self.authorities)
        else:
            tls.load_default_certs()
        if pair is not None:
            _show(tls, pair)
        return tls


def _show(tls: ssl.SSLContext, pair: KeyPair) -> None:
    # Python loads these from files only; this one is readable by its owner only, and removed at once.
    with tempfile.NamedTemporaryFile() as both:
        both.write(pair.certificate + b"\n" + pair.key)
        both.flush()
        try:
            tls.load_cert_chain(both.name, password="")
        except (ssl.SSLError, ValueError):
            raise BadKeyPair from None
